"""The victims' work: of A and of C each a task that has begun, and a conversation that goes on.

The conversations go on by themselves, beside every attack: a front end asks, hears the answer, and
asks again. Who wants to know whether B's attack has disturbed them has something asked and answered
from that moment on.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from redis import Redis
from support.redis_server import PATIENT
from support.storm import restarted, restarts
from support.world import World, task

from attacks.names import Names, keys_of
from attacks.scene import LONG, SMALL, TALK, USERS, WORK, chat_url, pods_of, session
from orbiter_contracts import POWorkerInput, POWorkerOutput, decode, encode

_PAUSE_SECONDS = 1.0
_DEADLINE_SECONDS = 60.0
_LISTENS_MS = 1000


class Work:
    """The work of A and C, which goes on whatever B does."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.before = restarts(world)
        self._threads = ThreadPoolExecutor(len(USERS))
        self._conversations: dict[str, Conversation] = {}
        self._talks: list[Future[None]] = []

    def begin(self) -> None:
        """Begin a task in each namespace, which ends when it is told to, and a conversation."""
        for namespace, user in USERS.items():
            work = task(
                WORK, f"sleep {LONG}", namespace=namespace, podTemplate=SMALL, timeoutSeconds=LONG
            )
            self.world.apply(work, session(TALK, namespace, user, echo=True))
        for namespace, user in USERS.items():
            self.world.wait(WORK, "Running", namespace=namespace)
            self._conversations[namespace] = Conversation(self.world, namespace, TALK, user)
        self._talks = [self._threads.submit(item.go_on) for item in self._conversations.values()]
        self.goes_on()

    def goes_on(self) -> None:
        """Have both victims ask something from now on, and hear the answer."""
        asked = [(item, item.ask_now()) for item in self._conversations.values()]
        for conversation, number in asked:
            self.world.until(
                f"{conversation.namespace} is answered",
                lambda item=conversation, number=number: self._unbroken() and item.heard > number,
            )

    def _unbroken(self) -> bool:
        """Raises what has ended a conversation."""
        for talk in self._talks:
            if talk.done():
                talk.result()
                raise AssertionError("a conversation has ended before its time")
        return True

    def close(self) -> None:
        """End the conversations."""
        for conversation in self._conversations.values():
            conversation.end()
        self._threads.shutdown()

    def end(self) -> None:
        """Let the tasks finish, and make sure that all is as if there had been no attack."""
        self.goes_on()
        for namespace in USERS:
            (pod,) = self.world.pods(WORK, namespace)
            wake = (
                "for p in /proc/[0-9]*; do grep -qs ^sleep $p/comm && kill ${p#/proc/}; done; true"
            )
            self.world.kubectl(
                "-n", namespace, "exec", pod["metadata"]["name"], "--", "sh", "-c", wake
            )
            status = self.world.wait(WORK, "Completed", namespace=namespace)
            assert status["attempts"] == 1
            assert status["result"]["summary"] == "echo"
            assert [restarted(pod) for pod in pods_of(self.world, namespace, TALK)] == [0]
        assert restarts(self.world) == self.before


class Conversation:
    """One that goes on by itself: each question is answered once, and no other.

    Attributes:
        namespace: Whose it is.
        heard: How many answers there were.
    """

    def __init__(self, world: World, namespace: str, name: str, user: int) -> None:
        self.namespace = namespace
        self.heard = 0
        self._world, self._name, self._user = world, name, user
        self._asked = 0
        self._now, self._ended = threading.Event(), threading.Event()

    def ask_now(self) -> int:
        """Let the next question not wait; returns how many there were before."""
        asked = self._asked
        self._now.set()
        return asked

    def end(self) -> None:
        """Ask nothing more."""
        self._ended.set()
        self._now.set()

    def go_on(self) -> None:
        """Ask and hear the answer, again and again, until it is ended.

        Raises:
            AssertionError: Something was not answered, not well, or twice.
        """
        streams = streams_of(self._world, self.namespace, self._name)
        with front_end(self._world, self.namespace) as redis:
            while not self._ended.is_set():
                self._asked += 1
                exchange(self._world, redis, streams, self._user)
                self.heard += 1
                self._now.wait(_PAUSE_SECONDS)
                self._now.clear()


def exchange(world: World, redis: "Redis[str]", streams: Names, user: int) -> None:
    """Ask a session something as a front end of its namespace, and hear the answer."""
    message = POWorkerInput(user_id=user, prompt="hello")
    newest: Any = redis.xrevrange(streams["output"], count=1)
    seen = [newest[0][0] if newest else "0-0"]
    redis.xadd(streams["input"], encode(message))

    def answered() -> bool:
        found: Any = redis.xread({streams["output"]: seen[0]}, block=_LISTENS_MS)
        for entry, fields in found[0][1] if found else ():
            seen[0] = entry
            output = decode(POWorkerOutput, fields)
            assert output.request_id == message.request_id, "an answer to what nobody asks now"
            assert not output.error, output
            if output.is_final:
                return True
        return False

    world.until(f"an answer in {streams['output']}", answered, seconds=_DEADLINE_SECONDS)


def talk(world: World, namespace: str, name: str, user: int) -> None:
    """The same once, with a connection of its own."""
    with front_end(world, namespace) as redis:
        exchange(world, redis, streams_of(world, namespace, name), user)


def streams_of(world: World, namespace: str, name: str) -> Names:
    """The two streams of a session."""
    keys = keys_of(world, namespace)
    worker = f"{namespace}.{name}"
    return {"input": keys.po_input(worker), "output": keys.po_output(worker)}


@contextmanager
def front_end(world: World, namespace: str) -> Iterator["Redis[str]"]:
    """A client with the rights of a chat front end of a namespace."""
    url = urlsplit(chat_url(world.cluster, namespace))
    with (
        world.forward("service/orbiter-redis", 6379) as port,
        Redis(
            host="127.0.0.1",
            port=port,
            username=unquote(url.username or ""),
            password=unquote(url.password or ""),
            decode_responses=True,
            **PATIENT,
        ) as client,
    ):
        yield client
