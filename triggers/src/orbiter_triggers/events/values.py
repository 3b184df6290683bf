"""Values in JSON of a stranger's, taken as what they should be. Total: what is none is empty."""

from typing import Any

from orbiter_contracts.bounds import INT64


def inside(value: Any, *path: str) -> Any:
    """What is at a path of names; None when there is nothing."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def text(value: Any, *path: str) -> str:
    """A text, or an integer as text."""
    found = inside(value, *path)
    if isinstance(found, str):
        return found
    if isinstance(found, int) and not isinstance(found, bool) and -INT64 <= found < INT64:
        return str(found)
    return ""


def texts(value: Any, most: int) -> tuple[str, ...]:
    """The texts of a list, at most so many."""
    if not isinstance(value, list):
        return ()
    return tuple(one for one in value if isinstance(one, str))[:most]
