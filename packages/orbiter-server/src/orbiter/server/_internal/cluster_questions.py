"""What waits for a person over all tasks and sessions that somebody may see, the longest first."""

from dataclasses import replace
from datetime import UTC, datetime

from orbiter.server._internal.cluster import Cluster
from orbiter.server._internal.cluster_api import Kind
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.session_questions import SessionQuestions
from orbiter.server._internal.viewer import Right, Viewer
from orbiter.server._internal.waiting import MayAsk, Object, TaskAsks, waiting_of
from orbiter.server.cluster_models import (
    ClusterDetail,
    ClusterQuestion,
    ClusterQuestions,
    QuestionsQuery,
)

CHAT_SECRET = "orbiter-chat"  # noqa: S105 - the name of one
MOST_SESSIONS = 5000
"""How many of them are looked at, in the order of their names."""
MOST_NAMED = 50
"""So many rights are asked about by an object's name, where somebody has none to all of a
namespace: a look must not cost the API server a question for each object."""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


async def questions_of(
    cluster: Cluster, sessions: SessionQuestions | None, viewer: Viewer, query: QuestionsQuery
) -> ClusterQuestions:
    """Return what waits of what somebody may list; of sessions, whose transcripts they may read.

    Args:
        cluster: Where they are.
        sessions: Knows what they ask; None where nobody does.
        viewer: Who asks.
        query: How many, and of which namespace.

    Raises:
        RequestError: They may list neither, or the API server did not answer as it should.
    """
    kinds: tuple[Kind, ...] = ("agenttasks", "posessions") if sessions else ("agenttasks",)
    waiting: list[TaskAsks | MayAsk] = []
    refusals = []
    for kind in kinds:
        try:
            waiting += await cluster.waiting(kind, viewer, query.namespace)
        except RequestError as error:
            if error.status != 403:
                raise
            refusals.append(error)
    if len(refusals) == len(kinds):
        raise refusals[0]
    found = [(each.question, each.answerable) for each in waiting if isinstance(each, TaskAsks)]
    left_out: list[str] = []
    if sessions is not None:
        may_ask = [each for each in waiting if isinstance(each, MayAsk)]
        asked, left_out = await _of_sessions(sessions, viewer, may_ask)
        found += asked
    found.sort(key=_order)
    rights, items = _Rights(viewer), list[ClusterQuestion]()
    acts = await viewer.acts()
    for question, answerable in found[: query.limit]:
        may = acts and answerable and await rights.to_answer(question)
        items.append(question.model_copy(update={"actions": ("answer",)}) if may else question)
    return ClusterQuestions(items=items, total=len(found), left_out=left_out)


async def with_question(
    detail: ClusterDetail, item: Object, sessions: SessionQuestions | None, viewer: Viewer
) -> ClusterDetail:
    """Return what is told of a session, with what it asks, as far as somebody may read that.

    Args:
        detail: The rest of it.
        item: The session, as the API server has it.
        sessions: Knows what they ask; None where nobody does.
        viewer: Who asks.

    Raises:
        RequestError: Nobody can say now what they may.
    """
    waits = waiting_of(item)
    if sessions is None or not isinstance(waits, MayAsk):
        return detail
    for question, answerable in (await _of_sessions(sessions, viewer, [waits]))[0]:
        may = answerable and await viewer.acts() and await _Rights(viewer).to_answer(question)
        told = {"question", "question_id", "asked_at"}
        found = question.model_dump(include=told) | {"actions": ("answer",) if may else ()}
        return detail.model_copy(update=found)
    return detail


class _Rights:
    """What somebody may, in one look."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._left = MOST_NAMED

    async def to_answer(self, question: ClusterQuestion) -> bool:
        if question.kind == "session":
            return await self._viewer.may(chat_right(question.namespace))
        return await self.to("patch", "agenttasks", question.namespace, question.name)

    async def to(self, verb: str, resource: str, namespace: str, name: str) -> bool:
        """Say whether they have a right to all objects of a namespace, or to this one."""
        right = Right(verb, resource, namespace)
        if await self._viewer.may(right):
            return True
        self._left -= 1
        return self._left >= 0 and await self._viewer.may(replace(right, name=name))


def chat_right(namespace: str) -> Right:
    """Return the right to send a namespace's sessions a message, as kubectl orbiter needs it."""
    return Right("get", "secrets", namespace, CHAT_SECRET, group="")


async def _of_sessions(
    sessions: SessionQuestions, viewer: Viewer, may_ask: list[MayAsk]
) -> tuple[list[tuple[ClusterQuestion, bool]], list[str]]:
    rights, readable = _Rights(viewer), list[MayAsk]()
    for each in sorted(may_ask, key=lambda each: (each.place.namespace, each.name)):
        if len(readable) == MOST_SESSIONS:
            break
        if await rights.to("get", "posessions/transcript", each.place.namespace, each.name):
            readable.append(each)
    asked, left_out = await sessions.of(readable)
    found = []
    for each in readable:
        if (asks := asked.get(each.place)) is None:
            continue
        question = ClusterQuestion(
            kind="session",
            namespace=each.place.namespace,
            name=each.name,
            agent=each.agent,
            question=asks.question,
            question_id=asks.request_id,
            asked_at=asks.at,
        )
        found.append((question, each.answerable))
    return found, left_out


def _order(found: tuple[ClusterQuestion, bool]) -> tuple[datetime, str, str]:
    question = found[0]
    return question.asked_at or _LONG_AGO, question.namespace, question.name
