"""An answer to what a session asks, sent by whoever may chat there, and while it still asks that.

Who may send a namespace's sessions messages may read its Secret `orbiter-chat`. The server may not:
it reads the Secret with the token of whoever answers, so that the API server decides, connects as
the front end that the Secret is for, and forgets it. What `kubectl orbiter inbox` does is the same.
"""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from orbiter.server._internal.cluster import Cluster
from orbiter.server._internal.cluster_actions import call_as
from orbiter.server._internal.cluster_questions import CHAT_SECRET
from orbiter.server._internal.cluster_view import LIST_SECONDS
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.redis_access import Access, access_of, connected
from orbiter.server._internal.session_questions import SessionQuestions
from orbiter.server._internal.viewer import Viewer
from orbiter.server._internal.waiting import MayAsk, waiting_of
from orbiter.server.cluster_models import MessageReference, NewAnswer

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

    from orbiter.tasks.api_server import ApiServer
    from orbiter_contracts import POWorkerInput
    from orbiter_contracts.stream_names import StreamName

logger = logging.getLogger("orbiter.server")
KEY = "chat-url"
SEND_SECONDS = 10.0
AT_ONCE = 4
"""Of a namespace, whose Redis may be anybody's and say as much as the largest messages have."""
Object = dict[str, Any]


class SessionAnswers:
    """Answers sessions as whoever asks for it.

    Args:
        cluster: Where they are.
        questions: Is told of what was answered.
        kubeconfig: Where the API server is.
    """

    def __init__(
        self, cluster: Cluster, questions: SessionQuestions, kubeconfig: Path | None
    ) -> None:
        self._cluster = cluster
        self._questions = questions
        self._kubeconfig = kubeconfig
        self._slots = WeakValueDictionary[str, asyncio.Semaphore]()

    async def answer(
        self, viewer: Viewer, namespace: str, name: str, given: NewAnswer
    ) -> MessageReference:
        """Answer a session's question: the text is its user's next message.

        Raises:
            RequestError: It does not wait for this answer, whoever asks may not give it, or nobody
                knows whether it arrived.
        """
        from orbiter_contracts import POWorkerInput

        _, item = await self._cluster.get("posessions", viewer, namespace, name)
        what = f"session {namespace}/{name}"
        waits = waiting_of(item)
        if not isinstance(waits, MayAsk):
            raise _gone(f"{what} asks nothing")
        if not waits.answerable:
            raise RequestError(
                409, f"{what} is suspended or has failed: a message would wait", code="wrong_phase"
            )
        try:
            message = POWorkerInput(user_id=item["spec"]["userId"], prompt=given.text)
        except ValueError:
            raise RequestError(422, "this is no text", code="no_answer", param="text") from None
        access = await self._front_end(viewer, namespace)
        slot = self._slots.setdefault(namespace, asyncio.Semaphore(AT_ONCE))
        why = await _sent(access, slot, waits.input, given.id, message)
        if why is not None:
            raise _gone(f"{what}: {why}")
        self._questions.answered(waits)
        return MessageReference(namespace=namespace, name=name, request_id=message.request_id)

    async def _front_end(self, viewer: Viewer, namespace: str) -> Access:
        async def read(api: "ApiServer") -> Object | None:
            return await api.secret(namespace, CHAT_SECRET, timeout=LIST_SECONDS)

        data = await call_as(self._kubeconfig, viewer, read)
        if data is None:
            raise RequestError(
                404, f"namespace {namespace} has no Secret {CHAT_SECRET}: no worker runs there, or "
                "the operator makes no users of Redis (redis.users)", code="no_chat",
            )  # fmt: skip
        return access_of(data, namespace, secret=CHAT_SECRET, key=KEY)


async def _sent(
    access: Access,
    slot: asyncio.Semaphore,
    stream: "StreamName",
    question: str,
    message: "POWorkerInput",
) -> str | None:
    """Send a message while a session asks something; return why not.

    Raises:
        RequestError: Redis cannot be used.
    """
    from redis.exceptions import NoPermissionError, RedisError

    sending = _Sending(stream, question, message)
    try:
        way = connected(access, SEND_SECONDS, outputs=True)
        async with asyncio.timeout(SEND_SECONDS), slot, way as connection:
            return await sending.run(connection)
    except NoPermissionError as error:
        raise RequestError(502, f"Redis does not take it: {error}", code="no_chat") from error
    except (RedisError, OSError) as error:
        # also what took too long: a TimeoutError is an OSError
        unclear = "; the answer may or may not have been sent" if sending.sent else ""
        raise RequestError(
            502, f"Redis: {str(error) or 'no answer in time'}{unclear}", code="no_chat"
        ) from error
    except Exception as error:
        # whatever the Secret's URL says, or answers there, is that namespace's
        logger.exception("an answer to a session by %s", stream.key)
        unclear = "; the answer may or may not have been sent" if sending.sent else ""
        raise RequestError(502, f"this is no Redis: {error}{unclear}", code="no_chat") from error


class _Sending:
    """One message on its way.

    Attributes:
        sent: Nobody knows whether it arrived, until Redis has said so.
    """

    def __init__(self, stream: "StreamName", question: str, message: "POWorkerInput") -> None:
        self.sent = False
        self._input = stream.key
        self._output = stream.keys.po_output(stream.worker_id)
        self._question = question
        self._message = message

    async def run(self, connection: "AbstractConnection") -> str | None:
        """Return why it was not sent; None when it was."""
        from orbiter_contracts import encode
        from orbiter_contracts.session_questions import LOOKED_AT, TRIES, refusal

        async def say(*words: str | int) -> Any:
            await connection.send_command(*words)
            return await connection.read_response()

        words = [word for pair in encode(self._message).items() for word in pair]
        for _ in range(TRIES):
            # two commands: the user's right to each stream is one of its own
            await say("WATCH", self._input)
            await say("WATCH", self._output)
            waiting = await say("XLEN", self._input)
            found = await say("XREVRANGE", self._output, "+", "-", "COUNT", LOOKED_AT)
            outputs = [
                dict(zip(flat[::2], flat[1::2], strict=False)) for _, flat in found or () if flat
            ]
            if why := refusal(self._question, waiting, outputs):
                return why
            await say("MULTI")
            await say("XADD", self._input, "*", *words)
            self.sent = True
            if await say("EXEC") is not None:
                return None
            self.sent = False
        return "others write to it at this moment"


def _gone(words: str) -> RequestError:
    return RequestError(409, f"{words}: look at it again", code="other_request")
