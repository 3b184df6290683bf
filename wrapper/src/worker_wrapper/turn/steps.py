"""What took a worker's time, for the trace of its task: its own phases and its agent's tools."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from orbiter_contracts.bounds import MAX_COUNT
from orbiter_contracts.tracing import MAX_STEPS, Step

_LONGEST_SECONDS = 1e6
"""Eleven days: whoever says more has not measured."""


class StepLog:
    """Of one attempt, in this pod. What there is no room for are the tools that were quickest.

    Args:
        clock: Tells the time of day.
        kept: Whether anybody wants to know: whether the task is traced.
    """

    def __init__(self, clock: Callable[[], datetime], *, kept: bool = True) -> None:
        self._clock = clock
        self._kept = kept
        self._phases: list[Step] = []
        self._tools: list[Step] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What happens within is a phase of that name; it has failed if it raises."""
        began, failed = self._clock(), True
        try:
            yield
            failed = False
        finally:
            took = round((self._clock() - began).total_seconds() * 1000)
            if self._kept:
                took = min(max(took, 0), MAX_COUNT)
                self._phases.append(
                    Step(name=name, started_at=began, duration_ms=took, failed=failed)
                )
                self._make_room()

    def tool(self, name: str, seconds: float | None, *, failed: bool) -> None:
        """A tool has just answered.

        Args:
            name: As the agent's program calls it.
            seconds: How long it took, if that is known.
            failed: Whether it has.
        """
        if not self._kept:
            return
        took = min(max(seconds or 0.0, 0.0), _LONGEST_SECONDS)
        self._tools.append(
            Step(
                name=name or "unnamed",
                kind="tool",
                started_at=self._clock() - timedelta(seconds=took),
                duration_ms=round(took * 1000),
                failed=failed,
            )
        )
        self._make_room()

    @property
    def steps(self) -> list[Step]:
        """All of them, in the order of their beginnings."""
        return sorted((*self._phases, *self._tools), key=lambda step: step.started_at)

    def _make_room(self) -> None:
        if len(self._tools) > MAX_STEPS - len(self._phases):
            self._tools.remove(min(self._tools, key=lambda step: step.duration_ms))
