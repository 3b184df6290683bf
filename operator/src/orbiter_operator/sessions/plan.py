"""What to do about one POSession: the one place where it is decided whether a session sleeps.

`plan_session(observed, now)` is pure. A session is awake while it has work or has had some lately,
and never while it is suspended, a duplicate, cannot be run or cannot be paid. A turn that goes on
is always left to end. A session whose last pod has not ended is not woken yet: two workers would
share one name.
"""

from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from orbiter_operator.kube.models import NOT_SERVED, REFUSED_RETRY_SECONDS, Event, Frozen
from orbiter_operator.pods.reasons import STARTS_WITHIN, Problem, why_not_ready
from orbiter_operator.sessions.disruption import counted, disrupted
from orbiter_operator.sessions.models import ObservedSession, SessionPhase, SessionStatus, why_held
from orbiter_operator.sessions.status import View, events, last_activity, write

_LOST_POD_SECONDS = 5.0


class SetReplicas(Frozen):
    """Have the Deployment ask for so many pods."""

    replicas: int


class Apply(Frozen):
    """Create the Deployment, or give it the pod template it should have."""

    replicas: int
    create: bool


class Dismiss(Frozen):
    """Delete the Deployment, its Secret with it, and let the session's worker in no more."""


class SessionPlan(Frozen):
    """What to do now, in this order: actions, Events, the status.

    Attributes:
        actions: What to do with the Deployment: one thing or none.
        status: The whole status the session should have; None leaves it alone.
        events: What a person would want to know.
        watch: Requeue as soon as a message comes, because nobody else would notice.
        reobserve: Observe again at once, because an action has changed what is known.
        requeue: Reconcile again when the others in the queue have had their turn.
        requeue_after: Reconcile again after so many seconds even if nothing happens.
    """

    actions: tuple[SetReplicas | Apply | Dismiss, ...] = ()
    status: SessionStatus | None = None
    events: tuple[Event, ...] = ()
    watch: Literal["input", "nothing"] = "nothing"
    reobserve: bool = False
    requeue: bool = False
    requeue_after: float | None = None


class Wanted(NamedTuple):
    """How many pods there should be, and when to think again."""

    replicas: int
    requeue_after: float | None = None


def plan_session(
    observed: ObservedSession, now: datetime, *, image_patience: timedelta
) -> SessionPlan:
    """Decide what to do next about one POSession.

    Args:
        observed: Everything known about it.
        now: The time.
        image_patience: How long an image may fail to be pulled before the session is Failed.

    Returns:
        At most one action, the status it should have, and when to requeue it.
    """
    if observed.deleting:
        return SessionPlan()
    wanted = _wanted(observed, now)
    action = None if observed.refusal else _action(observed, wanted.replicas)
    if isinstance(action, SetReplicas) and action.replicas == 0:
        # A message may have come meanwhile: the status is written after another observation.
        return SessionPlan(actions=(action,), reobserve=True)
    if isinstance(action, SetReplicas) and observed.status.phase is not None:
        # Whoever else has a message is woken before this one's status is written.
        return SessionPlan(actions=(action,), requeue=True)
    problem = _problem(observed, now, image_patience)
    status = write(observed, now, _view(observed, wanted, problem, now), wanted.replicas)
    status = status.model_copy(update=counted(observed, now))
    requeue_after = wanted.requeue_after
    if problem is not None and not problem.lasting and observed.pod is not None:
        left = (observed.pod.created + image_patience - now).total_seconds()
        requeue_after = min(requeue_after or left, left) if left > 0 else requeue_after
    if problem is None and observed.pod is not None and (since := observed.pod.starting_since):
        left = (since + STARTS_WITHIN - now).total_seconds()
        requeue_after = min(requeue_after or left, left) if left > 0 else requeue_after
    if observed.refusal is not None:
        requeue_after = REFUSED_RETRY_SECONDS
    return SessionPlan(
        actions=(action,) if action else (),
        status=status,
        events=(*events(observed, status), *disrupted(observed, status)),
        watch="nothing" if wanted.replicas else "input",
        requeue_after=requeue_after,
    )


def is_busy(observed: ObservedSession) -> bool:
    """Whether a worker is on a message: it holds one, or the last it has said is `busy`."""
    queue = observed.queue
    if queue is None:
        return False
    if queue.pending:
        return True
    said = queue.state.state if queue.state else observed.heard
    return said == "busy"


def is_ready(observed: ObservedSession) -> bool:
    """Whether the worker of the present pod takes messages."""
    pod, queue = observed.pod, observed.queue
    if pod is None or pod.running_since is None:
        return False
    state = queue.state if queue else None
    if state is None or state.ready_at is None:
        return True  # a worker that keeps no state: it runs, so it will read
    return state.state in ("ready", "busy") and state.ready_at >= pod.running_since


def _wanted(observed: ObservedSession, now: datetime) -> Wanted:
    queue, awake = observed.queue, observed.replicas > 0
    held = (observed.spec, observed.spec_error, observed.rival, observed.not_served)
    if why_held(*held, observed.profile):
        # The worker takes no further message (observing its streams said so), so it is left alone
        # however long its turn takes.
        return Wanted(1 if awake and (queue is None or is_busy(observed)) else 0)
    if queue is None:
        return Wanted(1 if awake else 0)
    if observed.unpaid:
        # Its worker begins no further turn. A message that an earlier one died of is no turn yet.
        said = queue.state.state == "busy" if queue.state else is_busy(observed)
        again = observed.budget.again if observed.budget and queue.waiting else None
        return Wanted(1 if awake and said else 0, again)
    if not awake:
        if not queue.waiting:
            return Wanted(0)
        if any(pod.alive(now) for pod in observed.pods):
            return Wanted(0, _LOST_POD_SECONDS)
        return Wanted(1)
    if queue.waiting or is_busy(observed):
        return Wanted(1)
    quiet_since = last_activity(observed, now) or observed.created
    patience = timedelta(seconds=observed.spec.idle.scale_to_zero_after_seconds)
    left = (quiet_since + patience - now).total_seconds()
    return Wanted(1, left) if left > 0 else Wanted(0)


def _action(observed: ObservedSession, replicas: int) -> SetReplicas | Apply | Dismiss | None:
    deployment = observed.deployment
    if deployment is None:
        unready = observed.spec_error or observed.not_served or observed.unprofiled
        if unready or (observed.rival and not replicas):
            return None
        return Apply(replicas=replicas, create=True)
    if observed.not_served:
        if deployment.replicas != replicas:
            return SetReplicas(replicas=replicas)
        return None if replicas or not all(pod.over for pod in observed.pods) else Dismiss()
    revision = observed.profile.revision if observed.profile else ""
    made_of, wanted = (deployment.template, deployment.profile), (observed.template, revision)
    stale = made_of != wanted and not observed.spec_error and not observed.unprofiled
    # While Redis is away nobody knows whether a turn goes on.
    unknown = observed.queue is None and observed.replicas > 0
    if stale and not unknown and not is_busy(observed):
        if observed.leaving:
            # What waits for a worker that takes messages is left to it.
            waiting = observed.queue is not None and observed.queue.waiting
            sleeps = observed.replicas > 0 and not (waiting and is_ready(observed))
            return SetReplicas(replicas=0) if sleeps else None
        return Apply(replicas=replicas, create=False)
    if deployment.replicas != replicas:
        return SetReplicas(replicas=replicas)
    return None


def _problem(observed: ObservedSession, now: datetime, patience: timedelta) -> Problem | None:
    if observed.replicas == 0 or observed.pod is None:
        return None
    return why_not_ready(observed.pod, now, patience)


def _view(
    observed: ObservedSession, wanted: Wanted, problem: Problem | None, now: datetime
) -> View:
    """The phase, and why messages are not answered if they are not."""
    queue = observed.queue
    working = is_busy(observed) and any(pod.alive(now) for pod in observed.pods)
    if observed.profile is not None and observed.profile.reason:
        phase: SessionPhase = "Busy" if working else "Asleep"
        return View(phase, observed.profile.reason, observed.profile.message)
    if observed.spec_error:
        return View("Failed", "InvalidSpec", observed.spec_error)
    if (refusal := observed.refusal) is not None:
        text = (
            f"Deployment {observed.name} exists and is {refusal.holder}; delete it or choose "
            "another name for the session"
        )
        conflict = View("Failed", "NameConflict", text)
        return conflict if refusal.holder else View("Failed", refusal.reason, refusal.message)
    if queue is None:
        phase = observed.status.phase or "Asleep"
        return View(phase, "QueueUnavailable", observed.queue_error or "Redis does not answer")
    if observed.rival is not None:
        rival = observed.rival
        text = (
            f"{rival.shared} already belongs to POSession {rival.name}, which is older; "
            "delete one of the two"
        )
        return View("Busy" if working else "Asleep", rival.reason, text)
    if observed.not_served:
        return View("Busy" if working else "Asleep", NOT_SERVED, observed.not_served)
    if observed.spec.operating_mode == "Suspended":
        text = "spec.operatingMode is Suspended: messages wait until it is Running"
        return View("Busy" if working else "Suspended", "Suspended", text)
    if observed.unpaid and observed.budget and queue.waiting and not wanted.replicas:
        return View("Waiting", observed.budget.reason, observed.budget.message)
    if wanted.replicas and problem is not None:
        return View("Failed" if problem.lasting else "Waking", problem.reason, problem.message)
    view = _on_its_way(observed, wanted)
    if observed.over_quota:
        # What is there is still answered; a message sent now is refused.
        return view._replace(reason="RedisQuotaExceeded", message=observed.over_quota)
    return view


def _on_its_way(observed: ObservedSession, wanted: Wanted) -> View:
    """The phase of a session that nothing keeps from working."""
    waiting = observed.queue is not None and observed.queue.waiting
    if not wanted.replicas:
        if waiting:
            return View("Waking", awake_message="the pod of last time has not ended yet")
        return View("Asleep")
    if is_ready(observed):
        return View("Busy" if waiting or is_busy(observed) else "Ready")
    return View("Waking")
