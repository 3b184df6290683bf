"""A task on this machine from its first attempt to its last: retries, questions, the outcome.

What the operator writes into an AgentTask's status, this keeps in `LocalStatus`. What an attempt's
end means and whether another follows, both ask `orbiter_contracts`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_contracts.bounds import one_line
from orbiter_contracts.outcome import CRASHED, Result, outcome
from orbiter_contracts.retry import RetryPolicy
from orbiter_contracts.usage import TaskUsage, total_usage

Ask = Callable[[str], Awaitable[str | None]]
"""Asks a person the question; None when there is nobody to answer."""


class Attempts(Protocol):
    """What runs attempts."""

    async def attempt(
        self, number: int, prompt: str, answered: Sequence[str]
    ) -> DeveloperWorkerOutput | None:
        """Run one; None when its worker ended without a word.

        Args:
            number: Which, from 1.
            prompt: What its agent is told.
            answered: Request ids of the attempts before that asked and were answered.
        """


@dataclass
class LocalStatus:
    """What has become of the task; the fields are those of an AgentTask's status."""

    phase: str = "Pending"
    reason: str = "Starting"
    message: str = ""
    attempts: int = 0
    began: float | None = None
    duration_ms: int | None = None
    result: Result | None = None
    usage: TaskUsage | None = None
    question: str | None = None
    detail: str = ""

    def to_api(self) -> dict[str, Any]:
        """The status as `kubectl get -o json` would show it."""
        shown: dict[str, Any] = {
            "phase": self.phase,
            "reason": self.reason,
            "message": self.message,
            "attempts": self.attempts,
        }
        if self.duration_ms is not None:
            shown["durationMs"] = self.duration_ms
        if self.result is not None:
            shown["result"] = self.result.model_dump(by_alias=True, exclude_none=True)
        if self.usage is not None:
            shown["usage"] = self.usage.model_dump(by_alias=True, exclude_none=True)
        if self.phase == "InputRequired":
            shown["inputRequest"] = {"question": self.question or ""}
        return shown


async def run_task(
    attempts: Attempts,
    prompt: str,
    retry: RetryPolicy,
    ask: Ask,
    changed: Callable[[LocalStatus], None],
    status: LocalStatus,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run a task to its end, or to a question that nobody answers.

    Args:
        attempts: Runs one attempt.
        prompt: What the first one is told.
        retry: The spec's.
        ask: Asks a person.
        changed: Told of every change of the status.
        status: Is kept up to date, also when this is cancelled.
        sleep: Waits between attempts.
        clock: Seconds.
    """
    failures = 0
    answered: list[str] = []
    status.began = clock()
    while True:
        status.attempts += 1
        _say(status, "Running", "Running", _works(status.attempts))
        changed(status)
        output = await attempts.attempt(status.attempts, prompt, answered)
        output = output or _crashed(status.attempts)
        status.duration_ms = round((clock() - status.began) * 1000)
        _read(status, output)
        if status.phase == "InputRequired":
            changed(status)
            answer = await ask(status.question or "")
            if answer is None:
                return
            prompt, status.question = answer, None
            answered.append(output.request_id)
            continue
        failures += status.phase == "Failed"
        if status.phase != "Failed" or not retry.repeats(status.reason, failures):
            changed(status)
            return
        pause = retry.backoff(failures).total_seconds()
        left = retry.attempts_allowed - failures
        text = f"{status.reason}: {status.message}; {left} more, the next in {pause:g} s"
        _say(status, "Pending", "Retrying", text)
        changed(status)
        await sleep(pause)


def cancelled(status: LocalStatus) -> None:
    """Write down that somebody stopped it."""
    _say(status, "Cancelled", "Cancelled", "cancelled with Ctrl-C")


def _read(status: LocalStatus, output: DeveloperWorkerOutput) -> None:
    """Write down what an attempt's end means."""
    end = outcome(output)
    status.usage = total_usage(status.usage, output.usage)
    status.result, status.detail, status.question = end.result, end.detail, end.question
    _say(status, end.phase, end.reason, end.message)


def _crashed(number: int) -> DeveloperWorkerOutput:
    """The output in the place of a worker that ended without one."""
    return DeveloperWorkerOutput(
        request_id=str(number),
        task_id="",
        status="failed",
        reason="WorkerCrashed",
        error=f"{CRASHED}the worker ended without an answer; see its log",
    )


def _say(status: LocalStatus, phase: str, reason: str, message: str) -> None:
    status.phase, status.reason, status.message = phase, reason, one_line(message)


def _works(attempt: int) -> str:
    return f"attempt {attempt} works" if attempt > 1 else "the agent works"
