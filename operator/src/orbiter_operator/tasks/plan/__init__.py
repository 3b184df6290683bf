"""What to do about one AgentTask: the one place where the operator decides.

`plan(observed, now)` is pure; `reconcile` collects the facts, `executor` carries the answer out. A
task is before its next attempt (`admission`), in one (`progress`), waits for an answer to its
agent's question (`waiting`), or is at its end (`ending`). What an output means is in `outcome`,
why there is none in `failures`.
"""

from datetime import datetime, timedelta

from orbiter_operator.tasks.models import FINAL
from orbiter_operator.tasks.observed import Observed
from orbiter_operator.tasks.plan.actions import Plan
from orbiter_operator.tasks.plan.finished import at_the_end
from orbiter_operator.tasks.plan.input import while_asking
from orbiter_operator.tasks.plan.naming import current_attempt
from orbiter_operator.tasks.plan.running import during_attempt
from orbiter_operator.tasks.plan.status import ended_at
from orbiter_operator.tasks.plan.waiting import before_attempt

OURS = "orbiter.dev/operator"
"""The value of `spec.managedBy` that means this program, as its absence does."""


def plan(observed: Observed, now: datetime, *, image_patience: timedelta) -> Plan:
    """Decide what to do next about one AgentTask.

    Args:
        observed: Everything known about it.
        now: The time.
        image_patience: How long an image may fail to be pulled.

    Returns:
        Steps, the status the task should have, and when to look again.
    """
    if observed.deleting or observed.spec.managed_by not in (None, OURS):
        return Plan()
    if observed.status.phase in FINAL:
        return at_the_end(observed, now)
    if observed.asks:
        return while_asking(observed, now)
    attempt = current_attempt(observed)
    between = ended_at(observed.status) is not None and observed.status.attempts == attempt
    if attempt == 0 or between:
        return before_attempt(observed, now, attempt + 1)
    return during_attempt(observed, now, attempt, image_patience)
