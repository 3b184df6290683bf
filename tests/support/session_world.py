"""What the end-to-end tests about sessions do: talk to them as a chat front end does.

Messages go in and answers come out with the rights of a front end (`chat-url`), so that these tests
also show that those are enough.
"""

import base64
import itertools
import os
import random
import signal
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from redis import Redis
from support.cluster import CommandError, Object
from support.manifests import po_session
from support.redis_server import PATIENT
from support.world import ECHO_IMAGE, NAMESPACE, World, worker_container

from orbiter_contracts import POWorkerInput, POWorkerOutput, decode, encode
from orbiter_contracts.queues import BARE

_FIRST_USER = random.SystemRandom().randrange(10**6, 10**9)
_users = itertools.count(_FIRST_USER)
DEADLINE_SECONDS = 120.0
SELECTOR = "orbiter.dev/posession"
WORKER_START = b"/opt/orbiter/worker_start.py"


class SessionWorld:
    """The sessions of one namespace, and a front end's door to Redis."""

    def __init__(self, world: World, redis: "Redis") -> None:
        self.world = world
        self.redis = redis

    def apply(self, *names: str, echo: bool = False, idle: int = 3, **spec: Any) -> None:
        """Create sessions, each of a user of its own; `echo` answers without a model."""
        agent = {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}}
        defaults: Object = {"agent": agent, "idle": {"scaleToZeroAfterSeconds": idle}}
        if echo:
            small = {"requests": {"cpu": "5m", "memory": "32Mi"}}
            defaults["podTemplate"] = worker_container(image=ECHO_IMAGE, resources=small)
        manifests = []
        for name in names:
            manifest = po_session(name, **{"userId": next(_users)} | defaults | spec)
            manifest["metadata"]["namespace"] = NAMESPACE
            manifests.append(manifest)
        self.world.apply(*manifests)

    def change(self, name: str, **spec: Any) -> None:
        """What `kubectl patch` does."""
        self.world.cluster.patch("posession", name, {"spec": spec}, NAMESPACE)

    def get(self, name: str) -> Object:
        """The session as it is now."""
        return self.world.cluster.get("posession", name, NAMESPACE)

    def status(self, name: str) -> Object:
        """Its status as it is now."""
        found: Object = self.get(name).get("status", {})
        return found

    def wait(self, name: str, phase: str, seconds: float = DEADLINE_SECONDS) -> Object:
        """Wait until it is in this phase; returns its status."""
        return self.wait_until(name, lambda status: status.get("phase") == phase, seconds)

    def wait_until(self, name: str, condition: Any, seconds: float = DEADLINE_SECONDS) -> Object:
        """Wait until its status fulfils a condition; returns the status."""
        try:
            found = self.world.cluster.wait_for(
                "posession",
                name,
                lambda found: condition(found.get("status", {})),
                namespace=NAMESPACE,
                seconds=seconds,
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story(name)}") from None
        status: Object = found["status"]
        return status

    def send(self, name: str, prompt: str, **fields: Any) -> str:
        """Send a message; returns its request id."""
        user = self.get(name)["spec"]["userId"]
        message = POWorkerInput(user_id=user, prompt=prompt, **fields)
        self.redis.xadd(BARE.po_input(worker_id(name)), encode(message))  # type: ignore[arg-type]
        return message.request_id

    def outputs(self, name: str) -> list[POWorkerOutput]:
        """Everything on its output stream."""
        entries: Any = self.redis.xrange(BARE.po_output(worker_id(name)))
        return [decode(POWorkerOutput, fields) for _, fields in entries]

    def answer(self, name: str, request: str, seconds: float = DEADLINE_SECONDS) -> POWorkerOutput:
        """Wait for the final answer to a message."""
        stream, after = BARE.po_output(worker_id(name)), "0"
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found: Any = self.redis.xread({stream: after}, block=1000)
            for entry, fields in found[0][1] if found else ():
                after = entry
                output = decode(POWorkerOutput, fields)
                if output.request_id == request and output.is_final:
                    return output
        raise AssertionError(f"{name} has not answered in {seconds} s\n{self.story(name)}")

    def ask(self, name: str, prompt: str, **fields: Any) -> POWorkerOutput:
        """Send a message and wait for its answer."""
        return self.answer(name, self.send(name, prompt, **fields))

    def answered_once(self, name: str, requests: list[str]) -> None:
        """Make sure that each of these was answered, in this order, and no other."""
        finals = [output.request_id for output in self.outputs(name) if output.is_final]
        assert finals == requests, f"{name}: {finals} instead of {requests}"

    def pods(self, name: str) -> list[Object]:
        """Its pods."""
        return self.world.cluster.list_all("pods", NAMESPACE, f"{SELECTOR}={name}")

    def end_in_place(self, name: str) -> None:
        """Kill its worker, as a message that it dies of does: the pod stays, the container not."""
        for pod in self.pods(name):
            host = f"HOSTNAME={pod['metadata']['name']}".encode()
            for process in Path("/proc").iterdir():
                with suppress(OSError):
                    if (
                        process.name.isdecimal()
                        and WORKER_START in (process / "cmdline").read_bytes().split(b"\0")
                        and host in (process / "environ").read_bytes().split(b"\0")
                    ):
                        os.kill(int(process.name), signal.SIGKILL)

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of its Events."""
        found = self.world.events(name)
        ours = [item for item in found if item["involvedObject"]["kind"] == "POSession"]
        return [(item["reason"], item["message"]) for item in ours]

    def story(self, name: str) -> str:
        """What an engineer would look at when a session does not do what it should."""
        selector = f"{SELECTOR}={name}"
        parts = []
        for words in (
            ("get", "posession", name, "-o", "yaml"),
            ("get", "deployments,pods", "-l", selector, "-o", "wide"),
            ("describe", "pods", "-l", selector),
            ("logs", "-l", selector, "--tail=20"),
        ):
            try:
                parts.append(self.world.kubectl("-n", NAMESPACE, *words))
            except CommandError as error:
                parts.append(str(error))
        return "\n".join(parts)[-8000:]


def worker_id(name: str) -> str:
    """The worker id of a session that does not say its own."""
    return f"{NAMESPACE}.{name}"


@contextmanager
def front_end(world: World) -> Iterator["Redis"]:
    """A Redis client with the rights of a chat front end."""
    secret = world.cluster.get("secret", "orbiter-chat", NAMESPACE)
    url = urllib.parse.urlsplit(base64.b64decode(secret["data"]["chat-url"]).decode())
    with world.forward("service/orbiter-redis", 6379) as port:
        client = Redis(
            host="127.0.0.1",
            port=port,
            username=urllib.parse.unquote(url.username or ""),
            password=url.password,
            decode_responses=True,
            **PATIENT,
        )
        try:
            yield client
        finally:
            client.close()


def clear_sessions(world: World) -> None:
    """Delete all sessions and wait until their pods are gone too."""
    world.kubectl("-n", NAMESPACE, "delete", "posessions", "--all", "--wait=true")
    world.until(
        "no sessions' pods",
        lambda: not world.cluster.list_all("pods", NAMESPACE, SELECTOR),
    )
