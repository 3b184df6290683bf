"""A request to a hook as an event: signature, then JSON, then what a task can be made of.

Total: whatever the headers and the body are, there is an event or a reason, in bounded time.
Nothing of a body is looked at before somebody who knows the secret has signed it.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import from_json

from orbiter_contracts.json_text import too_many_values
from orbiter_contracts.trigger_events import MAX_BODY_BYTES, TriggerEvent, sized
from orbiter_contracts.webhook_signatures import (
    BODY_SIGNATURES,
    GITHUB_DELIVERY,
    GITHUB_EVENT,
    GITHUB_SIGNATURE,
    ID,
    SIGNATURE,
    TEST,
    TIMESTAMP,
    TOLERANCE_SECONDS,
    Hook,
    is_signed_body,
    is_signed_message,
)
from orbiter_triggers.events.github import github_fields
from orbiter_triggers.events.refusals import RefusedRequestError
from orbiter_triggers.events.webhooks import cloud_fields, is_binary, plain_fields

MAX_VALUES: Final = 50_000
"""Values of a body, about: a push of 2,048 commits has 40,000."""
_STRUCTURED: Final = "application/cloudevents+json"
_IDENTIFIER: Final = re.compile(r"[!-~]{1,256}")
_EVENT_NAME: Final = re.compile(r"[a-z_]{1,64}")
_SECONDS: Final = re.compile(r"[0-9]{1,12}")
_READ: Final = frozenset(
    {ID, TIMESTAMP, SIGNATURE, *BODY_SIGNATURES, GITHUB_EVENT, GITHUB_DELIVERY, TEST}
    | {"content-type", "content-encoding"}
)


def read_event(
    hook: Hook,
    headers: Iterable[tuple[str, str]],
    body: bytes,
    secrets: Sequence[str],
    now: float,
) -> TriggerEvent:
    """Read the event of a request.

    Args:
        hook: At which address it came.
        headers: Its headers, in their order.
        body: Its body.
        secrets: The hook's, of which one has to have signed it.
        now: Seconds since 1970.

    Raises:
        RefusedRequestError: It is none.
    """
    if len(body) > MAX_BODY_BYTES:
        sentence = f"the body has {len(body)} bytes, {MAX_BODY_BYTES} at most"
        raise RefusedRequestError("oversized", sentence)
    told = _headers(headers)
    delivery = _verified(hook, told, body, secrets, now)
    payload = _payload(told, body)
    digest = hashlib.sha256(body).hexdigest()
    found = _fields(hook, told, payload)
    return sized(
        {
            "trigger": hook.name,
            "uid": hook.uid,
            "scheme": hook.scheme,
            # Where no id is signed whoever has seen a request could give it another one.
            "identity": delivery or digest[:32],
            "delivery": delivery or told.get(GITHUB_DELIVERY, "")[:128] or digest[:32],
            "received": int(now),
            "test": told.get(TEST, "").lower() == "true",
        }
        | found
    )


def _headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers by their names in small letters; one that matters stands there once."""
    listed = [(name.lower(), value) for name, value in headers]
    counted = Counter(name for name, _ in listed if name in _READ or name.startswith("ce-"))
    if twice := next((name for name, number in counted.items() if number > 1), None):
        raise RefusedRequestError("malformed", f"the header {twice[:60]!r} is there twice")
    return dict(listed)


def _verified(
    hook: Hook, told: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> str:
    """The id that was signed; "" where none is.

    Raises:
        RefusedRequestError: Nobody has signed it who knows the secret, or not lately.
    """
    if hook.scheme in ("github", "hmac"):
        names = (GITHUB_SIGNATURE,) if hook.scheme == "github" else BODY_SIGNATURES
        found = next((told[name] for name in names if name in told), None)
        if found is None:
            raise RefusedRequestError("forged", f"there is no header {names[-1]}")
        if not any(is_signed_body(found, secret, body) for secret in secrets):
            sentence = "the signature is not that of this body with the secret of this address"
            raise RefusedRequestError("forged", sentence)
        return ""
    if missing := next((name for name in (ID, TIMESTAMP, SIGNATURE) if name not in told), None):
        raise RefusedRequestError("forged", f"there is no header {missing}")
    identifier, seconds = told[ID], told[TIMESTAMP]
    signed, parts = told[SIGNATURE], (identifier, seconds, body)
    if not any(is_signed_message(signed, secret, *parts) for secret in secrets):
        sentence = "no signature is that of this message with the secret of this address"
        raise RefusedRequestError("forged", sentence)
    if not _SECONDS.fullmatch(seconds) or not _IDENTIFIER.fullmatch(identifier):
        raise RefusedRequestError("malformed", f"{ID} or {TIMESTAMP} is not what they should be")
    if abs(now - int(seconds)) > TOLERANCE_SECONDS:
        sentence = f"it was signed more than {TOLERANCE_SECONDS} s from now, by the clock here"
        raise RefusedRequestError("replayed", sentence)
    return identifier


def _payload(told: Mapping[str, str], body: bytes) -> dict[str, Any]:
    kind = told.get("content-type", "").partition(";")[0].strip().lower()
    if kind.endswith("x-www-form-urlencoded"):
        sentence = "the body is a form; choose application/json as the content type of the webhook"
        raise RefusedRequestError("malformed", sentence)
    if told.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise RefusedRequestError("malformed", "the body is compressed; send it as it is")
    if too_many_values(body, MAX_VALUES):
        raise RefusedRequestError("malformed", f"the body has more than {MAX_VALUES} values")
    try:
        # It refuses what is nested 200 deep, half characters, NaN and numbers of 4,300 digits.
        payload = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise RefusedRequestError("malformed", "the body is no JSON that can be read") from None
    if not isinstance(payload, dict):
        raise RefusedRequestError("malformed", "the body is no JSON object")
    return payload


def _fields(hook: Hook, told: Mapping[str, str], payload: dict[str, Any]) -> dict[str, Any]:
    if hook.scheme == "github":
        event = told.get(GITHUB_EVENT, "")
        if not _EVENT_NAME.fullmatch(event):
            raise RefusedRequestError("malformed", f"there is no header {GITHUB_EVENT}")
        return github_fields(event, payload)
    if hook.scheme != "cloudevents":
        return plain_fields(payload)
    structured = told.get("content-type", "").partition(";")[0].strip().lower() == _STRUCTURED
    if not structured and not is_binary(told):
        sentence = f"no CloudEvent: it is neither {_STRUCTURED} nor has it headers ce-*"
        raise RefusedRequestError("malformed", sentence)
    return cloud_fields(payload, None if structured else told)
