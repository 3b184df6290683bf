"""How Python values look to a model."""

from typing import Any

from pydantic_core import to_json


def as_text(value: Any) -> str:
    """Return text as it is and everything else as JSON: 5 as "5", a model as an object.

    What JSON does not know is shown by `str`.
    """
    return value if isinstance(value, str) else to_json(value, fallback=str).decode()
