"""What waits for a person: questions and approvals of tasks, and of sessions."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.references import RESOURCES
from orbiter.cli.kubectl.watch import question_of
from orbiter.cli.ui.outcome import CommandError
from orbiter.cli.ui.progress import say
from orbiter.cli.ui.text import one_line
from orbiter.client.objects import shown_text

if TYPE_CHECKING:
    from orbiter_contracts import POWorkerOutput

BOTH: Final = ",".join(RESOURCES.values())
"""Both kinds in one call of kubectl."""
_ARGUMENTS: Final = 40_000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A question that nobody has answered.

    Attributes:
        id: What an answer names: of a session, the request it has answered with the question.
        kind: `question`, or `approval` where a tool waits.
        asked_at: When, as the object has it.
        calls: What is to be approved.
        object: The task or the session that asks.
    """

    id: str
    kind: str
    question: str
    asked_at: str | None
    calls: tuple[Object, ...]
    object: Object

    @property
    def name(self) -> str:
        """The name of what asks."""
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Where it is."""
        return str(self.object["metadata"]["namespace"])

    @property
    def of_session(self) -> bool:
        """Whether a session asks: its next message is the answer."""
        return bool(self.object["kind"] == "POSession")

    @property
    def reference(self) -> str:
        """What to type for what asks."""
        return f"{'pos' if self.of_session else 'at'}/{self.name}"

    def as_json(self) -> Object:
        """What a program wants to know of it."""
        told: Object = {"kind": self.object["kind"], "namespace": self.namespace, "name": self.name}
        told |= {"asks": self.kind, "question": self.question, "askedAt": self.asked_at}
        return told | {"id": self.id} | ({} if self.of_session else {"calls": self.calls})


def whole(each: Waiting) -> str:
    """A question with all that one has to know to answer it."""
    lines = [f"{each.reference} in namespace {each.namespace} asks:", each.question]
    for call in each.calls:
        tool, arguments = _shown(str(call.get("tool", "")))[1:-1], _shown(call.get("arguments", {}))
        lines.append(f"  {tool}({arguments[:_ARGUMENTS]})")
        if (more := len(arguments) - _ARGUMENTS) > 0:
            read = f"kubectl get at {each.name} -n {each.namespace} -o yaml"
            lines.append(f"  {more} characters of these arguments are NOT shown: {read}")
    if each.kind == "approval":
        lines.append("Type approve, or deny and a reason. An empty line leaves it.")
    else:
        lines.append("Type the answer. An empty line leaves it.")
    return "\n".join(lines)


def _shown(value: object) -> str:
    return shown_text(json.dumps(value, ensure_ascii=False))


def inside(kubectl: Kubectl, namespace: str) -> Kubectl:
    """The same cluster, in the namespace of one of its objects."""
    return Kubectl(replace(kubectl.scope, namespace=namespace))


def waiting(kubectl: Kubectl, *, everywhere: bool, redis_url: str | None) -> list[Waiting]:
    """Everything that waits, what has waited longest first."""
    found = kubectl.list_all(BOTH, everywhere=everywhere)
    asked = [of_task(each) for each in found if each["kind"] == "AgentTask"]
    sessions = [each for each in found if each["kind"] == "POSession" and _may_ask(each)]
    of_sessions = _of_sessions(kubectl, sessions, redis_url) if sessions else []
    every = [each for each in (*asked, *of_sessions) if each is not None]
    return sorted(every, key=lambda each: (each.asked_at or "", each.namespace, each.name))


def of_task(task: Object) -> Waiting | None:
    """What a task asks; None when it asks nothing."""
    question = question_of(task)
    if question is None:
        return None
    asked = task["status"]["inputRequest"]
    calls = tuple(call for call in asked.get("calls") or () if isinstance(call, dict))
    kind = "approval" if asked.get("kind") == "approval" else "question"
    return Waiting(question[0], kind, question[1], asked.get("askedAt"), calls, task)


def _may_ask(session: Object) -> bool:
    status = session.get("status", {})
    return bool(status.get("turns") and not status.get("pendingMessages"))


def _of_sessions(
    kubectl: Kubectl, sessions: list[Object], redis_url: str | None
) -> Iterable[Waiting | None]:
    """The sessions whose last answer is a question; of those that can be read."""
    by_namespace: dict[str, list[Object]] = {}
    for session in sessions:
        by_namespace.setdefault(session["metadata"]["namespace"], []).append(session)
    for namespace, mine in by_namespace.items():
        try:
            answers = _asked(inside(kubectl, namespace), mine, redis_url)
        except CommandError as error:
            say(f"the sessions of {namespace} are left out: {one_line(str(error), 200)}", err=True)
            continue
        for session, output in zip(mine, answers, strict=True):
            if output is not None:
                asked_at = output.timestamp.isoformat()
                yield Waiting(output.request_id, "question", output.text, asked_at, (), session)


def _asked(
    kubectl: Kubectl, sessions: list[Object], redis_url: str | None
) -> list["POWorkerOutput | None"]:
    """The answers by which these sessions ask, None of those that do not.

    Raises:
        CommandError: Redis cannot be used from here.
    """
    from redis.exceptions import RedisError

    from orbiter.cli.kubectl.redis_forward import RedisForward
    from orbiter_contracts.session_questions import LOOKED_AT, asked_in

    def read(entries: Any) -> "POWorkerOutput | None":
        # of a stream that cannot be read the reply is an error
        return asked_in(f for _, f in entries if f) if isinstance(entries, list) else None

    with RedisForward(kubectl, redis_url) as forward:
        pipeline = forward.redis.pipeline(transaction=False)
        for session in sessions:
            pipeline.xrevrange(session["status"].get("outputStream", ""), count=LOOKED_AT)
        try:
            return [read(entries) for entries in pipeline.execute(raise_on_error=False)]
        except RedisError as error:
            raise CommandError(f"Redis does not say: {error}") from None
