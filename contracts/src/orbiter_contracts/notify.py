"""Where it is told what has become of an object: `spec.notify` of tasks, sessions, profiles. Pure.

A spec names a receiver (a sink, as CloudEvents call it) by its address or by the Secret that has
it, and the Secret with the key that signs what is sent. No secret is in a spec or a status.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orbiter_contracts.bounds import MAX_LINE_CHARACTERS
from orbiter_contracts.spec_errors import spec_problem

Occasion = Literal["Completed", "Failed", "InputRequired", "BudgetWarning", "BudgetExceeded"]
OCCASIONS: Final[tuple[Occasion, ...]] = get_args(Occasion)
OF_AN_END: Final[tuple[Occasion, ...]] = ("Completed", "Failed", "InputRequired")
"""What is told where `events` is not written."""
MAX_SINKS: Final = 5
"""Of one object, with those of its profiles."""
URL_KEY, SIGNING_KEY = "url", "secret"
"""Keys of a Secret where its reference names none."""
_URL: Final = r"^https?://[^\s/?#@\\]{1,255}([/?#][!-~]*)?$"
_END: Final = re.compile(r"[/?#]")
_NAME: Final = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
_KEY: Final = r"^[-._a-zA-Z0-9]{1,253}$"
_DIGEST: Final = 12


class _Part(BaseModel):
    """Written as Kubernetes' fields are; what it does not know it ignores."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class UrlKey(_Part):
    """A key of a Secret in the object's namespace that has an address."""

    name: Annotated[str, Field(pattern=_NAME)]
    key: Annotated[str, Field(pattern=_KEY)] = URL_KEY


class SigningKey(_Part):
    """A key of a Secret in the object's namespace that has what signs: `whsec_…`."""

    name: Annotated[str, Field(pattern=_NAME)]
    key: Annotated[str, Field(pattern=_KEY)] = SIGNING_KEY


class Sink(_Part):
    """One receiver, and what it is told."""

    url: Annotated[str, Field(max_length=MAX_LINE_CHARACTERS, pattern=_URL)] | None = None
    url_from_secret: UrlKey | None = Field(None, alias="urlFromSecret")
    secret_ref: SigningKey = Field(alias="secretRef")
    # Not `on`, which YAML reads as `true`.
    events: Annotated[tuple[Occasion, ...], Field(min_length=1, max_length=len(OCCASIONS))] = (
        OF_AN_END
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.url is None) == (self.url_from_secret is None):
            raise ValueError("write url or urlFromSecret, one of them")
        return self

    @property
    def place(self) -> str:
        """Where it is, for people: its host, because the rest may be as good as a password.

        Of an address in a Secret it is the Secret.
        """
        if self.url is not None:
            scheme, _, rest = self.url.partition("//")
            return f"{scheme}//{_END.split(rest)[0]}"
        assert self.url_from_secret is not None  # noqa: S101 - the validator's
        return f"the address in Secret {self.url_from_secret.name}, key {self.url_from_secret.key}"

    @property
    def identity(self) -> str:
        """What is the same of two that are one receiver, whatever they are told."""
        source = self.url_from_secret
        where = self.url if source is None else f"{source.name}/{source.key}"
        text = f"{where} {self.secret_ref.name}/{self.secret_ref.key}"
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]


Sinks = Annotated[tuple[Sink, ...], Field(max_length=MAX_SINKS)]
"""A list of them, as a spec has it."""


class _List(_Part):
    notify: Sinks = ()


def read_sinks(notify: Any) -> tuple[Sink, ...]:
    """Read the list of a spec or of a status.

    Args:
        notify: A value of JSON, whoever has written it; None for none.

    Raises:
        ValueError: It is none; the text says where, and shows no value.
    """
    try:
        return _List.model_validate({"notify": () if notify is None else notify}).notify
    except ValidationError as error:
        raise ValueError(spec_problem(error, _EXPECTED)) from None


def merged_sinks(sinks: Iterable[Sink]) -> tuple[Sink, ...]:
    """Each receiver once with all that it is told of.

    Args:
        sinks: Those of the profiles and of their object; may be more than `MAX_SINKS`.
    """
    found: dict[str, Sink] = {}
    for sink in sinks:
        known = found.get(sink.identity)
        events = {*sink.events, *(known.events if known else ())}
        told = {"events": tuple(one for one in OCCASIONS if one in events)}
        found[sink.identity] = (known or sink).model_copy(update=told)
    return tuple(found.values())


_EXPECTED: Final = {
    _URL: "is no http(s) URL, or has a password; a URL that is secret belongs into urlFromSecret",
    _NAME: "is no name of a Secret",
    _KEY: "is no key of a Secret",
}
