"""Reads the annotations of a tool's parameters and tells which of them means the run's context.

That has to be known for certain: a context that were taken for an ordinary parameter would be
filled in by the model, dependencies and all. So every form of annotation is understood or refused.
"""

import builtins
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from types import FrameType, UnionType
from typing import Annotated, Any, NewType, TypeVar, Union, get_args, get_origin

from orbiter.types import OrbiterError, RunContext

_READERS = (__name__, "orbiter._schema.schema", "orbiter.tool", "abc")
_UNRESOLVED = (NameError, AttributeError, TypeError, SyntaxError)


class ToolDefinitionError(OrbiterError):
    """A function cannot be made a tool as it is written."""


def read_parameters(
    fn: Callable[..., Any], name: str
) -> Iterator[tuple[inspect.Parameter, Any, bool]]:
    """Yield each parameter of `fn`, its type, and whether it means the run's context.

    Args:
        fn: A function, a method, a class or any callable.
        name: The tool's name, for errors.

    Raises:
        ToolDefinitionError: An annotation cannot be resolved.
    """
    try:
        parameters = inspect.signature(fn).parameters.values()
        known, local = _module_names(fn), _defining_scope()
    except (*_UNRESOLVED, ValueError) as error:
        raise ToolDefinitionError(
            f"Tool '{name}': its signature cannot be read: {error}. Write a function that calls it"
        ) from error
    for parameter in parameters:
        annotation = parameter.annotation
        if annotation is parameter.empty:
            yield parameter, Any, False
            continue
        try:
            hint = _resolve(annotation, known, local)
            yield parameter, hint, means_context(hint)
        except _UNRESOLVED as error:
            if not _means_context_by_name(annotation, known, local):
                raise ToolDefinitionError(
                    f"Tool '{name}': the annotation of parameter '{parameter.name}' cannot be "
                    f"resolved: {error}. Define or import the type in the tool's module, not for "
                    "type checkers only"
                ) from error
            yield parameter, RunContext, True


def means_context(hint: Any) -> bool:
    """Whether a parameter of this type takes the run's context: also if it takes others as well."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(means_context(member) for member in get_args(hint))
    if origin is Annotated:
        return means_context(hint.__origin__)
    if isinstance(hint, NewType):
        return means_context(hint.__supertype__)
    if isinstance(hint, TypeVar):
        return any(map(means_context, (hint.__bound__, *hint.__constraints__)))
    kind = origin or hint
    if not isinstance(kind, type):
        # a `type` statement, or a TypeAliasType; other hints stand for nothing
        meant = getattr(kind, "__value__", None)
        return meant is not None and means_context(meant)
    return issubclass(kind, RunContext)


def _resolve(annotation: Any, known: dict[str, Any], local: dict[str, Any]) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    return typing.get_type_hints(holder, known, local, include_extras=True)["it"]


class _Unknown:
    """Stands for a name that only a type checker can resolve, such as the type of the deps."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return RunContext if name == RunContext.__name__ else self

    def __getitem__(self, _: Any) -> "_Unknown":
        return self

    def __call__(self) -> None:
        """Be callable, as `typing` wants a type to be."""

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007 - of values, not of types

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007


class _Names(dict[str, Any]):
    """Local names; those that nothing defines are unknown, but for RunContext itself."""

    def __init__(self, known: dict[str, Any], local: dict[str, Any]) -> None:
        super().__init__(local)
        self._known = known

    def __missing__(self, name: str) -> Any:
        if name in self._known or hasattr(builtins, name):
            raise KeyError(name)
        return RunContext if name == RunContext.__name__ else _Unknown()


def _means_context_by_name(annotation: Any, known: dict[str, Any], local: dict[str, Any]) -> bool:
    """Whether an annotation says RunContext, in words that are known to type checkers only."""
    try:
        return means_context(_resolve(annotation, known, _Names(known, local)))
    except _UNRESOLVED:
        return False


def _module_names(fn: Any) -> dict[str, Any]:
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not isinstance(fn, type) and not inspect.isroutine(fn):
        fn = type(fn).__call__
    fn = inspect.unwrap(fn)
    found = getattr(fn, "__globals__", None)
    if found is None:
        found = vars(sys.modules.get(fn.__module__, builtins))
    return typing.cast("dict[str, Any]", found)


def _defining_scope() -> dict[str, Any]:
    """Return the local names where the tool is written, for annotations that are strings."""
    frame: FrameType | None = sys._getframe(1)
    while frame and frame.f_globals.get("__name__") in _READERS:
        frame = frame.f_back
    return dict(frame.f_locals) if frame else {}
