"""What becomes of a trigger's events. Pure, as `plan` is.

An event stays in its stream until it is settled, and it is settled when nothing is left to do: its
task is there, or there will be none. A task is made before that is remembered, and remembered in
one step with leaving the stream. So whoever is killed in between finds the event again, and its
task under the name that follows from the event's key.

Events wait in their order. What makes no task waits for nobody.
"""

from datetime import datetime
from typing import Final, NamedTuple

from orbiter_contracts.bounds import one_line
from orbiter_contracts.trigger_events import TriggerEvent
from orbiter_triggers.controller.cache import TaskState
from orbiter_triggers.controller.observed import Arrival, Observed, Plan, Run, Settled
from orbiter_triggers.controller.status import (
    REFUSED,
    Ready,
    fired_or_before,
    room,
    status_with,
    until,
)
from orbiter_triggers.models import Note, Outcome
from orbiter_triggers.naming import event_digest, event_name

MOST_WAITING: Final = 1000
"""Events of one trigger that wait for room: the stream is its whole namespace's."""
_BRANCHED: Final = ("push", "pull_request")
_SHOWN: Final = 60


class Decision(NamedTuple):
    """What becomes of one event.

    Attributes:
        outcome: As the status has it; None when it is another round's to say.
        message: Why, as a sentence.
        task: The task that is there.
        make: The task that is to be made.
    """

    outcome: Outcome | None
    message: str = ""
    task: str = ""
    make: str = ""


def plan_events(
    observed: Observed,
    problem: str | None,
    outdated: tuple[TaskState, ...],
    tidy_at: datetime | None,
) -> Plan:
    """Decide about the events that were observed; at most one of them makes its task now.

    Args:
        observed: The trigger and what waits.
        problem: Why its spec cannot work.
        outdated: Tasks beyond the limits of history.
        tidy_at: When the next one will be.
    """
    notes, settled, parked = list[Note](), list[Settled](), list[str]()
    run: Run | None = None
    waiting = observed.waiting
    refused = ""
    for arrival in observed.arrivals:
        decision = _decide(observed, arrival, problem, run, waiting)
        if decision.make:
            run = Run(name=decision.make, arrival=arrival)
        outcome = decision.outcome
        if outcome is None:
            continue
        notes.append(_note(observed, arrival, outcome, decision))
        if outcome == "Waiting":
            if not arrival.parked:
                parked.append(arrival.entry)
                waiting += 1
            continue
        waiting -= arrival.parked
        refused = decision.message if outcome == "Refused" else refused
        settled.append(_settled(observed, arrival, outcome, decision))
    fired = any(note.outcome == "Fired" for note in notes)
    status = status_with(observed, _ready(observed, problem, refused, fired)).model_copy(
        update={
            "last_events": observed.status.noted(*notes),
            "waiting_events": waiting or None,
            "webhook_path": observed.webhook_path,
        }
    )
    free_at = room(observed).at if waiting else None
    return Plan(
        run=run,
        status=status,
        settled=tuple(settled),
        parked=tuple(parked),
        outdated=outdated,
        requeue_after=until(observed.now, tidy_at, free_at),
    )


def event_line(event: TriggerEvent) -> str:
    """An event as the status names it, for instance `issues.labeled 12 (72d3162e)`."""
    what = " ".join(filter(None, (event.kind or "event", event.number)))
    return f"{one_line(what, _SHOWN)} ({one_line(event.delivery, _SHOWN)})"


def _decide(
    observed: Observed, arrival: Arrival, problem: str | None, run: Run | None, waiting: int
) -> Decision:
    spec, event = observed.spec, arrival.event
    if problem is not None:
        return _wait(observed, arrival, problem, waiting)
    if spec.suspend:
        return Decision("Suspended", "spec.suspend is true")
    if arrival.why:
        return Decision("Ignored", arrival.why)
    name = event_name(observed.name, observed.uid, arrival.key)
    if whose := _own_branch(observed, event):
        return Decision("Ignored", f"AgentTask {whose} pushes to its branch")
    if (made := _made(observed, arrival, name)) is not None:
        outcome, task = made
        again = "" if outcome == "Fired" else f"of {arrival.key} there was a task"
        return Decision(outcome, again, task=task)
    if event.test:
        return Decision("Ignored", f"a test: it would make AgentTask {name}")
    if observed.refusal is not None and observed.refused == name:
        return Decision("Refused", f"no task was made: {observed.refusal.message}")
    there = room(observed)
    if not there.free:
        if spec.when_full == "Drop":
            return Decision("Dropped", there.why)
        return _wait(observed, arrival, there.why, waiting)
    if run is not None:
        return Decision(None)
    if waiting and not arrival.parked:
        return _wait(observed, arrival, "others of this trigger wait before it", waiting)
    return Decision(None, make=name)


def _wait(observed: Observed, arrival: Arrival, why: str, waiting: int) -> Decision:
    if waiting >= MOST_WAITING and not arrival.parked:
        return Decision("Dropped", f"{MOST_WAITING} events of this trigger wait already")
    return Decision("Waiting", why)


def _made(observed: Observed, arrival: Arrival, name: str) -> tuple[Outcome, str] | None:
    """The task that an event of this key has made: this one, or one before it; None for none."""
    entry, _, remembered = arrival.remembered.partition(" ")
    for task in observed.tasks:
        if task.name == name:
            entry, remembered = task.event, name
    if not remembered or arrival.event.test:
        return None
    return ("Fired" if entry == arrival.entry else "Duplicate"), remembered


def _own_branch(observed: Observed, event: TriggerEvent) -> str:
    """Which of its own tasks pushes to the branch that an event is about."""
    if event.scheme != "github" or event.kind.partition(".")[0] not in _BRANCHED:
        return ""
    own = (task.name for task in observed.tasks if task.branch and task.branch == event.branch)
    return next(own, "")


def _settled(observed: Observed, arrival: Arrival, outcome: Outcome, decision: Decision) -> Settled:
    if outcome == "Fired":
        digest = event_digest(observed.uid, arrival.key)
        return Settled(entry=arrival.entry, digest=digest, task=decision.task)
    refused = decision.message if outcome == "Refused" else ""
    return Settled(entry=arrival.entry, refused=refused)


def _note(observed: Observed, arrival: Arrival, outcome: Outcome, decision: Decision) -> Note:
    return Note(
        time=observed.now,
        event=event_line(arrival.event),
        outcome=outcome,
        task=decision.task or None,
        message=decision.message or None,
    )


def _ready(observed: Observed, problem: str | None, refused: str, fired: bool) -> Ready:
    if problem is not None:
        return Ready("False", "InvalidSpec", problem)
    if not observed.received:
        text = "no events are received here; set triggers.webhooks.enabled of the chart"
        return Ready("False", "SourceNotServed", text)
    if observed.spec.suspend:
        return Ready("True", "Suspended", "spec.suspend is true")
    if refused:
        return Ready("False", REFUSED, refused)
    return fired_or_before(observed, fired=fired)
