"""Which of the cluster's objects may wait for a person, told from the objects alone: total."""

from typing import TYPE_CHECKING, Any, NamedTuple

from orbiter.server._internal.cluster_detail import (
    brief_of,
    detail_of,
    manager_of,
    part_of,
    transcript_of,
)
from orbiter.server._internal.transcripts import Place
from orbiter.server.cluster_models import ClusterQuestion

if TYPE_CHECKING:
    from orbiter_contracts.stream_names import StreamName

Object = dict[str, Any]


class TaskAsks(NamedTuple):
    """A task with a question that nobody has answered.

    Attributes:
        answerable: Whether people answer it; a broker answers for its own.
    """

    question: ClusterQuestion
    answerable: bool


class MayAsk(NamedTuple):
    """A session that waits for a message: whether its last answer was a question, Redis knows.

    Attributes:
        place: Its transcript.
        input: The stream that takes its messages.
        version: Another one when something was said since.
        answerable: Whether a message would be answered.
    """

    place: Place
    input: "StreamName"
    name: str
    agent: str
    version: str
    answerable: bool


def waiting_of(item: Object) -> TaskAsks | MayAsk | None:
    """Return what is known of an object that may wait for a person; None when it does not.

    Args:
        item: As the API server has it.
    """
    spec, status = (part_of(item, key) for key in ("spec", "status"))
    if "userId" in spec:
        return _session(item, spec, status)
    if status.get("phase") != "InputRequired":
        return None
    found = detail_of(brief_of(item), item, ())
    if not found.question_id:
        return None
    question = ClusterQuestion(
        kind="task",
        namespace=found.namespace,
        name=found.name,
        agent=found.agent,
        question=found.question,
        question_id=found.question_id,
        asked_at=found.asked_at,
        calls=found.calls,
        calls_cut=found.calls_cut,
    )
    return TaskAsks(question, answerable=manager_of(item) is None)


def _session(item: Object, spec: Object, status: Object) -> MayAsk | None:
    place, stream = transcript_of(item, 0), _input_of(status)
    if place is None or stream is None:
        return None
    if not status.get("turns") or status.get("pendingMessages"):
        return None
    brief = brief_of(item)
    suspended = spec.get("operatingMode") == "Suspended"
    return MayAsk(
        place,
        stream,
        brief.name,
        brief.agent,
        f"{status.get('turns')} {status.get('lastActivityTime')}"[:100],
        answerable=not suspended and brief.phase != "Failed",
    )


def _input_of(status: Object) -> "StreamName | None":
    from orbiter_contracts.stream_names import read_stream_name

    told = status.get("inputStream")
    stream = read_stream_name(told) if isinstance(told, str) else None
    return stream if stream and stream.kind == "po_input" and not stream.dead else None
