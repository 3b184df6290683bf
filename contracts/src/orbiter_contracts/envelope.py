"""The envelope of a stream entry: one `data` field with the message's JSON, plus routing fields.

Producers call `encode`, consumers `decode`; nobody else knows how a message is laid out in Redis.
"""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from orbiter_contracts.bounds import MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES
from orbiter_contracts.json_text import too_many_values
from orbiter_contracts.messages import Message
from orbiter_contracts.queues import DATA_FIELD

M = TypeVar("M", bound=Message)
_SHOWN = 200
_REASON_CHARACTERS = 600


class InvalidMessageError(ValueError):
    """A stream entry that is not the message it should be; the text says why, in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(excerpt(reason, _REASON_CHARACTERS))


def encode(message: Message, **routing: str) -> dict[str, str]:
    """Lay a message out as the fields of a stream entry.

    Args:
        message: The message.
        **routing: Further fields, for instance `agenttask="team/fix-login"`.

    Returns:
        The fields for XADD.

    Raises:
        InvalidMessageError: It is larger than readers take.
    """
    data = message.model_dump_json()
    _check_bounds(type(message).__name__, data)
    return {DATA_FIELD: data, **routing}


def text_fields(fields: Mapping[bytes, bytes] | Mapping[str, str]) -> dict[str, str]:
    """Read the fields of an entry as text, whether the client decodes replies or not.

    Total: bytes that are not UTF-8 become replacement characters.
    """
    return {_text(key): _text(value) for key, value in fields.items()}


def decode(kind: type[M], fields: Mapping[bytes, bytes] | Mapping[str, str]) -> M:
    """Read a message from the fields of a stream entry.

    Total: whatever is in the fields, there is no other exception than the one below.

    Args:
        kind: The message class expected on this stream.
        fields: The entry's fields, as bytes or text.

    Returns:
        The message.

    Raises:
        InvalidMessageError: No `data` field, not JSON, too large, or not what `kind` needs.
    """
    for key, value in fields.items():
        if key in (DATA_FIELD, DATA_FIELD.encode()):
            return decode_json(kind, value)
    raise InvalidMessageError(f"{kind.__name__}: the entry has no field {DATA_FIELD!r}")


def decode_json(kind: type[M], data: bytes | str) -> M:
    """Read a message from its JSON; total, like `decode`.

    Args:
        kind: The message class.
        data: Its JSON, as bytes, or as text however it was made of bytes.

    Raises:
        InvalidMessageError: It is no such message; the text says why in one printable line.
    """
    _check_bounds(kind.__name__, data)
    try:
        text = data.decode() if isinstance(data, bytes) else data.encode().decode()
        return kind.model_validate_json(text)
    except UnicodeError:
        why = f"not UTF-8 in {excerpt(data)}"
        raise InvalidMessageError(f"{kind.__name__}.{DATA_FIELD}: {why}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or DATA_FIELD
        why = f"{excerpt(where)}: {first['msg']} in {excerpt(data)}"
        raise InvalidMessageError(f"{kind.__name__}.{why}") from None


def excerpt(data: bytes | str, characters: int = _SHOWN) -> str:
    r"""The beginning of something a stranger wrote, as one printable line.

    Bytes that are not UTF-8 and what would break the line are shown as `\xff` and `\n`.
    """
    if isinstance(data, bytes):
        # Four bytes are one character at least, so this is one too many if there are so many.
        text = data[: 4 * (characters + 1)].decode("utf-8", "backslashreplace")
    else:
        text = data[: characters + 1]
    shown = "".join(map(_shown, text[: characters + 1]))
    return shown if len(shown) <= characters else shown[:characters] + "…"


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":
        # How a client that decodes with `surrogateescape` hands on a byte that is not UTF-8.
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


def _check_bounds(kind: str, data: bytes | str) -> None:
    # The characters of a text are never more than its bytes.
    size = len(data)
    if size <= MAX_MESSAGE_BYTES and isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
        size = len(data)
    if size > MAX_MESSAGE_BYTES:
        raise InvalidMessageError(
            f"{kind}.{DATA_FIELD}: {size} bytes; a message has at most {MAX_MESSAGE_BYTES}"
        )
    if isinstance(data, bytes) and too_many_values(data, MAX_MESSAGE_VALUES):
        raise InvalidMessageError(f"{kind}.{DATA_FIELD}: more than {MAX_MESSAGE_VALUES} values")


def _text(value: bytes | str) -> str:
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    return raw.decode("utf-8", "replace")
