"""What a person would want to know of a session, as Kubernetes Events. Pure; part of its plan.

Each follows from the difference between the old status and the new one, so an operator that was
away tells it late and none is told twice.
"""

from orbiter_operator.kube.models import Announce
from orbiter_operator.sessions.models import SessionStatus
from orbiter_operator.sessions.observed import ObservedSession

_QUIET = ("Suspended", "QueueUnavailable")
_WHY = {
    "Idle": "nothing was said for longer than spec.rotation.afterIdleSeconds",
    "Tokens": "the conversation has used more than spec.rotation.maxTokens",
    "Topic": "the message is about something else",
    "Command": "the user asked for it with a command",
    "Requested": "the message asked for it",
    "Record": "the user's session record names another session",
}


def events(observed: ObservedSession, status: SessionStatus) -> tuple[Announce, ...]:
    """The Events that go with the change to this status."""
    return tuple(
        event
        for event in (
            _rotated(observed, status),
            _given_up(observed, status),
            _turned(observed, status, "Available"),
            _turned(observed, status, "Persisted"),
        )
        if event is not None
    )


def _rotated(observed: ObservedSession, status: SessionStatus) -> Announce | None:
    state = observed.queue.state if observed.queue else None
    count = status.rotations or 0
    if state is None or count <= (observed.status.rotations or 0):
        return None
    news = state.rotation
    message = f"session {status.session_id} begins"
    if news is not None:
        before = f"follows {news.from_session}" if news.from_session else "begins"
        why = _WHY.get(news.reason, "the worker says no more")
        message = f"{news.reason}: session {news.to} {before}; {why}"
    return Announce(kind="Normal", reason="SessionRotated", message=message, attempt=count)


def _given_up(observed: ObservedSession, status: SessionStatus) -> Announce | None:
    count = status.dead_letters or 0
    if count <= (observed.status.dead_letters or 0):
        return None
    condition = status.condition("DeadLetters")
    return Announce(
        kind="Warning",
        reason="MessageGivenUp",
        message=condition.message if condition else "",
        attempt=count,
    )


def _turned(observed: ObservedSession, status: SessionStatus, kind: str) -> Announce | None:
    """A condition that should hold has stopped to, or has another reason now."""
    new, old = status.condition(kind), observed.status.condition(kind)
    if new is None or new.status != "False" or new.reason in (*_QUIET, "Disabled"):
        return None
    if old is not None and old.status == "False" and old.reason == new.reason:
        return None
    return Announce(
        kind="Warning", reason=new.reason, message=new.message, attempt=status.turns or 0
    )
