"""POSession as the operator understands it: the spec it reads and the status it writes.

Frozen copies of the dicts that travel to and from the API server, as in `models`.
crds/posession.yaml is the authority on what each field means.
"""

from typing import Any, Literal

from pydantic import Field

from orbiter_contracts.usage import TaskUsage
from orbiter_operator.kube.models import Agent, KubeModel, Status, Time

SessionPhase = Literal["Asleep", "Waking", "Ready", "Busy", "Suspended", "Failed"]


class Idle(KubeModel):
    """When the session goes to sleep. Seconds."""

    scale_to_zero_after_seconds: int = 900


class Rotation(KubeModel):
    """When a new conversation begins."""

    after_idle_seconds: int = 1800
    max_tokens: int = 100_000
    topic_similarity: float | None = None
    commands: tuple[str, ...] = ("/new",)


class Claim(KubeModel):
    """A PersistentVolumeClaim in the session's namespace."""

    claim_name: str


class Persistence(KubeModel):
    """Where the agent's memory is kept while the session sleeps."""

    type: Literal["Snapshot", "PersistentVolumeClaim", "None"] = "Snapshot"
    persistent_volume_claim: Claim | None = None


class SessionSpec(KubeModel):
    """Whose conversation it is and how it is kept."""

    user_id: int = 0
    agent: Agent = Agent()
    operating_mode: Literal["Running", "Suspended"] = "Running"
    session_id: str | None = None
    worker_id: str | None = None
    idle: Idle = Idle()
    rotation: Rotation = Rotation()
    streaming: Literal["Enabled", "Disabled"] = "Disabled"
    persistence: Persistence = Persistence()
    retain_policy: Literal["Delete", "Retain"] = "Delete"
    pod_template: dict[str, Any] | None = None


class SessionStatus(Status):
    """What the session is doing. `phase` is None until the operator has seen it."""

    phase: SessionPhase | None = None
    worker_id: str | None = None
    session_id: str | None = None
    input_stream: str | None = None
    output_stream: str | None = None
    replicas: int | None = None
    pending_messages: int | None = None
    turns: int | None = None
    rotations: int | None = None
    dead_letters: int | None = None
    last_activity_time: Time | None = None
    usage: TaskUsage | None = Field(None)
