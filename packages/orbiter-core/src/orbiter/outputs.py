"""How Python values look to a model, and where they are written down: as text and as JSON."""

from typing import Any

from pydantic_core import to_json, to_jsonable_python


def as_text(value: Any) -> str:
    """Return text as it is and everything else as JSON: 5 as "5", a model as an object.

    What JSON does not know is shown by `str`.
    """
    return value if isinstance(value, str) else to_json(value, fallback=str).decode()


def as_json(value: Any) -> Any:
    """Return a value as JSON has it: a dataclass or a model as a dict, a set as a list.

    What JSON does not know is shown by `str`.
    """
    return value if type(value) is str else to_jsonable_python(value, fallback=str)
