"""What a decision about a trigger depends on, and what it comes to."""

from datetime import datetime

from orbiter_operator.kube.models import Frozen, Refusal
from orbiter_triggers.controller.cache import TaskState
from orbiter_triggers.models import TriggerSpec, TriggerStatus


class Observed(Frozen):
    """All that a decision may depend on.

    `refusal` is what the API server said to the task of the name `refused`, in this pass.
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
    queue_error: str | None = None
    now: datetime


class Run(Frozen):
    """A task to make for one time of the schedule."""

    name: str
    scheduled: datetime


class Plan(Frozen):
    """What to do, in this order: delete what is replaced, create, write the status, tidy up."""

    replaced: tuple[TaskState, ...] = ()
    run: Run | None = None
    status: TriggerStatus
    outdated: tuple[TaskState, ...] = ()
    requeue_after: float | None = None
