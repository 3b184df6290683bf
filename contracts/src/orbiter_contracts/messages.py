"""The messages that travel between producers, worker wrappers and the operator.

All are frozen, ignore unknown fields and give every later field a default, so that a newer producer
never breaks an older worker and an older message still reads. Every value has its bounds, so that a
message that exists can be sent (`bounds`). tests/test_contract_messages.py freezes their JSON.
"""

from datetime import UTC, datetime
from operator import not_
from typing import Annotated, Literal
from uuid import uuid4

from pydantic import Field

from orbiter_contracts.artifacts import ArtifactsReport, Patterns
from orbiter_contracts.bounds import (
    MAX_SETUP_CHARACTERS,
    Cost,
    Count,
    Data,
    Id,
    Int64,
    Line,
    Moment,
    Name,
    Seconds,
    Text,
    Warnings,
)
from orbiter_contracts.input_requests import InputRequest
from orbiter_contracts.message_base import Message as Message
from orbiter_contracts.stored_transcripts import TranscriptReport
from orbiter_contracts.tracing import Steps

OutputStatus = Literal["success", "failed", "error", "timeout", "input_required", "cancelled"]
VerdictStatus = Literal["success", "failure", "in_progress", "input_required"]
LifecycleEventName = Literal[
    "started", "ready", "busy", "checkpointed", "completed", "failed", "stopped"
]
PushPolicy = Literal["Never", "Always"]
Setup = Annotated[Text, Field(min_length=1, max_length=MAX_SETUP_CHARACTERS, pattern=r"^[^\x00]*$")]


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return str(uuid4())


class Usage(Message):
    """What one turn cost. Tokens are counted by the provider; `cost_usd` is in US dollars."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    cost_usd: Cost | None = None
    turns: Count = 0


class AgentVerdict(Message):
    """The JSON object inside an agent's last `<result>…</result>` block.

    `request` says what `question` asks for programs, when a tool waits for a person.
    """

    status: VerdictStatus = "success"
    summary: Text = ""
    data: Data = Field(default_factory=dict)
    commit_sha: Line | None = None
    pr_url: Line | None = None
    text: Text | None = None
    question: Text | None = None
    request: InputRequest | None = None


class GitWorkspace(Message):
    """A repository to clone before the turn. Credentials never travel in a message."""

    url: Line
    ref: Name | None = None
    branch: Name | None = None
    push: PushPolicy = "Never"


class Workspace(Message):
    """Where the agent works. Without `git` it starts in an empty directory.

    `setup` is run there by `sh` before the agent starts.
    """

    git: GitWorkspace | None = None
    setup: Setup | None = Field(default=None, exclude_if=not_)


class WorkspaceReport(Message):
    """What the wrapper did with the git workspace."""

    base_sha: Line | None = None
    head_sha: Line | None = None
    branch: Line | None = None
    pushed: bool = False
    error: Text | None = None


class WorkerInput(Message):
    """What every worker type is sent. `timeout` is in seconds."""

    request_id: Id = Field(default_factory=_new_id)
    prompt: Annotated[Text, Field(min_length=1)]
    timeout: Seconds = 1800
    session_continue: bool = True
    timestamp: Moment = Field(default_factory=_now)


class POWorkerInput(WorkerInput):
    """A user's message to their PO session."""

    user_id: Int64


class DeveloperWorkerInput(WorkerInput):
    """One task for a developer worker.

    Attributes:
        artifacts: Which files of the workspace are kept at the end of the attempt.
    """

    task_id: Id
    project_id: Name | None = None
    workspace: Workspace | None = None
    artifacts: Patterns = Field(default_factory=list)


class WorkerOutput(Message):
    """What every worker type answers. `reason` is a CamelCase word for machines."""

    request_id: Id
    status: OutputStatus = "success"
    error: Text | None = None
    reason: Name | None = None
    usage: Usage | None = None
    warnings: Warnings = Field(default_factory=list)
    started_at: Moment | None = None
    finished_at: Moment | None = None
    duration_ms: Count | None = None
    timestamp: Moment = Field(default_factory=_now)


class POWorkerOutput(WorkerOutput):
    """An answer in a PO conversation, or with `is_final=False` a piece of one that is under way.

    Attributes:
        text: The whole answer; in a piece only what is new since the piece before.
        is_final: The last word on this request. Pieces come before it, if at all.
        sequence: Counts the outputs of one request from 0, the final one included. A number seen
            already is the same piece once more; 0 again means that a worker crashed and another
            one begins the answer anew.
        part: Which of its texts the agent is at: it counts on when the agent says something more
            after using a tool. Of a success, the final text begins like its last part.
    """

    user_id: Int64
    text: Text
    is_final: bool = True
    sequence: Count = 0
    part: Count = 0
    session_id: Id | None = None


class DeveloperWorkerOutput(WorkerOutput):
    """The outcome of one developer task.

    Attributes:
        transcript: What became of its transcript in the store, where there is one.
        steps: What took the worker's time, where its task is traced (`tracing`).
    """

    task_id: Id
    worker_id: Id | None = None
    commit_sha: Line | None = None
    pr_url: Line | None = None
    verdict: AgentVerdict | None = None
    workspace: WorkspaceReport | None = None
    project_id: Name | None = None
    artifacts: ArtifactsReport | None = None
    transcript: TranscriptReport | None = Field(default=None, exclude_if=not_)
    steps: Steps = Field(default_factory=list, exclude_if=not_)


class WorkerLifecycleEvent(Message):
    """A worker's change of state. `busy` and `completed` count as activity of its session.

    `checkpointed` has the `Checkpoint`'s JSON as its details; the attempt's record has it too.
    """

    worker_id: Id
    event: LifecycleEventName
    timestamp: Moment = Field(default_factory=_now)
    details: Data = Field(default_factory=dict)


class SessionRecord(Message):
    """Value of `session:user:{user_id}`: a front end's, or ours when none keeps it."""

    session_id: Id
    worker_id: Id
    created_at: Moment
    last_activity: Moment
