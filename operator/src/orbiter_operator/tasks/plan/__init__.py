"""What to do about one AgentTask: the one place where the operator decides.

`plan(observed, now)` is pure: `observe` collects what it goes by, `executor` carries it out.
`stage` says where a task stands: before its next attempt (`waiting`), in one or waiting for an
answer to its agent's question (`running`), whose worker may have been taken away (`disruption`), or
at its end. What an output means, and what is done at
the end, is in `finished`, why there is none in `pods/reasons`.
"""

from datetime import datetime, timedelta

from orbiter_operator.tasks.observed import Observed, current_attempt, stage
from orbiter_operator.tasks.plan.actions import Plan
from orbiter_operator.tasks.plan.disruption import after_disruption
from orbiter_operator.tasks.plan.finished import after_attempt, at_the_end, when_deleted
from orbiter_operator.tasks.plan.running import during_attempt, while_asking
from orbiter_operator.tasks.plan.waiting import before_attempt


def plan(observed: Observed, now: datetime, *, image_patience: timedelta) -> Plan:
    """Decide what to do next about one AgentTask.

    Args:
        observed: Everything known about it.
        now: The time.
        image_patience: How long an image may fail to be pulled.

    Returns:
        Actions, the status the task should have, and when to requeue it.
    """
    match stage(observed):
        case "finished":
            return at_the_end(observed, now)
        case "asking":
            return while_asking(observed, now)
        case "between attempts":
            return before_attempt(observed, now, current_attempt(observed) + 1)
        case "in an attempt":
            attempt = current_attempt(observed)
            record = observed.record_of(attempt)
            if record is not None and record.output is not None:
                return after_attempt(observed, now, attempt, record.output)
            taken = after_disruption(observed, now, attempt)
            return taken or during_attempt(observed, now, attempt, image_patience)
        case "ignored":
            return when_deleted(observed, now) if observed.deleting else Plan()
