"""The state of a run inside of another: it has a conversation of its own, and one purse with it."""

from typing import Any

from orbiter._internal.state import Emit, RunState
from orbiter.types import (
    OrbiterError,
    RunResult,
    StopReason,
    StreamEvent,
    Usage,
    UsageEvent,
)

_DEEPEST = 20


class NestedState(RunState):
    """What a nested run has done, which counts for the outer run too.

    The limits, the deadline and the numbers of the steps are the outer run's; usage, steps and
    messages of the result are its own.
    """

    __slots__ = ("_outer", "_own_steps")

    def __init__(self, outer: RunState, *, heard: bool) -> None:
        """Begin inside of `outer`.

        Args:
            outer: The run that this one is a part of.
            heard: Whether the reader of its stream is told of all that happens here; else of usage.

        Raises:
            OrbiterError: Runs are nested too deep; agents may ask each other in a circle.
        """
        self._outer: RunState | None = None
        self._own_steps = 0
        super().__init__(
            provider_for=outer.provider_for,
            history=[],
            deps=outer.deps,
            emit=outer.emit if heard else _usage_only(outer.emit),
            settings=outer.settings,
            nested=outer.nested,
        )
        self._outer = outer
        self.observer, self.deadline = outer.observer, outer.deadline
        if outer.journal is not None:
            self.journal = outer.journal.aside()
        self.depth = outer.depth + 1
        if self.depth > _DEEPEST:
            raise OrbiterError(
                f"runs are nested more than {_DEEPEST} deep: do agents ask in circles?"
            )

    @property
    def steps(self) -> int:
        """The outer run's, by which steps are numbered."""
        return 0 if self._outer is None else self._outer.steps

    @steps.setter
    def steps(self, number: int) -> None:
        if self._outer is not None:
            self._own_steps += number - self._outer.steps
            self._outer.steps = number

    def count(self, usage: Usage) -> None:
        """Note a finished model call, here and outside."""
        super().count(usage)
        if self._outer is not None:
            self._outer.count(usage)

    def limit_met(self) -> StopReason | None:
        """Say which limit of the outer run forbids the next model call, if any."""
        return None if self._outer is None else self._outer.limit_met()

    def result(self, output: Any, stop_reason: StopReason) -> RunResult:
        """Build the result of the nested run alone."""
        whole = super().result(output, stop_reason)
        return whole.model_copy(update={"steps": self._own_steps})


def _usage_only(emit: Emit | None) -> Emit | None:
    if emit is None:
        return None

    async def told(event: StreamEvent) -> None:
        if isinstance(event, UsageEvent):
            await emit(event)

    return told
