"""Wraps generators in a span.

A generator runs in the context of whoever asks it for an item, so its span must be current only
while it works: it is attached before each resumption and detached after it.
"""

import functools
from collections.abc import Callable
from typing import Any

OpenScope = Callable[[], Any]


class NoScope:
    """In the place of a span while tracing is off."""

    def open(self) -> None: ...

    def attach(self) -> None: ...

    def detach(self) -> None: ...

    def close(self, error: BaseException | None = None) -> None: ...


def traced_generator(fn: Callable[..., Any], new_scope: OpenScope) -> Callable[..., Any]:
    """Wrap a generator function; what is sent, thrown and returned passes through."""

    @functools.wraps(fn)
    def around(*args: Any, **kwargs: Any) -> Any:
        items = fn(*args, **kwargs)
        scope = new_scope()
        scope.open()
        resume, value = items.send, None
        try:
            while True:
                scope.attach()
                try:
                    item = resume(value)
                except StopIteration as end:
                    scope.close()
                    return end.value
                finally:
                    scope.detach()
                resume = items.send
                try:
                    value = yield item
                except GeneratorExit:
                    raise
                except BaseException as error:
                    resume, value = items.throw, error
        except GeneratorExit:
            scope.attach()
            try:
                items.close()
            finally:
                scope.detach()
                scope.close()
            raise
        except BaseException as error:
            scope.close(error)
            raise

    return around


def traced_async_generator(fn: Callable[..., Any], new_scope: OpenScope) -> Callable[..., Any]:
    """Wrap an async generator function; what is sent and thrown passes through."""

    @functools.wraps(fn)
    async def around(*args: Any, **kwargs: Any) -> Any:
        items = fn(*args, **kwargs)
        scope = new_scope()
        scope.open()
        resume, value = items.asend, None
        try:
            while True:
                scope.attach()
                try:
                    item = await resume(value)
                except StopAsyncIteration:
                    scope.close()
                    return
                finally:
                    scope.detach()
                resume = items.asend
                try:
                    value = yield item
                except GeneratorExit:
                    raise
                except BaseException as error:
                    resume, value = items.athrow, error
        except GeneratorExit:
            scope.attach()
            try:
                await items.aclose()
            finally:
                scope.detach()
                scope.close()
            raise
        except BaseException as error:
            scope.close(error)
            raise

    return around
