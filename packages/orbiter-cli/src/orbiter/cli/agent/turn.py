"""One turn of an agent: its session before and after, its limits, and what it comes to in JSON."""

import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from orbiter import Agent, run
from orbiter.cli.agent.session import Session, load_session
from orbiter.cli.agent.workspace_tools import ask_user
from orbiter.cli.ui.outcome import UsageError, cut_short
from orbiter.hooks import Hook, HookEvent, HookManager, HookPoint
from orbiter.outputs import as_json
from orbiter.swarm import agents_of
from orbiter.types import Message, OrbiterError, RunResult, ToolResult, Usage

_OF_THE_STOP = ("step", "error")
"""Events of the step that a question stops before it begins."""


class _StopError(OrbiterError):
    """Ends the run from within: the agent asks something, or has cost too much."""


@dataclass
class Turn:
    """What one call of `orbiter exec` is given.

    Attributes:
        prompt: What to say; the answer, when the session waits for one.
        session_id: The session; None begins one that is new.
        must_exist: The session has to be there already.
        max_cost_usd: US dollars at which it stops.
        stream: Whether events are printed as they come.
        home: Where sessions are kept.
    """

    prompt: str
    session_id: str | None
    must_exist: bool
    max_cost_usd: float | None
    stream: bool
    home: Path

    async def run(self, agent: Agent) -> dict[str, Any]:
        """Run it and return the object to print; the session is stored by then.

        Raises:
            UsageError: There is no such session.
        """
        session = load_session(self.home, self.session_id or str(uuid4()))
        if self.must_exist and not session.messages:
            raise UsageError(f"No conversation found with session ID {self.session_id}")
        follower = _Follower(agent, session, self.max_cost_usd)
        messages, prompt = session.continuation(self.prompt)
        result: RunResult | None = None
        error: str | None = None
        try:
            async with run.stream(agent, prompt, messages=messages) as events:
                async for event in events:
                    if event.type == "result":
                        result = event.result
                    elif self.stream and not (follower.question and event.type in _OF_THE_STOP):
                        _print(event.model_dump(mode="json", warnings=False))
        except OrbiterError as failed:
            error = None if follower.question else str(failed)
        finally:
            follower.keep(result)
        return _said(agent, session, follower, result, error)


class _Follower:
    """Counts what the run costs, keeps its conversation, and stops it when it has to wait."""

    def __init__(self, agent: Agent, session: Session, limit: float | None) -> None:
        self._agent = agent
        self._session = session
        self._limit = limit
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.steps = 0
        self.question: str | None = None
        self._call = ""
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

    def keep(self, result: RunResult | None) -> None:
        """Store what was said."""
        if result is not None:
            self._session.messages = list(result.messages)
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
            raise _StopError(f"the limit of {self._limit:g} USD is reached: {self.cost:.4f} USD")
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


def _said(
    agent: Agent,
    session: Session,
    follower: _Follower,
    result: RunResult | None,
    error: str | None,
) -> dict[str, Any]:
    """The object, in the words that Claude Code and droid use too."""
    stopped = result is not None and result.stop_reason != "completed"
    if stopped and result is not None:
        error = f"the agent was stopped by its {result.stop_reason} after {follower.steps} turns"
        if cut := cut_short(result.stop_reason):
            error = f"{cut}; it said last: {result.output_or_text or 'nothing'}"
    usage = follower.usage
    return {
        "type": "result",
        "subtype": "success" if error is None else "error_during_execution",
        "is_error": error is not None,
        "result": error or _text(agent, follower, result, session.messages),
        "session_id": session.id,
        "num_turns": follower.steps,
        "cost_usd": follower.cost,
        "usage": {
            "input_tokens": usage.input_tokens - usage.cached_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
        },
    }


def _text(
    agent: Agent, follower: _Follower, result: RunResult | None, messages: list[Message]
) -> str:
    """The answer; a question and a typed answer come with the verdict that a worker looks for."""
    if follower.question is not None:
        asks = {"status": "input_required", "question": follower.question}
        spoken = next((m.content for m in reversed(messages) if m.role == "assistant"), "")
        return f"{spoken}\n<result>{json.dumps(asks)}</result>".strip()
    if result is None:
        return ""
    if agent.expected is None:
        return str(result.output)
    data = as_json(result.output)
    shown = json.dumps(data, ensure_ascii=False)
    verdict = {"status": "success", "summary": shown[:1000], "data": data}
    return f"<result>{json.dumps(verdict, ensure_ascii=False)}</result>"


def _price(model: str, usage: Usage) -> float | None:
    """US dollars of one call; None where the price table is missing or does not know the model."""
    from orbiter.config import parse_model_string

    try:
        import genai_prices
    except ModuleNotFoundError:
        return None
    provider, name = parse_model_string(model)
    counted = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        return float(genai_prices.calc_price(counted, name, provider_id=provider).total_price)
    except (LookupError, ValueError):
        return None


def _print(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event, ensure_ascii=False) + "\n")
    sys.stdout.flush()
