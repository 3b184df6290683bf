"""One run from its begin to its end: what the agent does becomes events in the journal."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from orbiter import Agent, Swarm, run
from orbiter.agent import Provider
from orbiter.config import Spent
from orbiter.outputs import as_json
from orbiter.server._internal.journal import Journal
from orbiter.server._internal.metrics import Metrics
from orbiter.server._internal.sessions import Sessions
from orbiter.server.models import Conversation, RunInfo, RunStatus
from orbiter.types import Message, ResultEvent, RunResult, UserMessage

logger = logging.getLogger("orbiter.server")


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
        """
        words = "" if said is None else said.parts or said.content
        stream = run.stream(target, words, messages=history, provider=self._provider, spent=spent)
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
            status, error = RunStatus.FAILED, str(problem)
        asked = [] if said is None else [said]
        result = stream.result or result_of(spent, [*history, *asked])
        await self.end(info, status, result.messages[known:], error=error, result=result)

    async def end(
        self,
        info: RunInfo,
        status: RunStatus,
        messages: Conversation,
        *,
        error: str | None = None,
        result: RunResult | None = None,
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
        self._metrics.runs.labels(info.agent, status.value).inc()
        then = self._sessions.end_run(info.id, status, outcome, messages)
        event = {"type": "end", "status": status.value, **outcome}
        await self._journal.append(info.id, event, then=then, last=True)
        await self._journal.flush()
