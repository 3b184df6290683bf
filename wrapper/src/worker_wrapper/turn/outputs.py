"""From what came of a turn to the message that says so.

Pure: the handlers call these with everything in hand; message_handler.py publishes the result.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from orbiter_contracts import (
    ArtifactsReport,
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    POWorkerInput,
    POWorkerOutput,
    WorkspaceReport,
    unreadable,
)
from orbiter_contracts.stored_transcripts import TranscriptReport
from orbiter_contracts.tracing import Step
from worker_wrapper.queue.streams import Entry
from worker_wrapper.settings import BoundTask
from worker_wrapper.turn.turn import TurnReport

NOBODY: Final = 0
"""The user of an answer to a message that names none."""


def without_turn(
    now: datetime, *, text: str = "", reason: str | None = None, error: str | None = None
) -> TurnReport:
    """A report of a message that was answered without asking the agent; with a reason, an error."""
    return TurnReport(
        status="error" if reason else "success",
        reason=reason,
        error=error,
        text=text,
        verdict=None,
        usage=None,
        session=None,
        warnings=[],
        started_at=now,
        finished_at=now,
        duration_ms=0,
    )


def developer_output(
    task: DeveloperWorkerInput,
    report: TurnReport,
    *,
    worker_id: str,
    workspace: WorkspaceReport | None = None,
    artifacts: ArtifactsReport | None = None,
    transcript: TranscriptReport | None = None,
    steps: Sequence[Step] = (),
) -> DeveloperWorkerOutput:
    """Say how a task ended.

    The commit is the one the agent names, else a new HEAD of its workspace. A success whose work
    could not be stored as the workspace asks for is none.
    """
    status, reason, error, warnings = report.status, report.reason, report.error, report.warnings
    commit = report.verdict.commit_sha if report.verdict else None
    if workspace:
        if not commit and workspace.head_sha != workspace.base_sha:
            commit = workspace.head_sha
        if workspace.error and status == "success":
            status, reason, error = "failed", "WorkspaceError", workspace.error
        elif workspace.error:
            warnings = [*warnings, workspace.error]
    if artifacts and not artifacts.complete:
        warnings = [*warnings, f"artifacts: {artifacts.message}"]
    if transcript and not transcript.complete:
        warnings = [*warnings, f"transcript: {transcript.message}"]
    return DeveloperWorkerOutput(
        request_id=task.request_id,
        task_id=task.task_id,
        project_id=task.project_id,
        worker_id=worker_id,
        status=status,
        reason=reason,
        error=error,
        verdict=report.verdict,
        commit_sha=commit,
        pr_url=report.verdict.pr_url if report.verdict else None,
        workspace=workspace,
        artifacts=artifacts,
        transcript=transcript,
        usage=report.usage,
        warnings=warnings,
        started_at=report.started_at,
        finished_at=report.finished_at,
        duration_ms=report.duration_ms,
        timestamp=report.finished_at,
        steps=list(steps),
    )


def po_output(
    message: POWorkerInput, report: TurnReport, *, session_id: str, sequence: int = 0
) -> POWorkerOutput:
    """Say what the agent answered, in which session, after how many pieces of it."""
    return POWorkerOutput(
        request_id=message.request_id,
        user_id=message.user_id,
        text=report.text,
        sequence=sequence,
        session_id=session_id,
        status=report.status,
        reason=report.reason,
        error=report.error,
        usage=report.usage,
        warnings=report.warnings,
        started_at=report.started_at,
        finished_at=report.finished_at,
        duration_ms=report.duration_ms,
        timestamp=report.finished_at,
    )


def stand_in(entry: Entry, bound: BoundTask) -> DeveloperWorkerInput:
    """What is left of a task nobody can read, so that its AgentTask gets an answer all the same.

    Its request_id is the one it has, else the one that the operator gives to this attempt.
    """
    _, uid, attempt = (bound.record or f":{entry.id}:1").rsplit(":", 2)
    return DeveloperWorkerInput(
        request_id=unreadable.request_id(entry.fields)
        or str(uuid5(NAMESPACE_URL, f"orbiter:{uid}:{attempt}")),
        task_id=unreadable.task_id(entry.fields) or bound.name or entry.id,
        project_id=unreadable.project_id(entry.fields),
        prompt="unreadable",
    )


def refusal(
    entry: Entry, why: str, *, reason: str, user_id: int | None, now: datetime
) -> POWorkerOutput | None:
    """What the sender of a message nobody can answer is told; None when it did not say who it is.

    Args:
        entry: The entry.
        why: Why it cannot be answered.
        reason: The same as one CamelCase word.
        user_id: The worker's own user, for a message that does not say whose it is.
        now: The time.
    """
    request_id = unreadable.request_id(entry.fields)
    if request_id is None:
        return None
    asked = unreadable.user_id(entry.fields)
    return POWorkerOutput(
        request_id=request_id,
        user_id=next((known for known in (asked, user_id) if known is not None), NOBODY),
        text="",
        status="error",
        reason=reason,
        error=why,
        started_at=now,
        finished_at=now,
        duration_ms=0,
        timestamp=now,
    )
