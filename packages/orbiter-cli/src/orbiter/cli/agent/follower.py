"""Follows one turn: counts what it costs, keeps its conversation, stops it when it has to wait."""

from functools import partial
from typing import Any

from orbiter import Agent
from orbiter.cli.agent.asking import Asking
from orbiter.cli.agent.session import Session
from orbiter.cli.agent.workspace_tools import ask_user
from orbiter.cli.ui.text import money
from orbiter.hooks import Hook, HookEvent, HookManager, HookPoint
from orbiter.swarm import agents_of
from orbiter.types import OrbiterError, RunResult, ToolResult, Usage

_AGAIN = "A worker ended while it went on: what was approved may have run already."


class _StopError(OrbiterError):
    """Ends the run from within: the agent asks something, or has cost too much."""


class Follower:
    """Counts what the run costs, keeps its conversation, and stops it when it has to wait."""

    def __init__(
        self,
        agent: Agent,
        session: Session,
        limit: float | None,
        attempt: int | None = None,
        *,
        again: bool = False,
    ) -> None:
        self._agent = agent
        self._session = session
        self._attempt = attempt
        self._again = again
        self._limit = limit
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.steps = 0
        self.question: str | None = None
        self.request: dict[str, Any] | None = None
        self._call = ""
        self._waiting = Asking(session.paused, session.answers)
        speaking = agents_of(agent, asked=False)
        for one in agents_of(agent):
            ours = [
                Hook(HookPoint.PRE_LLM_CALL, self._afford),
                Hook(HookPoint.POST_LLM_CALL, partial(self._spent, one.model)),
            ]
            if one in speaking:
                # what an agent says that is asked by a tool is no part of the session
                ours.insert(0, Hook(HookPoint.PRE_LLM_CALL, self._before))
                ours.append(Hook(HookPoint.POST_TOOL_CALL, self._asked))
            one.hooks = _Both(one.hooks, HookManager(ours))

    def begin(self, prompt: str) -> dict[str, Any] | None:
        """What the run is given; None when the person has to answer more before.

        Raises:
            InputAnswerError: The prompt is no answer to what waits.
        """
        session, waiting = self._session, self._waiting
        if not waiting:
            messages, words = session.continuation(prompt)
            return {"input": words, "messages": messages}
        if self._may_have_run():
            self.ask_again(_AGAIN)
            return None
        if not waiting.take(prompt):
            session.answers = waiting.answers
            self.ask(waiting)
            return None
        # what was approved runs once, whatever ends this process from here on
        session.paused, session.answers = None, []
        session.save()
        return {"input": "", **waiting.resumption()}

    def _may_have_run(self) -> bool:
        """Whether an attempt or a worker before has been given the answer, and ended otherwise.

        Its session went with its container, and what is here is that of the question.
        """
        if self._again:
            return True
        asked = self._session.asked_in
        return asked is not None and self._attempt is not None and self._attempt > asked + 1

    def ask(self, waiting: Asking, *why: str) -> None:
        """End the turn with what waits."""
        self.question = "\n".join([*why, *waiting.lines()])
        self._session.asked_in = self._attempt
        if waiting.open is not None and waiting.open.kind == "approval":
            self.request = waiting.open.model_dump(mode="json")

    def ask_again(self, why: str) -> None:
        """Ask once more, after an answer that is none."""
        self._waiting.again()
        self._session.paused = self._waiting.paused
        self._session.answers = self._waiting.answers
        self.ask(self._waiting, why)

    def keep(self, result: RunResult | None) -> None:
        """Store what was said."""
        if result is not None:
            self._session.messages = list(result.messages)
        if result is not None and result.paused is not None:
            self._session.paused = result.paused
            self.ask(Asking(result.paused))
        self._session.open_call = self._call or None
        self._session.save()

    def _before(self, event: HookEvent) -> None:
        # What was said survives whatever ends this process from here on.
        self._session.messages = list(event.run.messages)
        if self.question is not None:
            raise _StopError("it asks")
        self._session.save()

    def _afford(self, event: HookEvent) -> None:
        if self._limit is not None and self.cost is not None and self.cost >= self._limit:
            raise _StopError(f"the limit of {self._limit:g} USD is reached: {money(self.cost)} USD")
        if self._limit is not None and self.cost is None:
            raise _StopError(
                f"what {self._agent.model} costs is not known, so that max-cost-usd cannot be kept"
            )

    def _spent(self, model: str, event: HookEvent) -> None:
        if event.response is None:
            return
        self.steps += 1
        self.usage += event.response.usage
        price = _price(model, event.response.usage)
        self.cost = None if price is None or self.cost is None else self.cost + price

    def _asked(self, event: HookEvent) -> None:
        result: ToolResult | None = event.tool_result
        if result is not None and result.tool_name == ask_user.name and result.error is None:
            self.question, self._call = result.content, result.tool_call_id


class _Both(HookManager):
    """The agent's own hooks, then ours."""

    def __init__(self, own: HookManager, ours: HookManager) -> None:
        super().__init__()
        self._own, self._ours = own, ours
        self.observer = own.observer

    def __contains__(self, point: object) -> bool:
        return point in self._own or point in self._ours

    def __bool__(self) -> bool:
        return True

    async def run(self, event: HookEvent) -> None:
        await self._own.run(event)
        await self._ours.run(event)


def _price(model: str, usage: Usage) -> float | None:
    """US dollars of one call; None where the price table is missing or does not know the model."""
    from orbiter.config import parse_model_string
    from orbiter.prices import price

    if not (usage.input_tokens or usage.output_tokens):
        return 0.0
    return price(*parse_model_string(model), usage)
