"""One run from its begin to its end: what the agent does becomes events in the journal."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from orbiter import Agent, Swarm, run
from orbiter.agent import Provider
from orbiter.approval import InputRequest
from orbiter.config import Spent
from orbiter.errors import InputAnswerError
from orbiter.outputs import as_json
from orbiter.server._internal.journal import Journal
from orbiter.server._internal.metrics import Metrics
from orbiter.server._internal.sessions import Sessions
from orbiter.server._internal.waits import Wait
from orbiter.server.models import Conversation, RunInfo, RunStatus
from orbiter.types import (
    InputRequestEvent,
    Message,
    OrbiterError,
    ResultEvent,
    RunResult,
    UserMessage,
)

logger = logging.getLogger("orbiter.server")
_AGAIN = (
    "the server stopped while this run went on: what was approved may have run already; "
    "answer again"
)


def result_of(spent: Spent, messages: Sequence[Message] = ()) -> RunResult:
    """Return the result of a run that is not gone on with."""
    return RunResult(
        messages=list(messages), usage=spent.usage, steps=sum(spent.steps.values()),
        stop_reason="error",
    )  # fmt: skip


class Follower:
    """Runs agents and writes down what they do."""

    def __init__(
        self, provider: Provider | None, sessions: Sessions, journal: Journal, metrics: Metrics
    ) -> None:
        self._provider = provider
        self._sessions = sessions
        self._journal = journal
        self._metrics = metrics

    async def follow(
        self,
        info: RunInfo,
        target: Agent | Swarm,
        said: UserMessage | None,
        history: Conversation,
        known: int,
        cancelled: Callable[[], bool],
        spent: Spent,
        wait: Wait | None = None,
    ) -> None:
        """Run to the end; a run that is stopped without being cancelled stays unfinished.

        Args:
            info: The run, which the journal knows as open.
            target: Who runs.
            said: What the user says; None to go on with the history.
            history: The conversation before.
            known: How many messages of the history are kept already.
            cancelled: Whether a cancellation is the user's wish.
            spent: What the run has taken already, under servers that died.
            wait: The run that goes on, when the input was an answer to what waited.
        """
        words = "" if said is None or wait is not None else said.parts or said.content
        given: dict[str, Any] = {"messages": history, "spent": spent}
        if wait is not None:
            if wait.open is not None:
                await self._ask(info, wait.open, wait)
                return
            given = {"resume": wait.paused, "answers": wait.answers}
        try:
            stream = run.stream(target, words, provider=self._provider, **given)
        except OrbiterError as problem:
            why = str(problem)
            await self.end(info, RunStatus.FAILED, [], error=why, result=result_of(spent))
            return
        failed: Exception | None = None
        status, error = RunStatus.COMPLETED, None
        try:
            async with stream:
                async for event in stream:
                    if isinstance(event, ResultEvent):
                        continue
                    await self._journal.append(info.id, event.model_dump(mode="json"))
                    if event.type == "tool_call":
                        # a tool that may have been at work must be known to whoever goes on
                        await self._journal.flush()
        except asyncio.CancelledError:
            if not cancelled():
                return
            status = RunStatus.CANCELLED
        except Exception as problem:
            logger.warning("run %s of agent %s failed: %s", info.id, info.agent, problem)
            status, error, failed = RunStatus.FAILED, str(problem), problem
        asked = [said] if said is not None and words else []
        result = stream.result or result_of(spent, [*history, *asked])
        then = None if result.paused is None else Wait(result.paused)
        # what waits has its messages in the paused run, and says them when it has gone on
        told = result.messages[known:] if then is None else []
        if isinstance(failed, InputAnswerError) and wait is not None:
            then, told = wait.again(), []
        await self.end(info, status, told, error=error, result=result, wait=then)

    async def ask_again(self, info: RunInfo, wait: Wait, spent: Spent) -> None:
        """End a run that a dead server was at: what was approved may have been at work."""
        result = result_of(spent)
        await self.end(info, RunStatus.FAILED, [], error=_AGAIN, result=result, wait=wait.again())

    async def _ask(self, info: RunInfo, request: InputRequest, wait: Wait) -> None:
        """Ask the next of several things."""
        event = InputRequestEvent(request=request, agent_name=info.agent)
        await self._journal.append(info.id, event.model_dump(mode="json"))
        result = RunResult(stop_reason="input_required", requests=(request,))
        wait = replace(wait, run_id="")
        await self.end(info, RunStatus.COMPLETED, [], result=result, wait=wait)

    async def end(
        self,
        info: RunInfo,
        status: RunStatus,
        messages: Conversation,
        *,
        error: str | None = None,
        result: RunResult | None = None,
        wait: Wait | None = None,
    ) -> None:
        """Write down how a run ended, and tell it by its last event."""
        outcome: dict[str, Any] = {"error": error}
        if result is not None:
            output = result.output_or_text
            outcome |= {
                "output": as_json(output),
                "stop_reason": result.stop_reason,
                "usage": result.usage.model_dump(),
                "steps": result.steps,
            }
            self._metrics.count_tokens(info.agent, result.usage)
        if wait is not None:
            # whoever answers names the request: it is told however the run has ended
            outcome["input_requests"] = [one.model_dump(mode="json") for one in wait.left]
        self._metrics.runs.labels(info.agent, status.value).inc()
        then = self._sessions.end_run(info, status, outcome, messages, wait)
        event = {"type": "end", "status": status.value, **outcome}
        await self._journal.append(info.id, event, then=then, last=True)
        await self._journal.flush()
