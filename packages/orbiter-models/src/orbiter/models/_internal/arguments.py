"""What vendors tell, as other programs can take it: text, data, and arguments of calls."""

import math
from typing import Any

from pydantic_core import from_json

MOST_LEVELS = 150
"""Of arguments; what SDKs read JSON with gives up at 200, those around the arguments included."""


_MOST = 2**53


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


def listed(value: Any) -> list[Any]:
    """Return a list that a vendor tells; what is no list is an empty one."""
    return value if isinstance(value, list) else []


def counted(value: Any) -> int:
    """Return a count that a vendor tells; what is none is 0."""
    return value if isinstance(value, int) and 0 <= value < _MOST else 0


def plain(value: Any, levels: int = MOST_LEVELS) -> Any:
    """Return what a vendor tells as JSON that goes back to it and into histories.

    Args:
        value: JSON as Python reads it; what is no JSON, or has no JSON number, becomes null.
        levels: How deep it may be; what is deeper becomes null.
    """
    if isinstance(value, str):
        return words(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if levels and isinstance(value, dict):
        return {words(name): plain(part, levels - 1) for name, part in value.items()}
    if levels and isinstance(value, list):
        return [plain(part, levels - 1) for part in value]
    return None


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


def arguments_object(arguments: str) -> dict[str, Any]:
    """Read what a model wrote; what is no object that can be sent back is shown as text.

    Args:
        arguments: JSON, as it should be: text of any form and depth.
    """
    try:
        value = from_json(arguments or "{}", allow_inf_nan=False)
    except ValueError:
        value = None
    opened = arguments.count("{") + arguments.count("[")
    if not isinstance(value, dict) or (opened > MOST_LEVELS and _levels(value) > MOST_LEVELS):
        return {"invalid": arguments}
    return value


def _levels(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_levels, inside), default=0)
