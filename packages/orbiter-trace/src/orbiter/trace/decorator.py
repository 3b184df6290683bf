"""`@traced`: a span around every call of a function, whatever kind of function it is."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from orbiter.trace._internal.active import active_tracer
from orbiter.trace._internal.generators import NoScope, traced_async_generator, traced_generator
from orbiter.trace.span import trace_span

P = ParamSpec("P")
R = TypeVar("R")


@overload
def traced(fn: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def traced(name: str | None = None, /) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def traced(fn: Any = None, /) -> Any:
    """Trace a function: `@traced`, `@traced()` or `@traced("name")`.

    Sync and async functions, generators and async generators stay what they are. The span of a
    generator lasts from its first item to its end. Arguments and results are not recorded.

    Args:
        fn: The function, or the span's name; by default the function's qualified name.

    Returns:
        The traced function, or a decorator that makes one.
    """
    if callable(fn):
        return _traced(fn, None)
    return lambda function: _traced(function, fn)


def _traced(fn: Callable[..., Any], given: str | None) -> Callable[..., Any]:
    name = given or fn.__qualname__
    attributes = {"code.function.name": f"{fn.__module__}.{fn.__qualname__}"}

    def new_scope() -> Any:
        tracer = active_tracer()
        return NoScope() if tracer is None else tracer.span(name, attributes)

    if inspect.isasyncgenfunction(fn):
        return traced_async_generator(fn, new_scope)
    if inspect.isgeneratorfunction(fn):
        return traced_generator(fn, new_scope)

    if inspect.iscoroutinefunction(fn):

        @functools.wraps(fn)
        async def around_coroutine(*args: Any, **kwargs: Any) -> Any:
            with trace_span(name, attributes):
                return await fn(*args, **kwargs)

        return around_coroutine

    @functools.wraps(fn)
    def around(*args: Any, **kwargs: Any) -> Any:
        with trace_span(name, attributes):
            return fn(*args, **kwargs)

    return around
