"""How a session's state of affairs is written down: phase, conditions and what it has cost.

Pure. Conditions, each with a reason; Reconciling and Stalled are there only while they are True:

- Available: a message sent now is answered; a sleeping session is available.
- Awake: its worker runs.
- Persisted: the agent's memory of the conversation outlives its pod.
- DeadLetters: some messages were given up; good when it is False.
- BudgetReserved: the money of its next turn is put aside; only where its namespace has budgets.
- Ready: it is as its spec wants it, available or suspended, as kstatus reads objects of any kind
  (sigs.k8s.io/cli-utils, pkg/kstatus).
- Reconciling: it is not, and will be by itself.
- Stalled: it is not, until somebody changes something.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from orbiter_contracts import POState
from orbiter_contracts.bounds import one_line
from orbiter_contracts.queues import dead_letter
from orbiter_contracts.usage import TaskUsage, shown_cost
from orbiter_operator.kube.models import Condition, ConditionStatus, Event, ProfileStatus
from orbiter_operator.sessions.models import ObservedSession, SessionPhase, SessionStatus

_QUIET = ("Suspended", "QueueUnavailable")
_PASSES = ("QueueUnavailable", "RedisQuotaExceeded", "BudgetExceeded")
_WHY = {
    "Idle": "nothing was said for longer than spec.rotation.afterIdleSeconds",
    "Tokens": "the conversation has used more than spec.rotation.maxTokens",
    "Topic": "the message is about something else",
    "Command": "the user asked for it with a command",
    "Requested": "the message asked for it",
    "Record": "the user's session record names another session",
}

AS_EXPECTED = "AsExpected"
_CLOCKS_DIFFER = timedelta(minutes=1)


class View(NamedTuple):
    """What a pass over a session comes to; `reason` says why it is not available, if it is not."""

    phase: SessionPhase
    reason: str = ""
    message: str = ""
    awake_message: str = ""


class ConditionState(NamedTuple):
    """A condition before it has a time."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""


def write(observed: ObservedSession, now: datetime, view: View, replicas: int) -> SessionStatus:
    """The status that says this, on top of what is known already.

    Returns:
        A status that equals the old one when nothing has changed.
    """
    worker = observed.worker_id
    states = (
        _available(view),
        _awake(view),
        _persisted(observed),
        _dead_letters(observed),
        *_readiness(view),
        *_budget(observed, view),
    )
    changes: dict[str, object] = {
        "phase": view.phase,
        "observed_generation": observed.generation,
        "conditions": tuple(_condition(observed, now, state) for state in states),
        "worker_id": worker,
        "replicas": replicas,
    }
    if not observed.unprofiled:
        changes["profile"] = ProfileStatus.of(observed.profile) if observed.profile else None
    if observed.pod is not None and observed.pod.began:
        changes["skills"] = observed.pod.skills or None
    changes |= _receivers(observed, now)
    queue = observed.queue
    if queue is not None:
        # Only now do the streams exist: who reads their names here may use them.
        changes |= {
            "input_stream": observed.keys.po_input(worker),
            "output_stream": observed.keys.po_output(worker),
            "pending_messages": queue.waiting,
            "dead_letters": queue.dead_letters,
            "last_activity_time": last_activity(observed, now),
            "session_id": observed.status.session_id or observed.spec.session_id,
        }
        if queue.state is not None:
            changes |= _worker_state(observed.status, queue.state)
    return observed.status.model_copy(update=changes)


def _receivers(observed: ObservedSession, now: datetime) -> dict[str, object]:
    """Who is told of the session, and since when it is they: what was before is not told."""
    old, told = observed.status, observed.spec.notify or None
    since = old.notify_since if told == old.notify else now if old.phase else observed.created
    return {"notify": told, "notify_since": since if told else None}


def last_activity(observed: ObservedSession, now: datetime) -> datetime | None:
    """When the last message or answer was seen; None when there was none.

    A time that is still to come is no one's: who writes to a stream or a state chooses it freely,
    and the session would stay awake until then. Clocks differ by a little; that much is now.
    """
    queue = observed.queue
    times = [observed.status.last_activity_time]
    if queue is not None:
        times += [queue.message_at, queue.answered_at]
        times += [queue.state.last_activity] if queue.state else []
    latest = now + _CLOCKS_DIFFER
    past = (min(time, now) for time in times if time is not None and time <= latest)
    found = max(past, default=None)
    # The status keeps milliseconds: what is finer would look like a change.
    return found and found.replace(microsecond=found.microsecond // 1000 * 1000)


def _worker_state(old: SessionStatus, state: POState) -> dict[str, object]:
    """What the worker says about its conversation. Counts never go back."""
    before = old.usage or TaskUsage()
    usage = TaskUsage(
        input_tokens=max(state.input_tokens, before.input_tokens),
        output_tokens=max(state.output_tokens, before.output_tokens),
        cache_read_tokens=max(state.cache_read_tokens, before.cache_read_tokens),
        cache_write_tokens=max(state.cache_write_tokens, before.cache_write_tokens),
        cost_usd=_larger(shown_cost(state.cost_usd) or None, before.cost_usd),
        turns=before.turns,
    )
    return {
        "session_id": state.session_id or old.session_id,
        "turns": max(state.turns, old.turns or 0),
        "rotations": max(state.rotations, old.rotations or 0),
        "usage": usage if usage != TaskUsage() else old.usage,
        "unpriced": max(state.unpriced, old.unpriced or 0) or old.unpriced,
    }


def _larger(one: float | None, other: float | None) -> float | None:
    return max((cost for cost in (one, other) if cost is not None), default=None)


def _available(view: View) -> ConditionState:
    if view.reason:
        return ConditionState("Available", "False", view.reason, view.message)
    return ConditionState("Available", "True", AS_EXPECTED)


def _readiness(view: View) -> tuple[ConditionState, ...]:
    if view.reason in ("", "Suspended"):
        return (ConditionState("Ready", "True", view.reason or AS_EXPECTED),)
    passes = view.phase == "Waking" or view.reason in _PASSES
    why = "Reconciling" if passes else "Stalled"
    return (
        ConditionState("Ready", "False", view.reason, view.message),
        ConditionState(why, "True", view.reason, view.message),
    )


def _budget(observed: ObservedSession, view: View) -> tuple[ConditionState, ...]:
    told = observed.budget
    if told is None or not (told.held or view.phase == "Waiting"):
        return ()
    status: ConditionStatus = "True" if told.held else "False"
    return (ConditionState("BudgetReserved", status, told.reason, told.message),)


def _awake(view: View) -> ConditionState:
    awake = view.phase in ("Ready", "Busy")
    return ConditionState("Awake", "True" if awake else "False", view.phase, view.awake_message)


def _persisted(observed: ObservedSession) -> ConditionState:
    kind = observed.spec.persistence.type
    if kind == "None":
        text = "spec.persistence.type is None: the agent forgets the conversation when it sleeps"
        return ConditionState("Persisted", "False", "Disabled", text)
    if kind == "PersistentVolumeClaim":
        return ConditionState("Persisted", "True", "VolumeMounted")
    state = observed.queue.state if observed.queue else None
    snapshot = state.snapshot if state else None
    if snapshot is None:
        old = observed.status.condition("Persisted")
        if old is not None:
            return ConditionState("Persisted", old.status, old.reason, old.message)
        return ConditionState("Persisted", "Unknown", "NothingYet", "no turn has ended yet")
    if snapshot.stored:
        return ConditionState("Persisted", "True", "SnapshotStored")
    text = "the agent's session could not be stored; it will be forgotten when the session sleeps"
    if snapshot.limit:
        text = (
            f"the agent's session has {snapshot.bytes} bytes compressed, more than the limit of "
            f"{snapshot.limit}: what has happened since the last snapshot is forgotten when the "
            "session sleeps; /new begins a small one"
        )
    return ConditionState("Persisted", "False", f"Snapshot{snapshot.reason or 'NotStored'}", text)


def _dead_letters(observed: ObservedSession) -> ConditionState:
    if observed.queue is None:
        old = observed.status.condition("DeadLetters")
        if old is not None:
            return ConditionState("DeadLetters", old.status, old.reason, old.message)
        return ConditionState("DeadLetters", "Unknown", "QueueUnavailable")
    count = observed.queue.dead_letters
    if not count:
        return ConditionState("DeadLetters", "False", "NoDeadLetters")
    messages = "1 message was" if count == 1 else f"{count} messages were"
    where = dead_letter(observed.keys.po_input(observed.worker_id))
    text = f"{messages} given up and moved to the stream {where}, with the reason"
    return ConditionState("DeadLetters", "True", "MessagesGivenUp", text)


def _condition(observed: ObservedSession, now: datetime, state: ConditionState) -> Condition:
    message = one_line(state.message, 400)
    return observed.status.next_condition(
        state.type, state.status, state.reason, message, now, observed.generation
    )


def events(observed: ObservedSession, status: SessionStatus) -> tuple[Event, ...]:
    """The Events that go with the change to this status."""
    return tuple(
        event
        for event in (
            _rotated(observed, status),
            _given_up(observed, status),
            _turned(observed, status, "Available"),
            _turned(observed, status, "Persisted"),
            _over_budget(observed, status),
        )
        if event is not None
    )


def _rotated(observed: ObservedSession, status: SessionStatus) -> Event | None:
    state = observed.queue.state if observed.queue else None
    count = status.rotations or 0
    if state is None or count <= (observed.status.rotations or 0):
        return None
    rotation = state.rotation
    message = f"session {status.session_id} begins"
    if rotation is not None:
        before = f"follows {rotation.from_session}" if rotation.from_session else "begins"
        why = _WHY.get(rotation.reason, "the worker says no more")
        message = f"{rotation.reason}: session {rotation.to} {before}; {why}"
    return Event(kind="Normal", reason="SessionRotated", message=message, attempt=count)


def _given_up(observed: ObservedSession, status: SessionStatus) -> Event | None:
    count = status.dead_letters or 0
    if count <= (observed.status.dead_letters or 0):
        return None
    condition = status.condition("DeadLetters")
    return Event(
        kind="Warning",
        reason="MessageGivenUp",
        message=condition.message if condition else "",
        attempt=count,
    )


def _turned(observed: ObservedSession, status: SessionStatus, kind: str) -> Event | None:
    """A condition that should hold has stopped to, or has another reason now."""
    new, old = status.condition(kind), observed.status.condition(kind)
    if new is None or new.status != "False" or new.reason in (*_QUIET, "Disabled"):
        return None
    if old is not None and old.status == "False" and old.reason == new.reason:
        return None
    return Event(kind="Warning", reason=new.reason, message=new.message, attempt=status.turns or 0)


def _over_budget(observed: ObservedSession, status: SessionStatus) -> Event | None:
    """It is awake without room for its turn, because its budget only warns."""
    new, old = status.condition("BudgetReserved"), observed.status.condition("BudgetReserved")
    if new is None or (new.status, new.reason) != ("True", "BudgetExceeded"):
        return None
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        return None
    return Event(kind="Warning", reason=new.reason, message=new.message, attempt=status.turns or 0)
