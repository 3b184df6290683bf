"""AgentTask as the operator understands it: the spec it reads and the status it writes.

Frozen copies of the dicts that travel to and from the API server. crds/agenttask.yaml is the
authority on what each field means; unknown fields are ignored, so a newer CRD does not break us.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import Field

from orbiter_contracts import ArtifactsReport, Checkpoint
from orbiter_contracts.artifacts import MAX_PATTERNS, ArtifactPattern
from orbiter_contracts.attempts import Attempt
from orbiter_contracts.bounds import MAX_STATUS_LINE, one_line
from orbiter_contracts.notify import Sinks
from orbiter_contracts.outcome import FINAL_PHASES, Outcome, Result
from orbiter_contracts.retry import RetryPolicy
from orbiter_contracts.skills import FetchedSkills
from orbiter_contracts.stored_transcripts import TranscriptReport
from orbiter_contracts.usage import TaskUsage
from orbiter_operator.kube.models import (
    Agent,
    ConfigMapKey,
    Frozen,
    KubeModel,
    ProfileRef,
    ProfileStatus,
    Status,
    Time,
    Workspace,
)

Phase = Literal["Pending", "Running", "InputRequired", "Completed", "Failed", "Cancelled"]
FINAL = FINAL_PHASES
LAST_ATTEMPT = 999_999
"""The largest number that the label of an attempt's Job may have."""
LARGEST_SPEC = 1024 * 1024
"""The database takes 1.5 MiB of an object: the rest is for its status, metadata and history."""
_ESCAPED = {b"<": 5, b">": 5, b"&": 5, b"\\b": 4, b"\\f": 4, b"\xe2\x80\xa8": 3, b"\xe2\x80\xa9": 3}
"""What the API server writes as six bytes, and how many more than ours those are."""


class PromptSource(KubeModel):
    """Where the prompt is kept instead of in the spec."""

    config_map_key_ref: ConfigMapKey


class Answer(KubeModel):
    """What somebody has answered to the question of this id."""

    id: str
    text: str
    by: str | None = None
    """Who, by their own word; the API server's where the chart's policy is."""


class DisruptionRules(KubeModel):
    """What follows when the cluster takes the worker's pod away."""

    policy: Literal["Resume", "Restart", "Fail"] = "Resume"
    limit: int = 10
    checkpoint_seconds: int = 60


class TaskSpec(KubeModel):
    """What somebody wants done."""

    prompt: str | None = None
    prompt_from: PromptSource | None = None
    profile_ref: ProfileRef | None = None
    agent: Agent = Agent()
    workspace: Workspace = Workspace()
    timeout_seconds: int = 1800
    retry: RetryPolicy = RetryPolicy()
    disruption: DisruptionRules = DisruptionRules()
    resume_from: str | None = None
    artifacts: Annotated[tuple[ArtifactPattern, ...], Field(max_length=MAX_PATTERNS)] = ()
    notify: Sinks = ()
    priority: int = 0
    input_timeout_seconds: int = 259200
    ttl_seconds_after_finished: int | None = None
    project_id: str | None = None
    task_id: str | None = None
    depends_on: tuple[str, ...] = ()
    concurrency_key: str | None = None
    queue_name: str | None = None
    queue_priority_class: str | None = None
    managed_by: str | None = None
    pod_template: dict[str, Any] | None = None
    desired_state: Literal["Running", "Cancelled"] = "Running"
    cancelled_by: str | None = None
    input: tuple[Answer, ...] = ()

    def kept_for(self, seconds: int | None) -> Self:
        """It, kept so long when it has finished, unless it says that itself."""
        if seconds is None or self.ttl_seconds_after_finished is not None:
            return self
        return self.model_copy(update={"ttl_seconds_after_finished": seconds})


class InputCall(KubeModel):
    """A call of a tool that waits for a person; the digest is that of tool and arguments."""

    tool: str
    arguments: dict[str, Any]
    digest: str


class InputRequest(KubeModel):
    """A question the task waits for. `asked_at` is the operator's time.

    `kind` and `calls` are there when a tool waits: what exactly is to be approved.
    """

    id: str
    question: str
    asked_at: Time | None = None
    kind: str | None = None
    calls: tuple[InputCall, ...] | None = None

    @classmethod
    def of(cls, identity: str, end: Outcome, now: datetime) -> Self:
        """What an attempt has asked that ended so."""
        asked = cls(id=identity, question=end.question or "", asked_at=now)
        if end.request is None:
            return asked
        calls = tuple(InputCall(**call.model_dump()) for call in end.request.calls)
        return asked.model_copy(update={"kind": end.request.kind, "calls": calls})


class CheckpointStatus(KubeModel):
    """What the latest checkpoint of the latest attempt has."""

    time: Time
    turns: int | None = None
    cost_usd: float | None = Field(None, alias="costUSD")
    input_tokens: int | None = None
    output_tokens: int | None = None
    workspace: str | None = None


class StoreStatus(KubeModel):
    """Where the store is that has an attempt's artifacts."""

    endpoint: str
    bucket: str
    region: str | None = None
    prefix: str | None = None


class ArtifactsStatus(KubeModel):
    """What was kept of the workspace of the latest attempt that had something to keep."""

    attempt: int
    count: int
    bytes: int
    names: tuple[str, ...] = ()
    store: StoreStatus | None = None

    @classmethod
    def of(cls, report: ArtifactsReport, attempt: int) -> Self:
        """What a worker has reported."""
        store = StoreStatus(**report.store.model_dump()) if report.store else None
        return cls(
            attempt=attempt,
            count=report.count,
            bytes=report.size_bytes,
            names=tuple(report.names),
            store=store,
        )


class Source(Frozen):
    """What `spec.resumeFrom` comes to: an attempt with a checkpoint, or why there is none."""

    attempt: Attempt | None = None
    checkpoint: Checkpoint | None = None
    error: str | None = None


class AgentStatus(KubeModel):
    """Which agent works, the profile's word included."""

    type: str
    model: str | None = None


class Slots(Frozen):
    """Whether the namespace has a free slot for this task, and who has one and cannot start.

    `shown`: the position in its status is less than `refresh` seconds old and left alone.
    """

    free: bool = True
    position: int = 0
    waiting: int = 0
    running: int = 0
    limit: int = 0
    shown: bool = False
    refresh: float = 30.0
    stuck: tuple[str, ...] = ()


class TranscriptStatus(KubeModel):
    """What became of the whole transcript of the latest attempt that has told, in the store."""

    attempt: int
    reason: str
    message: str | None = None
    events: int
    bytes: int
    store: StoreStatus | None = None

    @classmethod
    def of(cls, report: TranscriptReport, attempt: int) -> Self:
        """What a worker has reported."""
        return cls(
            attempt=attempt,
            reason=report.reason,
            message=one_line(report.message, MAX_STATUS_LINE) or None,
            events=report.events,
            bytes=report.size_bytes,
            store=StoreStatus(**report.store.model_dump()) if report.store else None,
        )


class TaskStatus(Status):
    """What has become of the task. `phase` is None until the operator has seen it."""

    phase: Phase | None = None
    reason: str | None = None
    message: str | None = None
    headline: str | None = None
    agent: AgentStatus | None = None
    profile: ProfileStatus | None = None
    attempts: int = Field(0, ge=0, lt=LAST_ATTEMPT)
    request_id: str | None = None
    job_name: str | None = None
    pod_name: str | None = None
    worker_id: str | None = None
    input_stream: str | None = None
    output_stream: str | None = None
    trace_id: str | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    duration_ms: int | None = None
    duration: str | None = None
    result: Result | None = None
    usage: TaskUsage | None = None
    input_request: InputRequest | None = None
    progress: str | None = None
    disruptions: int = Field(0, ge=0, lt=LAST_ATTEMPT)
    checkpoint: CheckpointStatus | None = None
    artifacts: ArtifactsStatus | None = None
    transcript: TranscriptStatus | None = None
    skills: FetchedSkills | None = None
    notify: Sinks | None = None

    def works(self, attempt: int) -> bool:
        """Whether the attempt's worker has begun and was not taken away since."""
        started = self.condition("Started")
        return self.attempts == attempt and started is not None and started.status == "True"


def stored_bytes(value: Any) -> int:
    """The bytes of a JSON value as the API server stores it; 0 for what cannot be written."""
    try:
        text = orjson.dumps(value)
    except TypeError:
        return 0  # nested too deep, which others say better
    return len(text) + sum(more * text.count(part) for part, more in _ESCAPED.items())


def size_error(spec: Any) -> str | None:
    """Why a spec is too large to be run; None when it is not."""
    size = stored_bytes(spec)
    if size <= LARGEST_SPEC:
        return None
    return (
        f"spec is {size} bytes where the API server stores it (<, > and & are six each), more than "
        f"{LARGEST_SPEC}: its status would find no room; write the prompt to a ConfigMap and name "
        "that in promptFrom"
    )
