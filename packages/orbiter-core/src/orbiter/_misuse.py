"""Sentences for what is not what a parameter takes: where it is, what it is, what to give."""

from collections.abc import Iterable
from typing import Any

from orbiter.types import OrbiterError

SHOWN = 60
LONGEST_NAME = 200


def shown(value: Any) -> str:
    """Return a value as an error names it: short, and only the keys of a mapping."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, dict):
        # the values may be secrets
        return f"a dict with {', '.join(map(str, value)) or 'nothing in it'}"
    text = repr(value)
    text = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return f"{text} ({type(value).__name__})"


def require(value: Any, kinds: type | tuple[type, ...], where: str, give: str) -> None:
    """Refuse a value of another type.

    Args:
        value: What was given.
        kinds: What it may be an instance of.
        where: The call or the parameter, such as `run(config=...)`.
        give: What to write instead.

    Raises:
        OrbiterError: It is something else.
    """
    if not isinstance(value, kinds):
        raise OrbiterError(f"{where} got {shown(value)}: give {give}")


def require_all(
    values: Any, kinds: type | tuple[type, ...], where: str, give: str, say: str = ""
) -> None:
    """Refuse what is no list of such values; see `require`. `say` is said of one without a list."""
    require(values, Iterable, where, say or give)
    if isinstance(values, str):
        raise OrbiterError(f"{where} got {shown(values)}: give {say or give}")
    for value in values:
        require(value, kinds, where, give)


def require_method(value: Any, names: str, where: str, give: str) -> None:
    """Refuse a value that has none of these methods; a class has none that can be called yet.

    Raises:
        OrbiterError: It has none.
    """
    if not isinstance(value, type):
        for name in names.split():
            if callable(getattr(value, name, None)):
                return
    raise OrbiterError(f"{where} got {shown(value)}: give {give}")


def require_name(value: Any, where: str) -> None:
    """Refuse what is no name of something that is kept: one line of at most LONGEST_NAME.

    Raises:
        OrbiterError: It is something else.
    """
    fits = isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable()
    if not fits:
        give = f"a name on one line, of 1 to {LONGEST_NAME} characters"
        raise OrbiterError(f"{where} got {shown(value)}: give {give}")
