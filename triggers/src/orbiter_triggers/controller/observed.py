"""What a decision about a trigger depends on, and what it comes to."""

from datetime import datetime

from orbiter_contracts.trigger_events import TriggerEvent
from orbiter_operator.kube.models import Frozen, Refusal
from orbiter_triggers.controller.cache import TaskState
from orbiter_triggers.models import TriggerSpec, TriggerStatus


class Arrival(Frozen):
    """An event that waits for a decision.

    Attributes:
        entry: Its entry in the stream.
        event: What it is.
        key: What names its task; "" when it makes none.
        why: Why it makes none.
        remembered: What is remembered of an event of that key: the entry and the task, or "".
        parked: Whether it was found before that it has to wait for room.
    """

    entry: str
    event: TriggerEvent
    key: str = ""
    why: str = ""
    remembered: str = ""
    parked: bool = False


class Observed(Frozen):
    """All that a decision may depend on.

    `refusal` is what the API server said to the task of the name `refused`, in this pass.
    `received` says whether events are received at all; `waiting` counts those that were found to
    have to wait.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    created: datetime
    spec: TriggerSpec
    spec_error: str | None = None
    status: TriggerStatus
    tasks: tuple[TaskState, ...] = ()
    refused: str = ""
    refusal: Refusal | None = None
    received: bool = False
    webhook_path: str | None = None
    arrivals: tuple[Arrival, ...] = ()
    waiting: int = 0
    queue_error: str | None = None
    now: datetime


class Run(Frozen):
    """A task to make, for one time of the schedule or of one event."""

    name: str
    scheduled: datetime | None = None
    arrival: Arrival | None = None


class Settled(Frozen):
    """An event about which nothing is left to decide.

    Attributes:
        entry: Its entry in the stream.
        digest: Of its key, when it has made a task, which is remembered.
        task: That task.
        refused: Why nobody can use it, when it is to be kept for people to look at.
    """

    entry: str
    digest: str = ""
    task: str = ""
    refused: str = ""


class Plan(Frozen):
    """What to do, in this order: delete what is replaced, create, write the status, tidy up."""

    replaced: tuple[TaskState, ...] = ()
    run: Run | None = None
    status: TriggerStatus
    settled: tuple[Settled, ...] = ()
    parked: tuple[str, ...] = ()
    outdated: tuple[TaskState, ...] = ()
    requeue_after: float | None = None
