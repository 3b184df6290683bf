"""Texts of vendors, as UTF-8 can hold them."""

from typing import Any

MOST_LEVELS = 150
"""Of arguments; what SDKs read JSON with gives up at 200, those around the arguments included."""


def words(value: Any) -> str:
    """Return a text that UTF-8 can hold: halves of surrogate pairs are replaced.

    Args:
        value: What a vendor tells; what is no text is none.
    """
    if not isinstance(value, str):
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def worded(value: Any, levels: int = MOST_LEVELS) -> Any:
    """Return a JSON value whose texts UTF-8 can hold, and else as it is.

    Args:
        value: Of any kind.
        levels: How deep it is looked at; what is deeper becomes null.
    """
    if isinstance(value, str):
        return words(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if not levels:
        return None
    if isinstance(value, dict):
        return {worded(key): worded(part, levels - 1) for key, part in value.items()}
    return type(value)(worded(part, levels - 1) for part in value)
