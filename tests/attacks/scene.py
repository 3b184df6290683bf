"""What is on the field: A's work, B's sessions, and what B's Secrets say."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from redis import Redis
from support.cluster import Cluster, CommandError, Object
from support.manifests import agent_task, po_session
from support.pod_templates import REFUSED
from support.redis_server import PATIENT
from support.storm import restarted, restarts
from support.world import ECHO_IMAGE, SYSTEM, World, task, worker_container

from attacks.field import OPERATOR, PRODUCER, PRODUCER_PASSWORD, A, B, keys_of
from orbiter_contracts import POWorkerInput, POWorkerOutput, decode, encode
from orbiter_contracts.queues import Keys

WORK, TALK, INSIDE, ECHO = "attacks-work", "attacks-talk", "attacks-inside", "attacks-echo"
USER, OWN_USER, INSIDE_USER = 10**9 + 1, 10**9 + 2, 10**9 + 3
AGENT = {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}}
SMALL = worker_container(image=ECHO_IMAGE, resources={"requests": {"cpu": "5m", "memory": "32Mi"}})
LONG = 3600
COPY = "attacks-copy"


def session(name: str, namespace: str, user: int, *, echo: bool) -> Object:
    """A session that stays awake; `echo` answers without a model."""
    spec: dict[str, Any] = {"podTemplate": SMALL} if echo else {}
    made = po_session(
        name, userId=user, agent=AGENT, idle={"scaleToZeroAfterSeconds": LONG}, **spec
    )
    made["metadata"]["namespace"] = namespace
    return made


class Work:
    """A's work, which goes on whatever B does: a task that has begun, and a conversation."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.before = restarts(world)
        self.asked: list[str] = []

    def begin(self) -> None:
        """Begin a task that ends when it is told to, and a conversation."""
        work = task(WORK, f"sleep {LONG}", namespace=A, podTemplate=SMALL, timeoutSeconds=LONG)
        self.world.apply(work, session(TALK, A, USER, echo=True))
        self.world.wait(WORK, "Running", namespace=A)
        self.ask()

    def ask(self) -> None:
        """Say something in A's conversation, and hear the answer."""
        self.asked.append(talk(self.world, A, TALK, USER, "hello"))

    def end(self) -> None:
        """Let the task finish, and make sure that all is as if there had been no attack."""
        (pod,) = self.world.pods(WORK, A)
        wake = "for p in /proc/[0-9]*; do grep -qs ^sleep $p/comm && kill ${p#/proc/}; done; true"
        self.world.kubectl("-n", A, "exec", pod["metadata"]["name"], "--", "sh", "-c", wake)
        status = self.world.wait(WORK, "Completed", namespace=A)
        assert status["attempts"] == 1
        assert status["result"]["summary"] == "echo"
        self.ask()
        assert len(set(self.asked)) == len(self.asked)
        assert [restarted(pod) for pod in pods_of(self.world, A, TALK)] == [0]
        assert restarts(self.world) == self.before


def talk(world: World, namespace: str, name: str, user: int, prompt: str) -> str:
    """Ask a session something as a front end of its namespace; returns the request's id."""
    message = POWorkerInput(user_id=user, prompt=prompt)
    keys = names_of_session(world, namespace, name)
    with front_end(world, namespace) as redis:
        redis.xadd(keys["input"], encode(message))

        def answered() -> bool:
            entries: Any = redis.xrange(keys["output"])
            outputs = [decode(POWorkerOutput, fields) for _, fields in entries]
            mine = [item for item in outputs if item.request_id == message.request_id]
            assert not any(item.error for item in mine), mine
            return any(item.is_final for item in mine)

        world.until(f"{name} answers", answered)
    return message.request_id


def names_of_session(world: World, namespace: str, name: str) -> dict[str, str]:
    """Its two streams."""
    keys = keys_of(world, namespace)
    worker = f"{namespace}.{name}"
    return {"input": keys.po_input(worker), "output": keys.po_output(worker)}


def pods_of(world: World, namespace: str, name: str) -> list[Object]:
    """A session's pods."""
    return world.cluster.list_all("pods", namespace, f"orbiter.dev/posession={name}")


def secret_of(cluster: Cluster, name: str, namespace: str) -> dict[str, str]:
    """What a Secret holds; nothing when there is none."""
    found = cluster.find("secret", name, namespace)
    data = (found or {}).get("data") or {}
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def chat_url(cluster: Cluster, namespace: str) -> str:
    """What a chat front end of a namespace is given."""
    own = secret_of(cluster, "orbiter-chat", namespace)
    return own.get("chat-url") or secret_of(cluster, "orbiter-redis", namespace)["chat-url"]


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


def reader_of_everything(operator: Any, port: int) -> "Redis[bytes]":
    """A client in the name of a user without rules, whom the field's end removes."""
    operator.execute_command(
        *("ACL", "SETUSER", COPY, "reset", "on", f">{PRODUCER_PASSWORD}", "~*", "+dump")
    )
    return Redis(host="127.0.0.1", port=port, protocol=2, username=COPY, password=PRODUCER_PASSWORD)


def producer_url(tenant: Cluster, operator: Any) -> str:
    """What a producer of B is given; where none is, a user with the rights that one shall have."""
    if url := secret_of(tenant, "orbiter-producer", B).get("producer-url"):
        return url
    keys = Keys.of_namespace(B)
    operator.execute_command(
        *("ACL", "SETUSER", PRODUCER, "reset", "on", f">{PRODUCER_PASSWORD}", "-@all"),
        *("+@connection", "-@dangerous", "-select", "-client|tracking"),
        f"(-@all +xadd ~{keys.developer_input})",
        f"(-@all +xread +xrange +xrevrange +xlen %R~{keys.developer_output})",
    )
    return f"redis://{PRODUCER}:{PRODUCER_PASSWORD}@redis:6379/0"


def session_secret(cluster: Cluster) -> str:
    """The name of the Secret with the URL of B's session that has become a shell."""
    names = [item["metadata"]["name"] for item in cluster.list_all("secrets", B)]
    (found,) = (name for name in names if name.startswith(f"orbiter-session-{ECHO}-"))
    return found


def policy_holds(world: World) -> bool:
    """Whether the API server looks at podTemplates; one just installed takes a moment."""
    body = agent_task("probe", podTemplate=REFUSED["spec.hostNetwork"])
    try:
        words = ("create", "--validate=false", "--dry-run=server", "-f", "-")
        world.kubectl("-n", B, *words, stdin=json.dumps(body))
    except CommandError:
        return True
    return False


def places(world: World, tenant: Cluster) -> dict[str, str]:
    """Names and addresses that attackers aim at."""
    (pod,) = world.pods(WORK, A)
    operator, *_ = world.cluster.list_all("pods", SYSTEM, OPERATOR)
    (api,) = world.cluster.list_all(
        "endpointslices", "default", "kubernetes.io/service-name=kubernetes"
    )
    (job,) = world.jobs(WORK, A)
    return {
        "task": WORK,
        "session": TALK,
        "pod": pod["metadata"]["name"],
        "job": job["metadata"]["name"],
        "policy": "orbiter-system-orbiter-pod-template",
        "session_secret": session_secret(tenant),
        "redis": f"orbiter-redis.{SYSTEM}.svc",
        "api": api["endpoints"][0]["addresses"][0],
        "api_port": str(api["ports"][0]["port"]),
        "node": pod["status"]["hostIP"],
        "operator": operator["status"]["podIP"],
    }
