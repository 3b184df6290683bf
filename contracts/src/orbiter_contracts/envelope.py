"""The envelope of a stream entry: one `data` field with the message's JSON, plus routing fields.

Producers call `encode`, consumers `decode`; nobody else knows how a message is laid out in Redis.
"""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from orbiter_contracts.messages import Message
from orbiter_contracts.queues import DATA_FIELD

M = TypeVar("M", bound=Message)
_SHOWN = 200


class InvalidMessageError(ValueError):
    """A stream entry that is not the message it should be; the text says why, in one line."""


def encode(message: Message, **routing: str) -> dict[str, str]:
    """Lay a message out as the fields of a stream entry.

    Args:
        message: The message.
        **routing: Further fields, for instance `agenttask="team/fix-login"`.

    Returns:
        The fields for XADD.
    """
    return {DATA_FIELD: message.model_dump_json(), **routing}


def text_fields(fields: Mapping[bytes, bytes] | Mapping[str, str]) -> dict[str, str]:
    """Read the fields of an entry as text, whether the client decodes replies or not."""
    return {_text(key): _text(value) for key, value in fields.items()}


def decode(kind: type[M], fields: Mapping[bytes, bytes] | Mapping[str, str]) -> M:
    """Read a message from the fields of a stream entry.

    Args:
        kind: The message class expected on this stream.
        fields: The entry's fields, as bytes or text.

    Returns:
        The message.

    Raises:
        InvalidMessageError: No `data` field, not JSON, or it lacks what `kind` needs.
    """
    data = text_fields(fields).get(DATA_FIELD)
    if data is None:
        raise InvalidMessageError(f"{kind.__name__}: the entry has no field {DATA_FIELD!r}")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "data"
        shown = data if len(data) <= _SHOWN else data[:_SHOWN] + "…"
        raise InvalidMessageError(f"{kind.__name__}.{where}: {first['msg']} in {shown}") from None


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
