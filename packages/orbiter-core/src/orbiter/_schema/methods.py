"""Tells functions that belong to a class: their first parameter is Python's to give."""

import inspect
from typing import Any


def written_in_class(fn: Any) -> str:
    """Return the qualified name of the class whose body holds the function, or an empty text."""
    if not inspect.isfunction(fn):
        return ""
    outer = fn.__qualname__.rpartition(".")[0]
    return "" if outer.endswith("<locals>") else outer


def is_method(fn: Any) -> bool:
    """Whether a function is a method for certain; one with another word for `self` may be one."""
    if isinstance(fn, classmethod):
        return True
    if not written_in_class(fn):
        return False
    return next(iter(inspect.signature(fn).parameters), "") in ("self", "cls")


def way_to(fn: Any) -> str:
    """Write how a method is reached through an instance, for errors."""
    outer, _, name = fn.__qualname__.rpartition(".")
    return f"{outer.rpartition('.')[2]}(...).{name}"
