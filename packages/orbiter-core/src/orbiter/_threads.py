"""Threads for the users' functions, which may hang.

They are daemons, so none keeps the process from ending, and they are not those of the event loop's
own executor, on which files and names wait. Nobody can end a thread: one whose caller no longer
waits is left to itself, and another takes its place.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

_MOST = 64
_IDLE_SECONDS = 10.0


class _Job:
    """One call, from when it was handed in until nobody waits for it any more."""

    __slots__ = ("abandoned", "call", "loop", "started", "waiter")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.loop = asyncio.get_running_loop()
        self.waiter: asyncio.Future[Any] = self.loop.create_future()
        self.started = False
        self.abandoned = False

    def run(self) -> Callable[[], None]:
        """Make the call, and return what tells the caller of it."""
        value: Any = None
        error: BaseException | None = None
        try:
            value = self.call()
        except StopIteration as stop:
            # a future takes no such exception
            error = RuntimeError(f"the function raised StopIteration({stop.value!r})")
        except BaseException as raised:
            error = raised
        return partial(self._tell, value, error)

    def refuse(self, error: Exception) -> None:
        """Tell the caller that nobody makes the call."""
        self._tell(None, error)

    def _tell(self, value: Any, error: BaseException | None) -> None:
        # a loop that is closed has nobody who waits
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._set, value, error)

    def _set(self, value: Any, error: BaseException | None) -> None:
        if self.waiter.done():
            return
        if error is None:
            self.waiter.set_result(value)
        else:
            self.waiter.set_exception(error)


class Threads:
    """At most so many threads that somebody waits for; further calls wait for one of them."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self.reset()

    def reset(self) -> None:
        """Begin without threads: a process that was forked has none of its parent's."""
        self._changed = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._threads = self._idle = 0

    async def call(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Call a function in a thread, with the caller's context variables.

        Who is cancelled here no longer waits for it; the function goes on.
        """
        job = _Job(partial(copy_context().run, partial(function, **arguments)))
        with self._changed:
            self._jobs.append(job)
            self._wake()
        try:
            return await job.waiter
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def _wake(self) -> None:
        """Have somebody take the last job: one that is idle, or about to be, or a new thread."""
        if self._idle < len(self._jobs) and self._threads < self._most:
            self._threads += 1
            self._idle += 1
            try:
                threading.Thread(target=self._work, name="orbiter tool", daemon=True).start()
            except RuntimeError as error:
                # the system gives no more; those that are there take the job
                self._threads -= 1
                self._idle -= 1
                while self._jobs and not self._threads:
                    self._jobs.popleft().refuse(error)
        else:
            self._changed.notify()

    def _abandon(self, job: _Job) -> None:
        with self._changed:
            job.abandoned = True
            if not job.started:
                with suppress(ValueError):
                    self._jobs.remove(job)
                return
            self._threads -= 1
            if self._jobs:
                self._wake()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            told = job.run()
            with self._changed:
                abandoned = job.abandoned
                if not abandoned:
                    # from here on it is too late to abandon it
                    job.started = False
                    self._idle += 1
            told()
            if abandoned:
                # another thread has its place
                return

    def _next(self) -> _Job | None:
        with self._changed:
            while not self._jobs:
                if not self._changed.wait(_IDLE_SECONDS) and not self._jobs:
                    self._threads -= 1
                    self._idle -= 1
                    return None
            self._idle -= 1
            job = self._jobs.popleft()
            job.started = True
            return job


THREADS = Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=THREADS.reset)


async def within(seconds: float, work: Any) -> Any:
    """Await something for so long.

    Raises:
        TimeoutError: It took longer; the text says so.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(f"no answer within {seconds:g} s") from error
