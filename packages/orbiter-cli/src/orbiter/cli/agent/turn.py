"""One turn of an agent: its session before and after, its limits, and what it comes to in JSON."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from orbiter import Agent, run
from orbiter.cli.agent.follower import Follower
from orbiter.cli.agent.session import Session, load_session
from orbiter.cli.ui.outcome import UsageError, cut_short
from orbiter.errors import InputAnswerError
from orbiter.outputs import as_json
from orbiter.runner import RunStream
from orbiter.types import Message, OrbiterError, RunResult

_OF_THE_STOP = ("step", "error", "result")
"""Events of the step that a question stops before it begins."""


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
        attempt: Which attempt of a worker's task this is, None for other programs.
        again: Whether a worker before was given this prompt, and did not come to its end.
    """

    prompt: str
    session_id: str | None
    must_exist: bool
    max_cost_usd: float | None
    stream: bool
    home: Path
    attempt: int | None = None
    again: bool = False

    async def run(self, agent: Agent) -> dict[str, Any]:
        """Run it and return the object to print; the session is stored by then.

        Raises:
            UsageError: There is no such session.
        """
        session = load_session(self.home, self.session_id or str(uuid4()))
        if self.must_exist and not session.messages:
            raise UsageError(f"No conversation found with session ID {self.session_id}")
        follower = Follower(agent, session, self.max_cost_usd, self.attempt, again=self.again)
        result: RunResult | None = None
        error: str | None = None
        try:
            given = follower.begin(self.prompt)
            if given is not None:
                result = await self._follow(run.stream(agent, **given), follower)
        except InputAnswerError as refused:
            follower.ask_again(str(refused))
        except OrbiterError as failed:
            error = None if follower.question else str(failed)
        finally:
            follower.keep(result)
        return _said(agent, session, follower, result, error)

    async def _follow(self, stream: RunStream, follower: Follower) -> RunResult | None:
        async with stream as events:
            told = 0
            async for event in events:
                if self.stream and follower.steps > told:
                    told = follower.steps
                    _print({"type": "spent", **_cost(follower)})
                if self.stream and not (follower.question and event.type in _OF_THE_STOP):
                    _print(event.model_dump(mode="json", warnings=False))
        return events.result


def _said(
    agent: Agent,
    session: Session,
    follower: Follower,
    result: RunResult | None,
    error: str | None,
) -> dict[str, Any]:
    """The object, in the words that Claude Code and droid use too."""
    stopped = result is not None and result.stop_reason not in ("completed", "input_required")
    if stopped and result is not None:
        error = f"the agent was stopped by its {result.stop_reason} after {follower.steps} turns"
        if cut := cut_short(result.stop_reason):
            error = f"{cut}; it said last: {result.output_or_text or 'nothing'}"
    return {
        "type": "result",
        "subtype": "success" if error is None else "error_during_execution",
        "is_error": error is not None,
        "result": error or _text(agent, follower, result, session.messages),
        "session_id": session.id,
        # to ask is a turn too, though the model was not asked: a worker takes none for a failure
        **_cost(follower),
        "num_turns": follower.steps or int(follower.question is not None),
    }


def _cost(follower: Follower) -> dict[str, Any]:
    """What the turn has cost so far; told after each answer, for whoever ends it."""
    usage = follower.usage
    return {
        "num_turns": follower.steps,
        "cost_usd": follower.cost,
        "usage": {
            "input_tokens": usage.input_tokens - usage.cached_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
        },
    }


def _text(
    agent: Agent, follower: Follower, result: RunResult | None, messages: list[Message]
) -> str:
    """The answer; a question and a typed answer come with the verdict that a worker looks for."""
    if follower.question is not None:
        asks: dict[str, Any] = {"status": "input_required", "question": follower.question}
        if follower.request is not None:
            asks["request"] = follower.request
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


def _print(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event, ensure_ascii=False) + "\n")
    sys.stdout.flush()
