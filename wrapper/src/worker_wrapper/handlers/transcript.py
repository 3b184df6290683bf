"""The transcript of what this worker's agent does: where it goes, and who listens beside it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from orbiter_contracts import POWorkerInput, Usage
from orbiter_contracts.transcript import SESSION_ATTEMPT
from worker_wrapper.handlers.message_handler import Worker
from worker_wrapper.transcript.scribe import Scribe
from worker_wrapper.transcript.writing import Transcript
from worker_wrapper.turn.steps import StepLog
from worker_wrapper.turn.turn import TurnReport

Listener = Callable[[Mapping[str, Any]], None]


@asynccontextmanager
async def transcribed(
    worker: Worker,
    *,
    request_id: str = "",
    before: Usage | None = None,
    steps: StepLog | None = None,
) -> AsyncIterator[Transcript | None]:
    """Meanwhile, a transcript of the turn is written; None where there is no place for one.

    Args:
        worker: Who works.
        request_id: In a session, of the message.
        before: What the attempt, or the turn, had used in earlier pods.
        steps: Told of each tool that has answered.
    """
    stream = worker.transcript
    if stream is None:
        yield None
        return
    bound = worker.settings.task
    scribe = Scribe(
        worker.settings.agent,
        worker.redactor,
        attempt=int(bound.attempt) if bound and bound.attempt else SESSION_ATTEMPT,
        clock=worker.clock,
        request_id=request_id,
        before=before,
        steps=steps,
    )
    if stream.lost:
        scribe.miss(0, stream.lost)
    transcript = Transcript(scribe, stream.append)
    try:
        async with transcript:
            yield transcript
    finally:
        stream.lost = transcript.left


async def noted(worker: Worker, message: POWorkerInput, report: TurnReport, *, again: bool) -> None:
    """Write of a message that was answered without the agent: what asked before asks no more.

    Args:
        worker: Who answers.
        message: What the user has written.
        report: The answer.
        again: Whether it is written already that the user has.
    """
    async with transcribed(worker, request_id=message.request_id) as transcript:
        if transcript is not None:
            if not again:
                transcript.ask(message.prompt)
            await transcript.finish(report)


def all_of(*listeners: Listener | None) -> Listener | None:
    """Who listens, as one; None when nobody does."""
    there = [listener for listener in listeners if listener is not None]

    def hear(line: Mapping[str, Any]) -> None:
        for listener in there:
            listener(line)

    return hear if there else None
