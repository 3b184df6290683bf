"""While a task waits for the answer to its agent's question. Pure; part of `plan`.

No pod runs meanwhile. The answer begins the next attempt, which continues the agent's session; if
none comes in time the task has failed, and a cancelled task waits no longer.
"""

from datetime import datetime, timedelta

from orbiter_operator.tasks.observed import Observed, slot_after
from orbiter_operator.tasks.plan.actions import LINGERING, Plan, left, leftovers
from orbiter_operator.tasks.plan.result import end_event, give_up
from orbiter_operator.tasks.plan.status import readable


def while_asking(observed: Observed, now: datetime) -> Plan:
    """Wait for the answer, or give up."""
    if observed.spec.desired_state == "Cancelled":
        end = give_up(observed, now, "Cancelled", "Cancelled", "cancelled by spec.desiredState")
        return end.model_copy(update={"actions": leftovers(observed)})
    asked = observed.status.input_request
    since = (asked.asked_at if asked else None) or now
    patience = timedelta(seconds=observed.spec.input_timeout_seconds)
    rest = left(since, patience, now)
    if rest <= 0:
        waited = readable(round(patience.total_seconds() * 1000))
        question = asked.question if asked else ""
        text = f"nobody answered within {waited}: {question}"
        end = give_up(observed, now, "Failed", "InputTimeout", text)
        return end.model_copy(update={"actions": leftovers(observed)})
    stop = leftovers(observed)
    # It has published and leaves by itself; a worker that does not would work for nobody.
    lingers = left(since, LINGERING, now) if stop else 0.0
    return Plan(
        actions=stop if lingers <= 0 else (),
        event=end_event(observed.status) if observed.unacknowledged else None,
        slot=slot_after(observed, now),
        requeue_after=min(rest, lingers) if lingers > 0 else rest,
    )
