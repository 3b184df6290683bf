"""POSession as the operator understands it: spec, status, and what is known of it at one moment.

Spec and status are frozen copies of the dicts that travel to and from the API server;
crds/posession.yaml is the authority on what each field means. `ObservedSession` is the input of
`plan`. Pure.
"""

import re
from datetime import datetime
from typing import Any, Literal

from orbiter_contracts import POState
from orbiter_contracts.bounds import one_line
from orbiter_contracts.notify import Sinks
from orbiter_contracts.queues import BARE, Keys
from orbiter_contracts.skills import FetchedSkills
from orbiter_contracts.usage import TaskUsage
from orbiter_operator.budgets.models import Budgeted
from orbiter_operator.kube.models import (
    NOT_SERVED,
    Agent,
    Frozen,
    KubeModel,
    Profiled,
    ProfileRef,
    ProfileStatus,
    Refusal,
    Status,
    Time,
)
from orbiter_operator.kube.names import PROFILE, SESSION, SESSION_UID, TEMPLATE, label_of, owner_of
from orbiter_operator.pods.state import PodState, key_prefix, pod_state

SessionPhase = Literal["Asleep", "Waiting", "Waking", "Ready", "Busy", "Suspended", "Failed"]


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
    profile_ref: ProfileRef | None = None
    agent: Agent = Agent()
    operating_mode: Literal["Running", "Suspended"] = "Running"
    session_id: str | None = None
    worker_id: str | None = None
    idle: Idle = Idle()
    rotation: Rotation = Rotation()
    streaming: Literal["Enabled", "Disabled"] = "Disabled"
    persistence: Persistence = Persistence()
    notify: Sinks = ()
    pod_template: dict[str, Any] | None = None


class Disruption(KubeModel):
    """What the cluster did when it last took the session's pod, and to which one."""

    time: Time
    reason: str
    message: str = ""
    pod_name: str
    pod_creation_time: Time


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
    disruptions: int | None = None
    last_disruption: Disruption | None = None
    last_activity_time: Time | None = None
    usage: TaskUsage | None = None
    unpriced: int | None = None
    profile: ProfileStatus | None = None
    skills: FetchedSkills | None = None
    notify: Sinks | None = None
    notify_since: Time | None = None


Object = dict[str, Any]
_WORKER_ID = re.compile(r"[A-Za-z0-9._-]+")
_LONGEST_WORKER_ID, _SHOWN = 128, 80


class DeploymentState(Frozen):
    """The session's Deployment.

    `template` is the fingerprint of the pod template it was given, `profile` the revision that
    keeps the profile it was made with, `prefix` that of its worker's keys in Redis.
    """

    name: str
    uid: str
    owner: str
    replicas: int
    template: str = ""
    profile: str = ""
    prefix: str = ""


class QueueState(Frozen):
    """The session's streams at one moment.

    Attributes:
        undelivered: Messages nobody was handed, counted even where Redis reports no lag.
        pending: Messages handed to the worker and not answered yet.
        last_message: Id of the newest message ever, for the wake reader to begin after.
        message_at: When that message came, None before the first.
        answered_at: When the newest answer came.
        dead_letters: Messages that were given up.
        state: What the worker says of itself and has written with each output, so that an operator
            that was away has missed nothing. None when it has never said anything.
    """

    undelivered: int = 0
    pending: int = 0
    last_message: str = "0-0"
    message_at: datetime | None = None
    answered_at: datetime | None = None
    dead_letters: int = 0
    state: POState | None = None

    @property
    def waiting(self) -> int:
        """Messages that wait or are being answered."""
        return self.undelivered + self.pending


DUPLICATE_USER, DUPLICATE_WORKER = "DuplicateUser", "DuplicateWorkerId"


class Rival(Frozen):
    """Another, older POSession that has what this one wants for itself."""

    name: str
    reason: str
    shared: str


def why_held(
    spec: SessionSpec,
    spec_error: str | None,
    rival: Rival | None,
    not_served: str | None,
    profile: Profiled | None = None,
) -> str:
    """Why no message of a session may be answered now, in one word; empty when it may."""
    if profile is not None and profile.reason:
        return profile.reason
    if spec_error:
        return "InvalidSpec"
    if rival is not None:
        return rival.reason
    if not_served:
        return NOT_SERVED
    return "Suspended" if spec.operating_mode == "Suspended" else ""


class ObservedSession(Frozen):
    """Everything about one POSession that a decision may depend on.

    `queue` is None when Redis did not answer (`queue_error` says why). `heard` is the name of the
    last lifecycle event, a hint that may be missing. `template` is the fingerprint its Deployment
    should have. `spec_error` says why the spec cannot be run; `spec` may then be empty. `keys` are
    those under which the conversation is; it is `leaving` them when its namespace has others.
    `not_served` says why no worker may run in its namespace. `profile` is that of its worker, or of
    the next one; `spec` is what both say together. `budget` is how it stands to the budgets of its
    namespace; None where there are none, and while it sleeps and no message waits.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    created: datetime
    worker_id: str
    spec: SessionSpec
    spec_error: str | None = None
    status: SessionStatus
    deleting: bool = False
    template: str = ""
    deployment: DeploymentState | None = None
    pods: tuple[PodState, ...] = ()
    queue: QueueState | None = None
    queue_error: str | None = None
    heard: str = ""
    rival: Rival | None = None
    refusal: Refusal | None = None
    keys: Keys = BARE
    leaving: bool = False
    over_quota: str | None = None
    not_served: str | None = None
    profile: Profiled | None = None
    budget: Budgeted | None = None

    @property
    def unprofiled(self) -> bool:
        """Whether it waits for its profile."""
        return self.profile is not None and self.profile.reason is not None

    @property
    def unpaid(self) -> bool:
        """Whether its next turn has to wait for money, or comes to nothing."""
        return self.budget is not None and self.budget.lacks in ("Queue", "Cancel")

    @property
    def replicas(self) -> int:
        """Pods its Deployment asks for now."""
        return self.deployment.replicas if self.deployment else 0

    @property
    def pod(self) -> PodState | None:
        """The pod that works or is to work, None when there is none."""
        alive = [pod for pod in self.pods if pod.deleted_at is None and not pod.over]
        return max(alive, key=lambda pod: pod.created, default=None)


def deployment_of_session(obj: Object) -> DeploymentState | None:
    """Read a Deployment; None when it is no session's, whatever its labels say."""
    meta, owner = obj["metadata"], owner_of(obj, "POSession")
    if owner is None or not meta["name"] == owner[0] == label_of(obj, SESSION):
        return None
    return DeploymentState(
        name=meta["name"],
        uid=meta["uid"],
        owner=owner[1],
        replicas=int((obj.get("spec") or {}).get("replicas", 1)),
        template=(meta.get("annotations") or {}).get(TEMPLATE, ""),
        profile=str((meta.get("annotations") or {}).get(PROFILE, "")),
        prefix=key_prefix(obj),
    )


def pod_of_session(obj: Object) -> PodState | None:
    """Read a Pod; None when it is no session's worker, whatever its labels say.

    A worker's pod is a ReplicaSet's of the session's Deployment, which has the session's name.
    """
    owner, uid = owner_of(obj, "ReplicaSet"), label_of(obj, SESSION_UID)
    if owner is None or not uid or owner[0].rpartition("-")[0] != label_of(obj, SESSION):
        return None
    return pod_state(obj, owner=uid, replica_set=owner[0])


def default_worker_id(namespace: str, name: str) -> str:
    """The worker id of a session that does not ask for another."""
    return f"{namespace}.{name}"


def worker_id_error(namespace: str, name: str, worker_id: str) -> str | None:
    """Why a session may not have this worker id; None when it may.

    Streams, memory and the worker's word go by it. It begins with the session's own namespace, and
    a namespace has no dot in its name, so no session has what belongs to another namespace.
    """
    own, dot, rest = worker_id.partition(".")
    usable = _WORKER_ID.fullmatch(rest) and len(worker_id) <= _LONGEST_WORKER_ID
    if own == namespace and dot and usable:
        return None
    return (
        f"spec.workerId is {one_line(worker_id, _SHOWN)!r}: it must begin with the session's own "
        f"namespace and a dot, have letters, digits, '.', '_' and '-' only, and at most "
        f"{_LONGEST_WORKER_ID} of them; write {default_worker_id(namespace, name)} or leave it out"
    )
