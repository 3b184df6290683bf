"""Keep the parts of the operator going: a part that fails is started again, after a pause.

A part's failure is the failure of what it was doing at that moment. The other parts go on, and so
does the process: the next replica would read the same entry and see the same object. What ends the
process all the same is named in `fatal`.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

import structlog

_AGAIN_SECONDS = 0.25

log = structlog.get_logger(__name__)
Part = Callable[[], Coroutine[Any, Any, None]]
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""A part that has run for so long is well again."""


class Supervisor:
    """Runs parts side by side and starts those again that fail.

    Args:
        fatal: The exceptions that end all of it.
        clock: Monotonic seconds.
        first_pause: Seconds before a part is started again; they double each time.
    """

    def __init__(
        self,
        *,
        fatal: tuple[type[Exception], ...],
        clock: Callable[[], float] = time.monotonic,
        first_pause: float = FIRST_PAUSE_SECONDS,
    ) -> None:
        self._fatal = fatal
        self._clock = clock
        self._first_pause = first_pause
        self._failed: dict[str, tuple[float, str]] = {}

    def trouble(self) -> str | None:
        """Which parts have failed and not run for a minute since, or None."""
        since = self._clock() - STEADY_SECONDS
        recent = [f"{name}: {error}" for name, (at, error) in self._failed.items() if at > since]
        return "; ".join(recent) or None

    async def run(self, parts: Mapping[str, Part]) -> None:
        """Run until cancelled.

        Args:
            parts: How to start each part, by name.

        Raises:
            Exception: One of `fatal`, which a part has raised.
        """
        await run_together({name: self._keep(name, part) for name, part in parts.items()})

    async def _keep(self, name: str, part: Part) -> None:
        pause = self._first_pause
        while True:
            began = self._clock()
            error = await _outcome(name, part)
            if isinstance(error, self._fatal):
                raise error
            if self._clock() - began > STEADY_SECONDS:
                pause = self._first_pause
            self._failed[name] = (self._clock() + pause, f"{type(error).__name__}: {error}"[:200])
            log.error(
                "a part of the operator has failed; it is started again",
                part=name,
                seconds=pause,
                exc_info=error,
            )
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


async def _outcome(name: str, part: Part) -> BaseException:
    """Run a part to its end. Returns what ended it.

    In a task of its own: kopf, when it fails, cancels tasks that are not its own.
    """
    task = asyncio.create_task(part(), name=name)
    try:
        await asyncio.wait({task})
    finally:
        await end({task})
    if task.cancelled():
        return RuntimeError("it was cancelled by another part")
    return task.exception() or RuntimeError("it has ended without a reason")


def every(number: int, name: str, part: Part) -> dict[str, Part]:
    """So many equal parts."""
    return {f"{name} {index}": partial(part) for index in range(number)}


async def run_together(parts: Mapping[str, Coroutine[Any, Any, None]]) -> None:
    """Run until the first part ends, which none should, or until cancelled; then end the others.

    Args:
        parts: What to run, by name.

    Raises:
        Exception: What the first part that ended raised.
        RuntimeError: It ended without a reason.
    """
    tasks = {asyncio.create_task(part, name=name) for name, part in parts.items()}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(tasks)
    # Redis takes all its readers along at once: that nobody asked for the others' is no error.
    _ = [task.exception() for task in tasks if not task.cancelled()]
    for task in done:
        task.result()
        raise RuntimeError(f"{task.get_name()} has ended")


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they are gone, even if whoever waits for that is cancelled too."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        try:
            _, pending = await asyncio.wait(pending, timeout=_AGAIN_SECONDS)
        except asyncio.CancelledError:
            pending = {task for task in pending if not task.done()}
