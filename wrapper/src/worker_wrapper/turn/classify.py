"""Decides what a turn was: a success, or what went wrong and in which words.

Pure: from what the process left behind and what the adapter read in it to a status. turn.py acts.
"""

import signal
from dataclasses import dataclass, field, replace
from typing import Self

from orbiter_contracts import AgentVerdict, OutputStatus
from worker_wrapper.agents.base import AgentResult
from worker_wrapper.agents.decoding import words
from worker_wrapper.process.command import Outcome
from worker_wrapper.turn.verdict import Finding, find_verdict

TEXT_CHARACTERS = 256 * 1024
"""How much of an agent's text is published: its end."""
_BESIDE_CHARACTERS = 200
_STATUS: dict[str, OutputStatus] = {
    "success": "success",
    "failure": "failed",
    "in_progress": "failed",
    "input_required": "input_required",
}


@dataclass(frozen=True, slots=True)
class Classification:
    """What a turn was; the fields mean what they mean in TurnReport."""

    status: OutputStatus
    reason: str | None = None
    error: str | None = None
    text: str = ""
    verdict: AgentVerdict | None = None
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def failure(cls, reason: str, error: str) -> Self:
        """The agent gave no answer that could be classified."""
        return cls("error", reason, error)


def classify(
    name: str, outcome: Outcome, result: AgentResult, *, developer: bool
) -> Classification:
    """Classify a turn.

    Args:
        name: The agent's name.
        outcome: What its process left behind.
        result: What the adapter read in it.
        developer: Whether a verdict is demanded.
    """
    said = words(result.text)
    text = _end(said)
    # A block may be longer than what is published of the text, so it is looked for in all of it.
    finding = find_verdict(said)
    warnings = _warnings(outcome, result)
    failure = _failure(name, outcome, result)
    if failure:
        status, reason, error = failure
        return Classification(status, reason, _end(words(error)), text, warnings=warnings)
    found = _developer(finding, text) if developer else _po(finding, text)
    if result.permission_denials and not _explicit_success(finding):
        denied = f"{name} was not allowed to use {', '.join(result.permission_denials)}"
        error = f"{denied}; {found.error}" if found.error else denied
        found = replace(found, status="failed", reason="PermissionDenied", error=error)
    return replace(found, warnings=[*warnings, *finding.warnings, *found.warnings])


def _failure(
    name: str, outcome: Outcome, result: AgentResult
) -> tuple[OutputStatus, str, str] | None:
    """Why there is no answer to look at, if there is none."""
    seconds = (outcome.finished_at - outcome.started_at).total_seconds()
    if outcome.interrupted == "cancelled":
        return "cancelled", "Cancelled", f"{name} was stopped after {seconds:.0f} s: cancelled"
    if outcome.interrupted:
        return "error", "Terminated", f"{name} was stopped after {seconds:.0f} s: worker shut down"
    if outcome.timed_out:
        late = f"{name} was ended after {seconds:.0f} s: its time was up"
        return "timeout", "AgentTimeout", _with_stderr(late, outcome)
    crash = _crash(outcome)
    if crash and outcome.oom_killed and result.is_error:
        return "error", "OOMKilled", _with_stderr(f"{name} {crash}: out of memory", outcome)
    if crash:
        said = f": {result.error}" if result.error else ""
        return "error", "AgentError", _with_stderr(f"{name} {crash}{said}", outcome)
    if result.is_error:
        error = result.error or f"{name} ended without a result"
        return "error", "AgentError", _with_stderr(error, outcome)
    if result.turns < 1:
        return "error", "AgentError", f"{name} did not ask the model: {result.text[:200]!r}"
    return None


def _crash(outcome: Outcome) -> str | None:
    if outcome.signal is not None:
        return f"was killed by signal {outcome.signal} ({signal.strsignal(outcome.signal)})"
    return f"exited with code {outcome.exit_code}" if outcome.exit_code else None


def _developer(finding: Finding, text: str) -> Classification:
    verdict = finding.verdict
    if verdict is None:
        kept = AgentVerdict(status="failure", summary=text)
        return Classification("failed", "NoVerdict", finding.problem, text, kept)
    status = _STATUS[verdict.status]
    if status != "failed":
        return Classification(status, None, None, text, verdict)
    error = verdict.summary or f"the agent's verdict is {verdict.status}"
    return Classification(status, "AgentError", error, text, verdict)


def _po(finding: Finding, text: str) -> Classification:
    verdict = finding.verdict
    if verdict is None:
        problems = [finding.problem] if finding.present and finding.problem else []
        return Classification("success", text=text, warnings=problems)
    status = _STATUS[verdict.status]
    said = verdict.text or finding.rest
    if status == "input_required":
        said = _with_question(said, verdict.question or "")
    answer = _end(said or verdict.question or verdict.summary)
    if status != "failed":
        return Classification(status, None, None, answer, verdict)
    error = verdict.summary or f"the agent's verdict is {verdict.status}"
    return Classification(status, "AgentError", error, answer, verdict)


def _with_question(said: str, question: str) -> str:
    """What was said with the question behind it: it is all that a user gets to read."""
    question = question.strip()
    return said if question in said else f"{said}\n\n{question}".strip()


def _explicit_success(finding: Finding) -> bool:
    verdict = finding.verdict
    return bool(verdict and verdict.status == "success" and "status" in verdict.model_fields_set)


def _warnings(outcome: Outcome, result: AgentResult) -> list[str]:
    warnings = [f"permission denied: {tool}" for tool in result.permission_denials]
    if outcome.stdout.dropped:
        warnings.append(f"the first {outcome.stdout.dropped} bytes of output were not kept")
    if outcome.survivors:
        pids = ", ".join(map(str, outcome.survivors))
        warnings.append(f"processes that could not be ended: {pids}")
    if outcome.oom_killed:
        warnings.append("the kernel killed a process for lack of memory during this turn")
    return warnings


def _with_stderr(error: str, outcome: Outcome) -> str:
    """The error with the end of stderr: beside it when that fits in one line, else below."""
    complaint = outcome.complaint
    beside = complaint and "\n" not in complaint and len(complaint) <= _BESIDE_CHARACTERS
    return f"{error}: {complaint}" if beside else f"{error}\n{complaint}".strip()


def _end(text: str) -> str:
    """The end of the text."""
    cut = len(text) - TEXT_CHARACTERS
    return f"[{cut} characters left out] {text[cut:]}" if cut > 0 else text
