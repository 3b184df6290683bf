"""What a plan is made of: the actions that it may ask for. Pure.

They are between `plan`, which decides, and `executor`, which acts: every one can be repeated after
a crash at any point and then changes nothing more.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_operator.kube.models import Event, Frozen
from orbiter_operator.pods.state import JobState
from orbiter_operator.tasks.models import TaskStatus

LINGERING = timedelta(seconds=120)
"""A worker that has published leaves within seconds; after so long its Job is deleted."""
REQUEUE_SECONDS = 30.0
"""After how long a task that waits is reconciled although nothing was heard."""
NEXT_POD_AFTER = timedelta(seconds=15)
"""How long a Job may take to make its next pod: its pauses double, from 10 s on to minutes."""
LIMIT_EXCEEDED = "DisruptionLimitExceeded"
STOPPED_BY_US = ("Cancelled", "ImagePullFailed", "NodeLost", LIMIT_EXCEEDED)
"""Reasons of outputs whose worker may still be there: its Job has to be deleted."""


class StartAttempt(Frozen):
    """Put the attempt's entry on the queue, unless it is there, and create its Job."""

    attempt: int
    prompt: str
    anew: str | None = None
    """What to say instead of `prompt` when the session that it continues is lost."""
    inherits: bool = False
    """Whether it begins with the checkpoint that `Observed.source` names."""
    resume: int = 0
    """Behind which disruption of the task the Job goes on with the attempt."""


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
    """What to do now, in this order: actions, Events and status, then observe again or requeue.

    Attributes:
        actions: What to do, in order. The first that fails ends the plan.
        status: The whole status the task should have; None leaves it alone.
        events: What a person would want to know.
        slot: Whether the task runs a Job, waits for one, or neither.
        in_line: Whether it waits for its concurrencyKey, as one that waits for a slot does too.
        reobserve: Observe again at once, because an action changed what is known.
        requeue_after: Reconcile again after so many seconds even if nothing happens.
    """

    actions: tuple[StartAttempt | Publish | DeleteJob | DeleteTask | ForgetSession, ...] = ()
    status: TaskStatus | None = None
    events: tuple[Event, ...] = ()
    slot: Literal["take", "wait", "leave"] = "leave"
    in_line: bool = False
    reobserve: bool = False
    requeue_after: float | None = None

    @property
    def starts(self) -> bool:
        """Whether an attempt begins with it."""
        return any(isinstance(action, StartAttempt) for action in self.actions)


def leftovers(jobs: Iterable[JobState]) -> tuple[DeleteJob, ...]:
    """The deletion of every Job that may still run."""
    return tuple(DeleteJob(name=job.name) for job in jobs if not job.over and not job.deleting)


def left(since: datetime | None, span: timedelta, now: datetime) -> float:
    """Seconds until `span` has passed since then; all of it when the time is not known."""
    return ((since or now) + span - now).total_seconds()
