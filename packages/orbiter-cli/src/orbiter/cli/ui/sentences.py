"""Any error as one sentence for the person at the terminal: the thing, its value, the next step."""

import errno
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

import orbiter
from orbiter.cli.ui.text import one_line
from orbiter.types import OrbiterError

DEBUG = "ORBITER_DEBUG"
"""The variable that shows where an error comes from, as Python tells it."""
_LONGEST_VALUE = 60
_MOST_MISTAKES = 3
EXTRAS = {
    "orbiter.eval": "eval",
    "orbiter.mcp": "mcp",
    "orbiter.server": "serve",
    "orbiter.trace": "trace",
    "opentelemetry": "trace",
    "worker_wrapper": "local",
    "fakeredis": "local",
    "jsonschema": "local",
    "mcp": "kubernetes",
    "mcp_types": "kubernetes",
    "redis": "kubernetes",
    "orbiter_contracts": "kubernetes",
}
"""The extra of orbiter-cli that a missing module comes with."""
_STEPS = {
    errno.EEXIST: "name a directory",
    errno.ENOTDIR: "name a place in a directory",
    errno.EISDIR: "name a file",
    errno.EACCES: "choose a place that you may use",
    errno.EPERM: "choose a place that you may use",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOSPC: "make room, or choose another place",
}


def sentence(error: BaseException) -> str:
    """Say what went wrong, whatever it is."""
    if isinstance(error, ModuleNotFoundError) and (extra := _extra(error.name or "")):
        return f"this needs {error.name}: pip install 'orbiter-cli[{extra}]'"
    if isinstance(error, ValidationError):
        return validation_sentence(error)
    if isinstance(error, OSError):
        return os_sentence(error)
    if isinstance(error, OrbiterError):
        return _of_ours(error)
    return f"{type(error).__name__}: {error or 'without a word'}{_place(error)}"


def os_sentence(error: OSError) -> str:
    """Name the file or address, why it cannot be used, and what to do."""
    why = error.strerror or str(error) or type(error).__name__
    if error.filename is None:
        return why
    step = _STEPS.get(error.errno or 0, "")
    parent = Path(str(error.filename)).parent
    if error.errno == errno.ENOENT and not parent.is_dir():
        step = f"make the directory {parent} first"
    elif error.errno == errno.ENOENT:
        step = "choose another place"  # such as /proc, where nobody can make a file
    return f"{error.filename} cannot be used: {why}{step and f'; {step}'}"


def validation_sentence(
    error: ValidationError, place: Callable[[tuple[int | str, ...]], str] | None = None
) -> str:
    """Name each field that does not fit, and the value it has.

    Args:
        error: Of any model.
        place: Writes a field's place; with dots by default.
    """
    mistakes = error.errors(include_url=False)
    told = []
    for one in mistakes[:_MOST_MISTAKES]:
        where = place(one["loc"]) if place else ".".join(map(str, one["loc"]))
        told.append(f"{where}: {mistake(one)}" if where else mistake(one))
    more = len(mistakes) - _MOST_MISTAKES
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")


def mistake(one: ErrorDetails) -> str:
    """What is wrong with one field, in the words of pydantic, with the value."""
    if one["type"] == "missing":
        return "it is missing"
    if one["type"] == "extra_forbidden":
        return "there is no such field"
    message = one["msg"].removeprefix("Value error, ")
    # pydantic quotes what tells the kinds of a union apart
    return message if "tag" in one["type"] else f"{message}, not {shown(one['input'])}"


def shown(value: object) -> str:
    """A value as a sentence quotes it; of what has parts only what it is."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return one_line(repr(value), _LONGEST_VALUE)


def _of_ours(error: OrbiterError) -> str:
    """Its own text, without the raw words of what it was made of."""
    text = str(error)
    for cause in _causes(error):
        if isinstance(cause, ValidationError):
            for raw in (str(cause), str(cause).partition("\n")[0]):
                text = text.replace(raw, validation_sentence(cause))
        elif isinstance(cause, OSError) and cause.strerror:
            text = text.replace(str(cause), cause.strerror)
    return text


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    while (cause := error.__cause__ or error.__context__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        error = cause


def _extra(module: str) -> str:
    found = (extra for name, extra in EXTRAS.items() if f"{module}.".startswith(f"{name}."))
    return next(found, "")


def _place(error: BaseException) -> str:
    """Where in the user's own files it was raised."""
    installed = (sys.prefix, sys.base_prefix, "<", *map(str, orbiter.__path__))
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not one.filename.startswith(installed)]
    where = f"{own[-1].filename}:{own[-1].lineno}; " if own else ""
    return f" ({where}{DEBUG}=1 shows the traceback)"
