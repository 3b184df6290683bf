"""A person's answer to the question of a session: sent only while that is what it asks."""

from typing import Any

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.redis_forward import RedisForward
from orbiter.cli.kubectl.session import Session, find_session
from orbiter.cli.ui.outcome import CommandError, ExitCode, ended_by_signals
from orbiter_contracts import POWorkerInput, encode


class QuestionGoneError(CommandError):
    """The session does not wait for this answer any more; nothing was sent."""


def give_session(
    kubectl: Kubectl, name: str, question: str, text: str, redis_url: str | None
) -> None:
    """Answer the question of a session, as its next message.

    Args:
        kubectl: The cluster, in the session's namespace.
        name: The session's.
        question: The id of the question that the person has seen.
        text: The answer.
        redis_url: Where Redis is, instead of the cluster's own.

    Raises:
        QuestionGoneError: It asks that no more.
        CommandError: It cannot answer, or Redis cannot be used from here.
    """
    session = find_session(kubectl, f"pos/{name}")
    session.check()
    with ended_by_signals(), RedisForward(kubectl, redis_url) as forward:
        _send(forward, session, question, text)


def _send(forward: RedisForward, session: Session, question: str, text: str) -> None:
    from redis.exceptions import NoPermissionError, RedisError, WatchError

    from orbiter_contracts.session_questions import LOOKED_AT, TRIES, refusal

    transaction: Any
    message = encode(POWorkerInput(user_id=session.user_id, prompt=text))
    sent = False
    try:
        with forward.redis.pipeline() as transaction:
            for _ in range(TRIES):
                # two commands: the user's right to each stream is one of its own
                transaction.watch(session.input_stream)
                transaction.watch(session.output_stream)
                waiting = transaction.xlen(session.input_stream)
                found = transaction.xrevrange(session.output_stream, count=LOOKED_AT)
                outputs = [fields for _, fields in found if fields]
                if why := refusal(question, waiting, outputs):
                    raise QuestionGoneError(f"session {session.name}: {why}; nothing was sent")
                transaction.multi()
                transaction.xadd(session.input_stream, message)
                try:
                    sent = True
                    transaction.execute()
                except WatchError:
                    sent = False
                    continue
                return
    except RedisError as error:
        if isinstance(error, NoPermissionError) and not sent:
            raise CommandError(
                f"Redis does not let an answer be given here: {error}; is the operator older than"
                f" this command? `kubectl orbiter chat {session.name}` sends a message"
            ) from None
        unclear = "; the answer may or may not have been sent" if sent else ""
        raise CommandError(f"Redis: {error}{unclear}", ExitCode.UNREACHABLE) from None
    raise QuestionGoneError(
        f"session {session.name}: others write to it at this moment; nothing was sent"
    )
