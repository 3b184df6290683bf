"""What is known about one POSession at one moment: the input of `session_plan`."""

from datetime import datetime

from orbiter_contracts import POState
from orbiter_operator.kube.models import Facts, Refusal
from orbiter_operator.pods.state import LOST_AFTER_SECONDS
from orbiter_operator.sessions.models import SessionSpec, SessionStatus


class DeploymentFacts(Facts):
    """The session's Deployment. `template` is the fingerprint of the pod template it was given."""

    name: str
    uid: str
    owner: str
    replicas: int
    template: str = ""


class SessionPodFacts(Facts):
    """One of its pods, as far as it says whether a worker runs and why not.

    `waiting_*`, `exit_*`: of the worker's container or of an init container that holds it up;
    `exit_*` also of the run before the present one. Times are those of the kubelet, in seconds.
    """

    name: str
    owner: str
    created: datetime
    phase: str = "Pending"
    node: str = ""
    deleted_at: datetime | None = None
    unschedulable: str | None = None
    image: str = ""
    waiting_reason: str = ""
    waiting_message: str = ""
    running_since: datetime | None = None
    restarts: int = 0
    exit_reason: str = ""
    exit_code: int | None = None
    exit_message: str = ""

    @property
    def over(self) -> bool:
        """Whether its containers have ended for good."""
        return self.phase in ("Succeeded", "Failed")

    def lost(self, now: datetime) -> bool:
        """Whether its node has stopped answering: deleted long ago and still there."""
        if self.deleted_at is None:
            return False
        return (now - self.deleted_at).total_seconds() > LOST_AFTER_SECONDS

    def in_the_way(self, now: datetime) -> bool:
        """Whether its worker may still hold a message: another one must not be started beside."""
        return not self.over and not self.lost(now)


class QueueFacts(Facts):
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


DUPLICATE_USER = "DuplicateUser"
DUPLICATE_WORKER = "DuplicateWorkerId"


class Rival(Facts):
    """Another, older POSession that has what this one wants for itself."""

    name: str
    reason: str
    shared: str


def why_held(spec: SessionSpec, spec_error: str | None, rival: Rival | None) -> str:
    """Why no message of a session may be answered now, in one word; empty when it may."""
    if spec_error:
        return "InvalidSpec"
    if rival is not None:
        return rival.reason
    return "Suspended" if spec.operating_mode == "Suspended" else ""


class ObservedSession(Facts):
    """Everything about one POSession that a decision may depend on.

    `queue` is None when Redis did not answer (`queue_error` says why). `heard` is the name of the
    last lifecycle event, news that may be missing. `template` is the fingerprint its Deployment
    should have. `spec_error` says why the spec cannot be run; `spec` may then be empty.
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
    deployment: DeploymentFacts | None = None
    pods: tuple[SessionPodFacts, ...] = ()
    queue: QueueFacts | None = None
    queue_error: str | None = None
    heard: str = ""
    rival: Rival | None = None
    refusal: Refusal | None = None

    @property
    def replicas(self) -> int:
        """Pods its Deployment asks for now."""
        return self.deployment.replicas if self.deployment else 0

    @property
    def pod(self) -> SessionPodFacts | None:
        """The pod that works or is to work, None when there is none."""
        alive = [pod for pod in self.pods if pod.deleted_at is None and not pod.over]
        return max(alive, key=lambda pod: pod.created, default=None)
