"""What a plan may ask for: the actions between `plan`, which decides, and `executor`, which acts.

Every action can be repeated after a crash at any point and then changes nothing more.
"""

from typing import Literal

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_operator.kube.models import Event, Frozen
from orbiter_operator.tasks.models import TaskStatus


class StartAttempt(Frozen):
    """Put the attempt's entry on the queue and create its Job."""

    attempt: int
    prompt: str
    anew: str | None = None
    """What to say instead of `prompt` when the session that it continues is lost."""


class Publish(Frozen):
    """Publish an output for an attempt whose worker cannot, unless it has one already."""

    attempt: int
    output: DeveloperWorkerOutput


class DeleteJob(Frozen):
    """Delete an attempt's Job; Kubernetes stops its pod."""

    name: str


class ForgetSession(Frozen):
    """Delete what was kept of the agent's session: nobody will continue it."""


class DeleteTask(Frozen):
    """Delete the AgentTask itself: its time to live is over."""


class Plan(Frozen):
    """What to do now, in this order: actions, event and status, then observe again or requeue.

    Attributes:
        actions: What to do, in order. The first that fails ends the plan.
        status: The whole status the task should have; None leaves it alone.
        event: What a person would want to know.
        slot: Whether the task runs a Job, waits for one, or neither.
        reobserve: Observe again at once, because an action changed what is known.
        requeue_after: Reconcile again after so many seconds even if nothing happens.
    """

    actions: tuple[StartAttempt | Publish | DeleteJob | DeleteTask | ForgetSession, ...] = ()
    status: TaskStatus | None = None
    event: Event | None = None
    slot: Literal["take", "wait", "leave"] = "leave"
    reobserve: bool = False
    requeue_after: float | None = None
