"""What vendors tell, as other programs can take it: text, data, and arguments of calls."""

import math
from typing import Any

from pydantic_core import from_json

from orbiter.models._words import MOST_LEVELS, words

_MOST = 2**53


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
