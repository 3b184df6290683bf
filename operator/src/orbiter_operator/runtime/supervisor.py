"""Parts that run side by side: kept going, and waking at the same moments.

A part that fails is started again, after a pause: its failure is the failure of what it was doing
at that moment. The other parts go on, and so does the process: the next replica would read the same
entry and see the same object. What ends the process all the same is named in `fatal`.

What is not urgent is read by all at the same moments, so that one wake-up serves all. Events of
Jobs, of Pods and of what workers do come in crowds. On a busy machine each wake-up of an idle
process costs more than what it then reads, and what comes together is handled together.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

_CANCEL_RETRY_SECONDS = 0.25

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

    def problem(self) -> str | None:
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
        await run_concurrently({name: self._keep(name, part) for name, part in parts.items()})

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


async def run_concurrently(parts: Mapping[str, Coroutine[Any, Any, None]]) -> None:
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
            _, pending = await asyncio.wait(pending, timeout=_CANCEL_RETRY_SECONDS)
        except asyncio.CancelledError:
            pending = {task for task in pending if not task.done()}


HINTS_SECONDS = 0.5
"""What workers tell beside their outputs."""
UNHURRIED_SECONDS = 1.0
"""Jobs and Pods: some fifteen changes for each task, of which hardly one is acted on; and what
nobody waits for at all. A multiple of the other, so that their moments meet."""
_MUCH_BYTES = 262_144
_CROWD = 16


async def next_moment(period: float) -> None:
    """Sleep until the loop's clock is a multiple of the period.

    Args:
        period: Seconds. All who name the same one wake in the same turn of the loop.
    """
    await asyncio.sleep(_left(period))


class Throttle:
    """The pauses of watches that bring much of which little is urgent.

    The API server ends a watch that does not take what it has to say, and until then others wait
    with it. So a pause is shorter after much was read, and ends when much is to be expected.

    Args:
        period: Seconds; a pause ends when the loop's clock is a multiple of them.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self._expected = 0
        self._crowd = asyncio.Event()

    def expect(self) -> None:
        """An object was made, whose changes will come; after some of these all pauses end."""
        self._expected += 1
        if self._expected >= _CROWD:
            self._expected = 0
            self._crowd.set()
            self._crowd.clear()

    async def wait(self, taken: int) -> None:
        """Wait out a pause.

        Args:
            taken: Bytes that were read since the last one.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_left(self._period / (1 + taken // _MUCH_BYTES))):
                await self._crowd.wait()


def _left(period: float) -> float:
    return period - asyncio.get_running_loop().time() % period


def tune_gc() -> None:
    """Collect garbage less often: what is here now stays, and decoded JSON has no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
