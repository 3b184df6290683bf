"""The outcome of an attempt: phase, reason, message, result and usage from its output. Pure.

An AgentTask's status says it in a cluster, `orbiter task run` on a terminal. Whether another
attempt follows instead is in `retry`.
"""

import re
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from orbiter_contracts.bounds import MAX_COUNT, MAX_STATUS_LINE, one_line
from orbiter_contracts.messages import DeveloperWorkerOutput, Usage

EndPhase = Literal["Completed", "Failed", "Cancelled", "InputRequired"]
"""Phases of a task whose attempt has ended; a Failed one is Pending while another follows."""
CRASHED: Final = "Worker crashed: "
"""How the error of an output begins that was published in a dead worker's place."""
_REASON: Final = re.compile("[A-Z][A-Za-z0-9]{0,63}")
_SELF_EXPLAINING: Final = ("AgentTimeout", "Terminated")
_INT32: Final = 2**31 - 1
_DEFAULT_REASON: Final = {
    "failed": "AgentError",
    "error": "AgentError",
    "timeout": "AgentTimeout",
    "cancelled": "Cancelled",
    # Only of a cancelled task: nobody waits for its answer any more.
    "input_required": "Cancelled",
}


class _Shown(BaseModel):
    """Part of an AgentTask's status: frozen, camelCase outside, unknown fields ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class Result(_Shown):
    """`status.result`: what the agent reported at the end."""

    status: str
    summary: str | None = None
    commit_sha: str | None = Field(None, alias="commitSHA")
    pr_url: str | None = Field(None, alias="prURL")
    data: dict[str, Any] | None = None


class TaskUsage(_Shown):
    """`status.usage`: what all attempts so far have cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = Field(None, alias="costUSD")
    turns: int = 0


class Outcome(NamedTuple):
    """What the end of an attempt means for its task, if no other attempt follows.

    Attributes:
        phase: The task's phase.
        reason: One CamelCase word for programs.
        message: One line for people.
        detail: More lines of a failure, its first and last are in the message.
        question: What the agent asks, as it asks it; None when it asks nothing.
        result: What it reported.
    """

    phase: EndPhase
    reason: str
    message: str
    detail: str
    question: str | None
    result: Result


def outcome(output: DeveloperWorkerOutput, *, cancelled: bool = False) -> Outcome:
    """Read an attempt's output.

    Args:
        output: What its worker published, or what was published in its place.
        cancelled: Whether the user wants the task to end: then nothing is asked and nothing failed.
    """
    verdict, result = output.verdict, _result(output)
    summary = verdict.summary if verdict else ""
    if output.status == "input_required" and not cancelled:
        question = (verdict.question or summary if verdict else None) or output.error or ""
        message = one_line(question or "the agent asks for input")
        return Outcome("InputRequired", "InputRequired", message, "", question, result)
    if output.status == "success":
        return Outcome("Completed", "Succeeded", one_line(summary), "", None, result)
    phase: EndPhase = "Cancelled" if cancelled or output.status == "cancelled" else "Failed"
    return Outcome(phase, *_why(output, output.error or summary), None, result)


def total_usage(before: TaskUsage | None, usage: Usage | None) -> TaskUsage | None:
    """What all attempts together have cost, once one more has ended; None when none has told.

    Bounded by what the resource definition's integers can hold.
    """
    if usage is None:
        return before
    old = before or TaskUsage()
    costs = [cost for cost in (old.cost_usd, usage.cost_usd) if cost is not None]
    return TaskUsage(
        input_tokens=min(old.input_tokens + usage.input_tokens, MAX_COUNT),
        output_tokens=min(old.output_tokens + usage.output_tokens, MAX_COUNT),
        cache_read_tokens=min(old.cache_read_tokens + usage.cache_read_tokens, MAX_COUNT),
        cache_write_tokens=min(old.cache_write_tokens + usage.cache_write_tokens, MAX_COUNT),
        cost_usd=sum(costs) if costs else None,
        turns=min(old.turns + usage.turns, _INT32),
    )


def _why(output: DeveloperWorkerOutput, told: str) -> tuple[str, str, str]:
    """Reason, line and detail of an output that is not a success."""
    reason = output.reason or _DEFAULT_REASON.get(output.status, "AgentError")
    if not _REASON.fullmatch(reason):
        told = f"{told} (its reason is no CamelCase word: {reason!r})".strip()
        reason = "AgentError"
    lines = told.strip().splitlines()
    line = lines[0] if lines else f"the worker reported {output.status} and no reason"
    line = line.removeprefix(CRASHED).removeprefix(f"{reason}: ")
    if len(lines) > 1 and lines[-1] not in line and reason not in _SELF_EXPLAINING:
        # The first line names the failure, the last one of stderr usually says why.
        line = f"{one_line(line, MAX_STATUS_LINE // 2)} … {lines[-1]}"
    return reason, one_line(line), "\n".join(lines)


def _result(output: DeveloperWorkerOutput) -> Result:
    verdict = output.verdict
    return Result(
        status=output.status,
        summary=(verdict.summary if verdict else None) or output.error,
        commit_sha=output.commit_sha or (verdict.commit_sha if verdict else None),
        pr_url=output.pr_url or (verdict.pr_url if verdict else None),
        data=(verdict.data or None) if verdict else None,
    )
