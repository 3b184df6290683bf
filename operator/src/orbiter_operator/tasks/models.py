"""AgentTask as the operator understands it: the spec it reads and the status it writes.

Frozen copies of the dicts that travel to and from the API server. crds/agenttask.yaml is the
authority on what each field means; unknown fields are ignored, so a newer CRD does not break us.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from orbiter_contracts.outcome import Result as Result
from orbiter_contracts.outcome import TaskUsage as TaskUsage
from orbiter_contracts.retry import RetryPolicy

Phase = Literal["Pending", "Running", "InputRequired", "Completed", "Failed", "Cancelled"]
FINAL: frozenset[str] = frozenset({"Completed", "Failed", "Cancelled"})
"""Phases that are never left."""
ConditionStatus = Literal["True", "False", "Unknown"]


def timestamp(moment: datetime) -> str:
    """Write a time as the API server reads it, in UTC and with milliseconds."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


Time = Annotated[datetime, PlainSerializer(timestamp, return_type=str)]


class KubeModel(BaseModel):
    """Base: frozen, camelCase outside and snake_case inside, unknown fields ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class SecretRef(KubeModel):
    """Name of a Secret in the task's namespace. The operator never reads it."""

    name: str


class ConfigMapKey(KubeModel):
    """A key of a ConfigMap in the task's namespace."""

    name: str
    key: str


class PromptSource(KubeModel):
    """Where the prompt is kept instead of in the spec."""

    config_map_key_ref: ConfigMapKey


class FileSource(KubeModel):
    """Where the agent file of an Orbiter agent is."""

    config_map_key_ref: ConfigMapKey


class Agent(KubeModel):
    """Which agent works, and how. `env` stays as the API has it: it is copied into the pod."""

    type: str = "claude"
    model: str | None = None
    max_turns: int | None = None
    max_cost_usd: float | None = Field(None, alias="maxCostUSD")
    credentials_secret_ref: SecretRef | None = None
    env: tuple[dict[str, Any], ...] = ()
    system_prompt: str | None = None
    file_from: FileSource | None = None


class Git(KubeModel):
    """A repository to clone before the agent starts."""

    url: str
    ref: str | None = None
    branch: str | None = None
    push: Literal["Never", "Always"] = "Never"
    credentials_secret_ref: SecretRef | None = None


class Workspace(KubeModel):
    """The directory the agent works in. Volumes stay as the API has them."""

    git: Git | None = None
    persistent_volume_claim: dict[str, Any] | None = None
    empty_dir: dict[str, Any] | None = None


class Answer(KubeModel):
    """What somebody has answered to the question of this id."""

    id: str
    text: str


class TaskSpec(KubeModel):
    """What somebody wants done."""

    prompt: str | None = None
    prompt_from: PromptSource | None = None
    agent: Agent = Agent()
    workspace: Workspace = Workspace()
    timeout_seconds: int = 1800
    retry: RetryPolicy = RetryPolicy()
    input_timeout_seconds: int = 259200
    ttl_seconds_after_finished: int | None = None
    project_id: str | None = None
    task_id: str | None = None
    depends_on: tuple[str, ...] = ()
    queue_name: str | None = None
    managed_by: str | None = None
    pod_template: dict[str, Any] | None = None
    desired_state: Literal["Running", "Cancelled"] = "Running"
    input: tuple[Answer, ...] = ()


class Condition(KubeModel):
    """One fact for programs."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""
    last_transition_time: Time
    observed_generation: int | None = None


class InputRequest(KubeModel):
    """A question the task waits for. `asked_at` is the operator's time."""

    id: str
    question: str
    asked_at: Time | None = None


class TaskStatus(KubeModel):
    """What has become of the task. `phase` is None until the operator has seen it."""

    phase: Phase | None = None
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    attempts: int = 0
    request_id: str | None = None
    job_name: str | None = None
    pod_name: str | None = None
    worker_id: str | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    duration_ms: int | None = None
    duration: str | None = None
    result: Result | None = None
    usage: TaskUsage | None = None
    input_request: InputRequest | None = None
    progress: str | None = None

    def condition(self, kind: str) -> Condition | None:
        """The condition of one type, or None."""
        return next((item for item in self.conditions if item.type == kind), None)

    def to_api(self) -> dict[str, Any]:
        """The dict the API server takes; fields without a value are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
