"""A task on this machine from its first attempt to its last: retries, questions, the outcome.

What the operator writes into an AgentTask's status, this keeps in `LocalStatus`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from orbiter_contracts import DeveloperWorkerOutput

_LINE = 140
_NEVER_AGAIN = ("InvalidMessage",)
_LONGEST_PAUSE = 600.0
Ask = Callable[[str], Awaitable[str | None]]
"""Asks a person the question; None when there is nobody to answer."""


class Attempts(Protocol):
    """What runs attempts."""

    async def attempt(self, number: int, prompt: str) -> DeveloperWorkerOutput | None:
        """Run one; None when its worker ended without a word."""


@dataclass
class LocalStatus:
    """What has become of the task; the fields are those of an AgentTask's status."""

    phase: str = "Pending"
    reason: str = "Starting"
    message: str = ""
    attempts: int = 0
    began: float | None = None
    duration_ms: int | None = None
    result: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    question: str | None = None
    detail: str = ""

    def to_api(self) -> dict[str, Any]:
        """The status as `kubectl get -o json` would show it."""
        asked = {"inputRequest": {"question": self.question}} if self.question else {}
        return {
            "phase": self.phase,
            "reason": self.reason,
            "message": self.message,
            "attempts": self.attempts,
            "durationMs": self.duration_ms,
            "result": self.result,
            "usage": self.usage,
            **asked,
        }


async def run_task(
    attempts: Attempts,
    prompt: str,
    retry: dict[str, int],
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
        retry: `limit` and `backoffSeconds` of the spec.
        ask: Asks a person.
        changed: Told of every change of the status.
        status: Is kept up to date, also when this is cancelled.
        sleep: Waits between attempts.
        clock: Seconds.
    """
    failures = 0
    status.began = clock()
    while True:
        status.attempts += 1
        _say(status, "Running", "Running", _works(status.attempts))
        changed(status)
        output = await attempts.attempt(status.attempts, prompt)
        status.duration_ms = round((clock() - status.began) * 1000)
        _learn(status, output)
        if status.phase == "InputRequired":
            changed(status)
            answer = await ask(status.question or "")
            if answer is None:
                return
            prompt, status.question = answer, None
            continue
        failures += status.phase == "Failed"
        again = failures <= retry["limit"] and status.reason not in _NEVER_AGAIN
        if status.phase != "Failed" or not again:
            changed(status)
            return
        pause = min(retry["backoffSeconds"] * 2.0 ** (failures - 1), _LONGEST_PAUSE)
        left = retry["limit"] + 1 - failures
        text = f"{status.reason}: {status.message}; {left} more, the next in {pause:g} s"
        _say(status, "Pending", "Retrying", text)
        changed(status)
        await sleep(pause)


def cancelled(status: LocalStatus) -> None:
    """Write down that somebody stopped it."""
    _say(status, "Cancelled", "Cancelled", "cancelled with Ctrl-C")


def _learn(status: LocalStatus, output: DeveloperWorkerOutput | None) -> None:
    if output is None:
        _say(status, "Failed", "WorkerCrashed", "the worker ended without an answer; see its log")
        return
    verdict = output.verdict
    summary = verdict.summary if verdict else ""
    status.result = {
        "status": output.status,
        "summary": summary or output.error,
        "commitSHA": output.commit_sha or (verdict.commit_sha if verdict else None),
        "prURL": output.pr_url or (verdict.pr_url if verdict else None),
        "data": verdict.data if verdict else {},
    }
    _spend(status, output)
    status.detail = output.error or ""
    if output.status == "success":
        _say(status, "Completed", "Succeeded", summary)
    elif output.status == "input_required":
        status.question = (verdict.question or summary) if verdict else ""
        _say(status, "InputRequired", "InputRequired", status.question)
    elif output.status == "cancelled":
        _say(status, "Cancelled", output.reason or "Cancelled", output.error or "")
    else:
        default = "AgentTimeout" if output.status == "timeout" else "AgentError"
        why = (output.error or summary).strip().partition("\n")[0]
        _say(status, "Failed", output.reason or default, why)


def _spend(status: LocalStatus, output: DeveloperWorkerOutput) -> None:
    usage = output.usage
    if usage is None:
        return
    spent = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
        "turns": usage.turns,
    } | ({} if usage.cost_usd is None else {"costUSD": usage.cost_usd})
    for name, count in spent.items():
        status.usage[name] = status.usage.get(name, 0) + count


def _say(status: LocalStatus, phase: str, reason: str, message: str) -> None:
    line = " ".join(message.split())
    status.phase, status.reason = phase, reason
    status.message = line if len(line) <= _LINE else line[: _LINE - 1] + "…"


def _works(attempt: int) -> str:
    return f"attempt {attempt} works" if attempt > 1 else "the agent works"
