"""What is to be told of an object, from its status alone. Pure; total, whoever wrote the status.

Level, not edge: what is true now and was within the last day is told, however often it is seen; its
id follows from the object's uid and from what has happened, so it is one event. Nothing that is
secret is in a status. The prompt is not told; the agent's words are, cut, as data.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from pydantic_core import to_json

from orbiter_contracts.bounds import one_line, shortened
from orbiter_contracts.cloud_events import cloud_event, source_of
from orbiter_contracts.notify import Occasion, Sink, read_sinks
from orbiter_contracts.outcome import Result
from orbiter_contracts.usage import TaskUsage
from orbiter_operator.kube.models import KubeModel, Status, Time, read_status, timestamp
from orbiter_operator.kube.names import parse_time
from orbiter_triggers.courier.notify.models import DAY, Notification, Subject

Object = dict[str, Any]
Kind = Literal["AgentTask", "POSession", "AgentBudget"]
TASK: Final = "AgentTask"
SESSION: Final = "POSession"
BUDGET: Final = "AgentBudget"
PLURALS: Final[dict[Kind, str]] = {
    TASK: "agenttasks",
    SESSION: "posessions",
    BUDGET: "agentbudgets",
}
MAX_TEXT: Final = 2048
"""Characters of a summary, a question or a message."""
MAX_RESULT_BYTES: Final = 16 * 1024
"""Of `result.data` as JSON; what is larger is left out."""
_LINE: Final = 1024
_DIGEST: Final = 16
# What a terminal or a log would take for more than text.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class _Question(KubeModel):
    id: str
    question: str = ""
    asked_at: Time
    kind: str | None = None


class _Seen(Status):
    """What of a status is told, of either kind."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    attempts: int | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    duration_ms: int | None = None
    result: Result | None = None
    usage: TaskUsage | None = None
    input_request: _Question | None = None
    notify: Any = None
    notify_since: Time | None = None


class Fact(NamedTuple):
    """Something that has become of an object.

    Attributes:
        occasion: What.
        tail: What tells it from others of the same object, behind the uid in its id.
        time: When.
    """

    occasion: Occasion
    tail: str
    time: datetime


class Receivers(NamedTuple):
    """Who is told of an object.

    Attributes:
        sinks: They.
        since: Since when it is they: what was before is not told.
        until: When the object ended; None while it has not.
    """

    sinks: tuple[Sink, ...]
    since: datetime
    until: datetime | None


def receivers_of(obj: Object) -> Receivers | None:
    """Who is told of a task or a session, as its operator has written; None for nobody."""
    return _receivers(obj, read_status(_Seen, obj.get("status"))) if _names(obj) else None


def notifications(
    kind: Kind, obj: Object, now: datetime, base: str = ""
) -> tuple[Notification, ...]:
    """What the receivers of a task or a session are to be told of it, the oldest first.

    What happened before the object named a receiver, or more than a day ago, is not told.

    Args:
        kind: The object's kind.
        obj: It, as the API server has it.
        now: The time.
        base: What tells this cluster from others in `source`.
    """
    if not _names(obj):
        return ()
    status = read_status(_Seen, obj.get("status"))
    told = _receivers(obj, status)
    if told is None:
        return ()
    subject = subject_of(kind, obj)
    found = _of_a_task(status) if kind == TASK else _of_a_session(status)
    facts = [fact for fact in found if fact.time >= told.since and now - fact.time < DAY]
    return tuple(
        one
        for fact in sorted(facts, key=lambda fact: fact.time)
        for one in tell(subject, fact, _data(subject, status, fact), told.sinks, now, base)
    )


def subject_of(kind: Kind, obj: Object) -> Subject:
    """An object as something that is told of."""
    names = {name: str(obj["metadata"][name]) for name in ("namespace", "name", "uid")}
    return Subject(kind=kind, plural=PLURALS[kind], **names)


def _names(obj: Object) -> bool:
    """Whether an object names receivers at all: most do not, and are read no further."""
    status = obj.get("status")
    return isinstance(status, dict) and bool(status.get("notify"))


def _receivers(obj: Object, status: _Seen) -> Receivers | None:
    try:
        sinks = read_sinks(status.notify)
    except ValueError:
        return None  # the operator writes none that cannot be read
    since = status.notify_since or parse_time(obj["metadata"].get("creationTimestamp"))
    return Receivers(sinks, since, status.completion_time) if sinks and since else None


def _of_a_task(status: _Seen) -> Iterator[Fact]:
    yield from _of_the_budget(status)
    asked, ended = status.input_request, status.completion_time
    if status.phase == "InputRequired" and asked is not None:
        yield Fact("InputRequired", f"inputrequired.{_digest(asked.id)}", asked.asked_at)
    elif status.phase == "Completed" and ended is not None:
        yield Fact("Completed", "completed", ended)
    elif status.phase == "Failed" and ended is not None:
        yield Fact("Failed", "failed", ended)


def _of_a_session(status: _Seen) -> Iterator[Fact]:
    yield from _of_the_budget(status)
    ready = status.condition("Ready")
    if status.phase == "Failed" and ready is not None and ready.status == "False":
        when = ready.last_transition_time
        yield Fact("Failed", f"failed.{int(when.timestamp())}", when)


def _of_the_budget(status: _Seen) -> Iterator[Fact]:
    """A budget has no room for the next attempt, or turn, whether that waits or not."""
    money = status.condition("BudgetReserved")
    if money is not None and money.reason == "BudgetExceeded":
        when = money.last_transition_time
        yield Fact("BudgetExceeded", f"budgetexceeded.{int(when.timestamp())}", when)


def tell(
    subject: Subject, fact: Fact, data: Object, sinks: Iterable[Sink], now: datetime, base: str
) -> Iterator[Notification]:
    """A fact for each receiver that wants to know of such.

    Args:
        subject: What it is about.
        fact: What has happened.
        data: What there is to say of it.
        sinks: The receivers.
        now: The time.
        base: What tells this cluster from others in `source`.
    """
    identifier = f"{subject.uid}.{fact.tail}"
    event = cloud_event(
        identifier=identifier,
        source=source_of(subject.namespace, subject.plural, subject.name, base),
        kind=f"dev.orbiter.{subject.kind.lower()}.{fact.occasion.lower()}",
        subject=subject.name,
        time=fact.time,
        data=data,
    ).decode()
    for sink in sinks:
        if fact.occasion in sink.events:
            yield Notification(
                identifier=identifier,
                occasion=fact.occasion,
                subject=subject,
                sink=sink,
                time=fact.time,
                event=event,
                noted=now,
                due=now,
            )


def _data(subject: Subject, status: _Seen, fact: Fact) -> Object:
    """What is in an event: of known length, whatever is in the status."""
    said = {
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
        "phase": status.phase and _line(status.phase),
        "reason": status.reason and _line(status.reason),
        "message": status.message and text_of(status.message),
        "attempts": status.attempts,
        "startTime": status.start_time and timestamp(status.start_time),
        "completionTime": status.completion_time and timestamp(status.completion_time),
        "durationMs": status.duration_ms,
        "usage": status.usage and status.usage.model_dump(by_alias=True, exclude_none=True),
    }
    if fact.occasion in ("Completed", "Failed"):
        said["result"] = _result(status.result)
    if fact.occasion == "InputRequired" and (asked := status.input_request):
        question = {"id": _line(asked.id), "kind": asked.kind or "Question"}
        said["inputRequest"] = question | {"question": text_of(asked.question)}
    if fact.occasion == "BudgetExceeded" and (money := status.condition("BudgetReserved")):
        said["reason"], said["message"] = money.reason, text_of(money.message)
    return {name: value for name, value in said.items() if value is not None}


def _result(result: Result | None) -> Object | None:
    if result is None:
        return None
    said: Object = {
        "status": _line(result.status),
        "summary": result.summary and text_of(result.summary),
        "commitSHA": result.commit_sha and _line(result.commit_sha),
        "prURL": result.pr_url and _line(result.pr_url),
    }
    if result.data is not None:
        size = len(to_json(result.data))
        fits = size <= MAX_RESULT_BYTES
        said |= {"data": result.data} if fits else {"dataLeftOut": f"{size} bytes"}
    return {name: value for name, value in said.items() if value is not None}


def text_of(words: str) -> str:
    """What somebody has written, cut, and without what is no text."""
    return shortened(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", words), MAX_TEXT)


def _line(words: str) -> str:
    return one_line(_CONTROL.sub(" ", words), _LINE)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
