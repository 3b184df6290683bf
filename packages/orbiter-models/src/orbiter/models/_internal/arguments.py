"""Arguments of calls for vendors that take nothing but objects."""

from typing import Any

from pydantic_core import from_json

MOST_LEVELS = 150
"""Of arguments; what SDKs read JSON with gives up at 200, those around the arguments included."""


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
