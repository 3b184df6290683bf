"""Writes a transcript beside a turn: a few entries a second, and nobody ever waits for it long."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from redis.exceptions import ResponseError

from orbiter_contracts import Usage
from orbiter_contracts.transcript import WRITES_A_SECOND, AnyEvent
from worker_wrapper.queue.connection import RedisUnavailableError
from worker_wrapper.transcript.scribe import Scribe
from worker_wrapper.turn.turn import TurnReport

SECONDS_BETWEEN: Final = 1 / WRITES_A_SECOND
LONGEST_PAUSE_SECONDS: Final = 30.0
"""Between two tries at a Redis that refuses."""
FINISH_SECONDS: Final = 0.5
"""How long the end of a turn waits for the end of its transcript."""

Append = Callable[[Sequence[AnyEvent]], Awaitable[None]]
"""Writes some events; it may raise what Redis raises, and is then called with them again."""


class Transcript:
    """Of one turn; use it around the turn, and `hear` each line of the agent's output.

    Args:
        scribe: Makes the events.
        append: Writes them.
    """

    def __init__(self, scribe: Scribe, append: Append) -> None:
        self._scribe = scribe
        self._append = append
        self._stuck: list[AnyEvent] = []
        self._failures = 0
        self._pending = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to write."""
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write no more."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def left(self) -> int:
        """How many events could not be written, as far as is known."""
        return len(self._stuck) + self._scribe.left

    def ask(self, text: str) -> None:
        """The agent is asked this by a user."""
        self._scribe.ask(text)
        self._pending.set()

    def hear(self, line: Mapping[str, Any]) -> None:
        """Take a line of the agent's output; called by whoever reads it."""
        self._scribe.hear(line)
        self._pending.set()

    def miss(self, size: int) -> None:
        """A line of so many bytes was too long to be read."""
        self._scribe.miss(size)
        self._pending.set()

    async def finish(self, report: TurnReport | None = None, usage: Usage | None = None) -> None:
        """Write what is left, unless that takes long.

        Args:
            report: What came of the turn; None when another pod goes on with it.
            usage: What all of it has cost.
        """
        if report is None:
            self._scribe.close()
        else:
            self._scribe.end(report, usage)
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                async with self._writing:
                    while await self._write():
                        pass

    async def _run(self) -> None:
        while True:
            await self._pending.wait()
            async with self._writing:
                self._pending.clear()
                await self._write()
            if self._scribe.pending or self._stuck:
                self._pending.set()
            await asyncio.sleep(min(SECONDS_BETWEEN * 2**self._failures, LONGEST_PAUSE_SECONDS))

    async def _write(self) -> bool:
        """Write one entry; the same once more if it is not known whether it arrived."""
        self._stuck = self._stuck or self._scribe.take()
        if not self._stuck:
            return False
        try:
            await self._append(self._stuck)
        except (RedisUnavailableError, ResponseError):
            self._failures = min(self._failures + 1, 10)
            return False
        self._stuck, self._failures = [], 0
        return True
