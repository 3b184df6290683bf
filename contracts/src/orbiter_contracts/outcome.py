"""The outcome of an attempt: phase, reason, message and result from its output. Pure.

An AgentTask's status says it in a cluster, `orbiter task run` on a terminal. Whether another
attempt follows instead is in `retry`, what all of them cost in `usage`.
"""

import re
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from orbiter_contracts.bounds import MAX_STATUS_LINE, one_line
from orbiter_contracts.input_requests import InputRequest
from orbiter_contracts.messages import DeveloperWorkerOutput

EndPhase = Literal["Completed", "Failed", "Cancelled", "InputRequired"]
"""Phases of a task whose attempt has ended; a Failed one is Pending while another follows."""
FINAL_PHASES: Final = frozenset(("Completed", "Failed", "Cancelled"))
"""Phases of a task that are never left."""
CRASHED: Final = "Worker crashed: "
"""How the error of an output begins that was published in a dead worker's place."""
_REASON: Final = re.compile("[A-Z][A-Za-z0-9]{0,63}")
_SELF_EXPLAINING: Final = ("AgentTimeout", "Terminated")
_DEFAULT_REASON: Final = {
    "failed": "AgentError",
    "error": "AgentError",
    "timeout": "AgentTimeout",
    "cancelled": "Cancelled",
    # Only of a cancelled task: nobody waits for its answer any more.
    "input_required": "Cancelled",
}


class Result(BaseModel):
    """`status.result`: what the agent reported at the end; camelCase outside."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )

    status: str
    summary: str | None = None
    commit_sha: str | None = Field(None, alias="commitSHA")
    pr_url: str | None = Field(None, alias="prURL")
    data: dict[str, Any] | None = None


class Outcome(NamedTuple):
    """What the end of an attempt means for its task, if no other attempt follows.

    Attributes:
        phase: The task's phase.
        reason: One CamelCase word for programs.
        message: One line for people.
        detail: More lines of a failure, its first and last are in the message.
        question: What the agent asks, as it asks it; None when it asks nothing.
        result: What it reported.
        request: What the question asks, for programs, when a tool waits for a person.
    """

    phase: EndPhase
    reason: str
    message: str
    detail: str
    question: str | None
    result: Result
    request: InputRequest | None = None


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
        request = verdict.request if verdict else None
        return Outcome("InputRequired", "InputRequired", message, "", question, result, request)
    if output.status == "success":
        return Outcome("Completed", "Succeeded", one_line(summary), "", None, result)
    phase: EndPhase = "Cancelled" if cancelled or output.status == "cancelled" else "Failed"
    return Outcome(phase, *_why(output, output.error or summary), None, result)


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
