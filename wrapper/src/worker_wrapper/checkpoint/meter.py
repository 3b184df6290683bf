"""What a turn has cost so far, summed from what the agent prints. Pure.

A CLI that is ended tells no sum, and a resumed one does not tell what the turn before had cost.
"""

from collections.abc import Mapping
from typing import Any, Final

from orbiter_contracts import Usage, clamped_count
from worker_wrapper.agents.base import Agent, Session
from worker_wrapper.turn.usage import growth, together

_THREADS: Final = 1000
"""Of how many agents of an agent the last answer is told apart."""
_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class Meter:
    """Reads each event of a turn.

    Attributes:
        events: How many there were since the model was first heard: whether there is something to
            go on from. Before that the conversation may not have the prompt yet.
        conversation: The id that the CLI gives to the conversation, once it has.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._ended: Usage | None = None
        self._open: dict[str, Usage] = {}
        self.events = 0
        self.conversation: str | None = None

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take one event."""
        self.conversation = self.conversation or self._agent.began(event)
        told = self._agent.spent(event)
        if self.events or told is not None or self._agent.heard(event):
            self.events += 1
        if told is None:
            return
        before = self._open.pop(told.thread, None)
        if told.opens or before is None:
            self._ended = together(self._ended, before)
            usage = told.usage.model_copy(update={"turns": 1}) if told.opens else told.usage
        else:
            usage = _grown(before, told.usage)
        if len(self._open) >= _THREADS:
            oldest = next(iter(self._open))
            self._ended = together(self._ended, self._open.pop(oldest))
        self._open[told.thread] = usage

    @property
    def spent(self) -> Usage | None:
        """All of it; None when nothing was told."""
        total = self._ended
        for usage in self._open.values():
            total = together(total, usage)
        return total


def own_cost(heard: Usage | None, recorded: Usage | None, session: Session) -> Usage | None:
    """What this process has cost: the sum of what was told, with the money that the CLI counted.

    Args:
        heard: What a meter says.
        recorded: What the conversation's own file says.
        session: The conversation as the turn began with it.
    """
    if recorded is None:
        return heard
    own = growth(recorded, session.totals)
    if heard is None:
        return own
    if own.output_tokens + own.input_tokens < heard.output_tokens + heard.input_tokens:
        return heard.model_copy(update={"cost_usd": own.cost_usd or None})
    return own.model_copy(update={"turns": heard.turns})


def _grown(before: Usage, now: Usage) -> Usage:
    """The later word on one answer; what it leaves out is as before."""
    cost = before.cost_usd if now.cost_usd is None else now.cost_usd
    counts = {name: max(getattr(before, name), getattr(now, name)) for name in _COUNTS}
    turns = clamped_count(max(before.turns, now.turns))
    return Usage(**counts, turns=turns, cost_usd=cost)
