"""Runs async code from code that is not async, also where an event loop runs already."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def run_to_the_end(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run in an event loop that is made for it.

    In a notebook one runs in this thread already: then the new one is in a thread of its own, and
    the one here stands still until it is done.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(main())
    result: T = _Beside(main).wait()
    return result


class _Beside:
    """A thread with an event loop, for one piece of work."""

    def __init__(self, main: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._main = main
        self._done: Future[Any] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._interrupted = False
        around = copy_context()
        self._thread = threading.Thread(
            target=around.run, args=(self._work,), name="orbiter run.sync", daemon=True
        )

    def wait(self) -> Any:
        """Start it and wait for its result; whoever interrupts the wait cancels the work."""
        try:
            # it may be at work, and who interrupts be here, before this has returned
            self._thread.start()
            return self._done.result()
        except BaseException:
            if not self._done.done():
                self._cancel()
            raise
        finally:
            # of one that was interrupted before it began there is nothing to wait for
            with suppress(RuntimeError):
                self._thread.join()

    def _cancel(self) -> None:
        self._interrupted = True
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            # it may have come to its end by now
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)

    def _work(self) -> None:
        try:
            result = asyncio.run(self._noted())
        except BaseException as error:
            self._done.set_exception(error)
        else:
            self._done.set_result(result)

    async def _noted(self) -> Any:
        self._task, self._loop = asyncio.current_task(), asyncio.get_running_loop()
        if self._interrupted:
            raise asyncio.CancelledError
        return await self._main()
