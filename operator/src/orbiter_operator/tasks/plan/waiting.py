"""Before an attempt: what it waits for (others, its key, a slot), or that it may begin. Pure."""

from collections.abc import Callable, Sequence
from datetime import datetime

from orbiter_operator.kube.models import NOT_SERVED, NOTHING_TO_RESUME
from orbiter_operator.pods.reasons import NO_POD_AFTER, Explanation
from orbiter_operator.tasks.observed import (
    Continuation,
    Dependencies,
    Observed,
    continuation,
    ended_at,
    failures_before,
    message_id,
    slot_after,
    still_there,
)
from orbiter_operator.tasks.plan.actions import (
    LINGERING,
    REQUEUE_SECONDS,
    Plan,
    Publish,
    StartAttempt,
    leftovers,
)
from orbiter_operator.tasks.plan.events import (
    answered_events,
    budget_events,
    cancelled_words,
    entry_ignored_events,
    inherits_events,
)
from orbiter_operator.tasks.plan.status import (
    asked_something,
    dependencies_met,
    give_up,
    pending_status,
    refused,
    substitute,
    wait,
)

Lookup = Callable[[str], str | None]
"""Phase of a task in the same namespace: None when there is no such task, "" before its first."""
Edges = Callable[[str], Sequence[str]]
"""Names a task depends on; empty when there is no such task."""
_NEVER = ("Failed", "Cancelled")
_SHOWN = 3
_MOST_EDGES = 5_000
"""How far a cycle is looked for: a millisecond, in which nobody else is served. Every cycle of
two is in reach, however many each depends on; tasks on a longer one may wait and say for what."""


def before_attempt(observed: Observed, now: datetime, attempt: int) -> Plan:
    """Start the attempt, or say what it waits for, or that it will never begin."""
    if observed.spec.desired_state == "Cancelled":
        text = cancelled_words(observed.spec.cancelled_by, "cancelled") + " before it ran"
        return _cancel(observed, now, attempt, "Cancelled", text)
    if observed.profile and observed.profile.reason:
        return wait(observed, now, observed.profile.reason, observed.profile.message)
    if observed.spec_error:
        return give_up(observed, now, "Failed", "InvalidSpec", observed.spec_error)
    if held := _previous_holds(observed, now, attempt - 1):
        return held
    if observed.not_served:
        return wait(observed, now, NOT_SERVED, observed.not_served)
    if blocked := _dependencies_hold(observed, now):
        return blocked
    if observed.taken_by:
        return give_up(observed, now, "Cancelled", "TakenElsewhere", observed.taken_by)
    spoken = continuation(observed, attempt)
    if observed.data_error and spoken is None:
        return give_up(observed, now, "Failed", "InvalidSpec", observed.data_error)
    if observed.prompt is None and spoken is None:
        text = observed.prompt_error or "the prompt is not known yet"
        return wait(observed, now, "PromptMissing", text, requeue_after=REQUEUE_SECONDS)
    from_task = observed.spec.resume_from if attempt == 1 else None
    inherits = bool(from_task)
    if inherits and (why := _nothing_to_resume(observed)):
        return give_up(observed, now, "Failed", NOTHING_TO_RESUME, why)
    if observed.behind and attempt == 1:
        text = f"waits for {observed.behind}, which is before it under the same concurrencyKey"
        held = wait(observed, now, "WaitingForConcurrencyKey", text)
        return held.model_copy(update={"in_line": True})
    if not observed.slots.free and not observed.queue:
        return _in_line(observed, now)
    if held := _budget_holds(observed, now, attempt):
        return held
    if observed.queue_error:
        return wait(observed, now, "QueueUnavailable", observed.queue_error)
    if observed.over_quota:  # its worker could begin, and not say so
        return wait(observed, now, "RedisQuotaExceeded", observed.over_quota)
    if observed.refusal:
        return refused(observed, now, attempt, observed.refusal)
    return Plan(
        actions=(_start(attempt, observed.prompt or "", spoken, inherits=inherits),),
        # A task that has shown a phase before is left alone: if all goes well, Running is its next
        # line, and if not, `running` says what is wrong.
        status=None if observed.status.phase else pending_status(observed, now, attempt, None),
        events=(
            *entry_ignored_events(observed.entry_ignored, attempt),
            *answered_events(_answered_by(observed, attempt), attempt),
            *budget_events(observed.budget, attempt),
            *inherits_events(from_task, observed.source.checkpoint),
        ),
        slot="take",
        requeue_after=NO_POD_AFTER.total_seconds(),
    )


def _nothing_to_resume(observed: Observed) -> str | None:
    """Why the task cannot go on with another's work: so it was found, or when it was copied."""
    refusal = observed.refusal
    if refusal is not None and refusal.reason == NOTHING_TO_RESUME:
        return refusal.message
    return observed.source.error


def _start(
    attempt: int, prompt: str, spoken: Continuation | None, *, inherits: bool
) -> StartAttempt:
    if spoken is None:
        return StartAttempt(attempt=attempt, prompt=prompt, inherits=inherits)
    return StartAttempt(attempt=attempt, prompt=spoken.answer, anew=spoken.anew)


def _answered_by(observed: Observed, attempt: int) -> str | None:
    """Whose answer the attempt is the first to hear, if that is known."""
    if not observed.spec.input or attempt == 1:
        return None
    asked = message_id(observed, attempt - 1)
    return next((item.by for item in observed.spec.input if item.id == asked), None)


def _budget_holds(observed: Observed, now: datetime, attempt: int) -> Plan | None:
    """Wait, or end, for want of money; None where there is enough, or want only warns."""
    told = observed.budget
    if told is None or told.lacks in (None, "Warn"):
        return None
    if told.lacks == "Cancel":
        return _cancel(observed, now, attempt, told.reason, told.message)
    return wait(observed, now, told.reason, told.message, requeue_after=told.again)


def _cancel(observed: Observed, now: datetime, attempt: int, reason: str, text: str) -> Plan:
    if observed.adopted and attempt == 1 and not observed.taken_by:
        # Whoever sent the entry waits for an answer.
        if observed.queue_error:
            return wait(observed, now, "QueueUnavailable", observed.queue_error)
        why = Explanation(reason=reason, message=text)
        output = substitute(observed, now, attempt, why, "cancelled")
        return Plan(actions=(Publish(attempt=attempt, output=output),), reobserve=True)
    end = give_up(observed, now, "Cancelled", reason, text)
    return end.model_copy(update={"actions": leftovers(observed.jobs)})


def _previous_holds(observed: Observed, now: datetime, previous: int) -> Plan | None:
    """Hold the attempt back until its time has come and all before it are surely over."""
    if previous == 0:
        return None
    ended = ended_at(observed.status) or now
    slot = slot_after(observed, now)
    failures = failures_before(observed, previous + 1)
    pause = (ended + observed.spec.retry.backoff(failures) - now).total_seconds()
    if pause > 0 and not asked_something(observed.status):
        return Plan(slot=slot, requeue_after=pause)
    if still_there(observed, now):
        # It has answered and will leave by itself; its log stays readable as long as its Job does.
        lingers = now - ended >= LINGERING
        actions = leftovers(observed.jobs) if lingers else ()
        return Plan(actions=actions, slot=slot, requeue_after=REQUEUE_SECONDS)
    return None


def waits_for_others(observed: Observed) -> bool:
    """Whether tasks it depends on keep it from its first attempt; later ones need them no more."""
    met = dependencies_met(observed.status) or observed.status.attempts > 0
    return not met and observed.dependencies != Dependencies()


def _dependencies_hold(observed: Observed, now: datetime) -> Plan | None:
    found = observed.dependencies
    if not waits_for_others(observed):
        return None
    if found.cycle:
        text = f"dependsOn goes in a circle: {' → '.join(found.cycle)}"
        return give_up(observed, now, "Failed", "DependencyCycle", text)
    if found.failed:
        text = f"it depends on {found.failed}, which was not completed"
        return give_up(observed, now, "Failed", "DependencyFailed", text)
    if found.missing:
        text = f"it depends on {list_names(found.missing)}, which does not exist here"
        return wait(observed, now, "DependencyMissing", text)
    if found.waiting:
        text = f"waits for {list_names(found.waiting)}"
        return wait(observed, now, "WaitingForDependencies", text)
    return None


def _in_line(observed: Observed, now: datetime) -> Plan:
    slots = observed.slots
    if slots.shown and observed.status.reason == "ConcurrencyLimit":
        return Plan(slot="wait", requeue_after=slots.refresh)
    text = (
        f"place {slots.position} of {slots.waiting}, "
        f"{slots.running} of {slots.limit} slots taken in this namespace"
    )
    if slots.stuck:
        tasks = "a task that cannot start" if len(slots.stuck) == 1 else "tasks that cannot start"
        text += f", {len(slots.stuck)} of them by {tasks}: {list_names(slots.stuck)}"
    return wait(observed, now, "ConcurrencyLimit", text, slot="wait", requeue_after=slots.refresh)


def resolve(name: str, phase_of: Lookup, edges: Edges) -> Dependencies:
    """Judge the dependencies of one task.

    Args:
        name: The task.
        phase_of: Phase of any task.
        edges: Dependencies of any task.

    Returns:
        The first of cycle, failed, missing and waiting that applies, or nothing to wait for.
    """
    wanted = edges(name)
    if not wanted:
        return Dependencies()
    phases = {dependency: phase_of(dependency) for dependency in wanted}
    if all(phase == "Completed" for phase in phases.values()):
        return Dependencies()
    if cycle := find_cycle(name, edges):
        return Dependencies(cycle=cycle)
    for dependency, phase in phases.items():
        if phase in _NEVER:
            return Dependencies(failed=dependency)
    if missing := tuple(item for item, phase in phases.items() if phase is None):
        return Dependencies(missing=missing)
    waiting = tuple(item for item, phase in phases.items() if phase != "Completed")
    return Dependencies(waiting=waiting)


def find_cycle(name: str, edges: Edges) -> tuple[str, ...]:
    """The shortest way from `name` back to itself, both ends included; empty when there is none.

    Looked for in every pass over a task that waits, so never in the whole of a large graph.
    """
    came_from: dict[str, str] = {}
    frontier, seen = [name], 0
    while frontier and seen < _MOST_EDGES:
        following: list[str] = []
        for current in frontier:
            if seen >= _MOST_EDGES:
                break
            for dependency in edges(current):
                seen += 1
                if dependency == name:
                    return _path(name, current, came_from)
                if dependency not in came_from:
                    came_from[dependency] = current
                    following.append(dependency)
        frontier = following
    return ()


def _path(name: str, last: str, came_from: dict[str, str]) -> tuple[str, ...]:
    path = [name, last] if last != name else [name]
    while path[-1] != name:
        path.append(came_from[path[-1]])
    if len(path) == 1:
        path.append(name)
    return tuple(reversed(path))


def list_names(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    shown = ", ".join(names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
