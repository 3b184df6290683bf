"""What the end-to-end tests do to the cluster and ask of it, in their own words.

Tests say `world.apply(task("name", "prompt"))` and `world.wait("name", "Completed")`; how that is
done with kubectl and Redis stays here.
"""

import base64
import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from redis import Redis
from support.cluster import Cluster, CommandError, Object
from support.redis_server import PATIENT

T = TypeVar("T")

NAMESPACE = "e2e"
CROWDED = "e2e-crowded"
"""A namespace with room for five Jobs at a time."""
STRANGERS = "e2e-strangers"
"""A namespace whose people are not to be trusted."""
SYSTEM = "orbiter-system"
ENDED = ("Completed", "Failed", "Cancelled")
ECHO_IMAGE = "localhost/orbiter/worker-echo:dev"
DEADLINE_SECONDS = 120.0
_ASK_AGAIN_SECONDS = 0.2


def task(name: str, prompt: str, *, namespace: str = NAMESPACE, **spec: Any) -> Object:
    """An AgentTask that the real Claude Code CLI works on, with the scripted model behind it."""
    agent = {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}}
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentTask",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "prompt": f"{_unique()}\n{prompt}",
            "agent": agent,
            "timeoutSeconds": 120,
            **spec,
        },
    }


def _unique() -> str:
    """A line that no other prompt has: the scripted model counts attempts by their prompt."""
    return f"Run {uuid.uuid4().hex[:8]}."


def busy(number: int) -> str:
    """A shell command that runs for ten minutes and can be told by its number.

    Not `sleep`: the real CLI refuses to wait for a plain one.
    """
    return f"tail -n {number} -f /dev/null"


def worker_container(**fields: Any) -> Object:
    """A podTemplate that overlays the worker's container."""
    return {"spec": {"containers": [{"name": "worker", **fields}]}}


def echo_task(name: str, prompt: str = "echo", **spec: Any) -> Object:
    """An AgentTask whose agent answers at once: for tests of crowds, not of agents."""
    return task(name, prompt, podTemplate=worker_container(image=ECHO_IMAGE), **spec)


class World:
    """The cluster with Orbiter on it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kubectl = cluster.kubectl

    def apply(self, *objects: Object) -> None:
        """Create objects in one call."""
        self.kubectl(
            *("apply", "-f", "-"),
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}),
        )

    def status(self, name: str, namespace: str = NAMESPACE) -> Object:
        """A task's status as it is now."""
        found: Object = self.cluster.get("agenttask", name, namespace).get("status", {})
        return found

    def tasks(self, namespace: str = NAMESPACE) -> dict[str, Object]:
        """The status of every task, by name."""
        found = self.cluster.list_all("agenttasks", namespace)
        return {item["metadata"]["name"]: item.get("status", {}) for item in found}

    def wait(
        self,
        name: str,
        *phases: str,
        seconds: float = DEADLINE_SECONDS,
        namespace: str = NAMESPACE,
        reason: str | None = None,
    ) -> Object:
        """Wait until a task is in one of these phases (any final one when none is given).

        Returns:
            The task's status at that moment.
        """
        wanted = phases or ENDED

        def reached(found: Object) -> bool:
            status = found.get("status", {})
            return status.get("phase") in wanted and reason in (None, status.get("reason"))

        def settled(found: Object) -> bool:
            return reached(found) or found.get("status", {}).get("phase") in ENDED

        try:
            found = self.cluster.wait_for(
                "agenttask", name, settled, namespace=namespace, seconds=seconds
            )
            assert reached(found), f"{name} ended as {json.dumps(found['status'], indent=1)}"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story(name, namespace)}") from None
        status: Object = found["status"]
        return status

    def until(self, what: str, condition: Callable[[], T], seconds: float = DEADLINE_SECONDS) -> T:
        """Ask until the answer is true; return it. For what cannot be watched."""
        deadline = time.monotonic() + seconds
        while True:
            answer = condition()
            if answer:
                return answer
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}: {answer!r}"
            time.sleep(_ASK_AGAIN_SECONDS)

    def outputs(self) -> list[dict[str, str]]:
        """The fields of every entry on the output stream, the newest first."""
        with self.redis() as redis:
            return [fields for _, fields in reversed(redis.xrange("worker:developer:output"))]

    def output_of(self, name: str) -> str:
        """The newest output of a task of ours, as JSON text."""
        mine = f"{NAMESPACE}/{name}"
        return next(f["data"] for f in self.outputs() if f.get("agenttask") == mine)

    def story(self, name: str, namespace: str = NAMESPACE) -> str:
        """What an engineer would look at when a task does not do what it should."""
        selector = f"orbiter.dev/agenttask={name}"
        parts = []
        for words in (
            ("get", "agenttask", name, "-o", "yaml"),
            ("get", "jobs,pods", "-l", selector, "-o", "wide"),
            ("describe", "pods", "-l", selector),
            ("logs", "-l", selector, "--tail=20"),
        ):
            try:
                parts.append(self.kubectl("-n", namespace, *words))
            except CommandError as error:
                parts.append(str(error))
        return "\n".join(parts)[-8000:]

    def events(self, name: str, namespace: str = NAMESPACE) -> list[Object]:
        """The Kubernetes Events about a task."""
        found = self.cluster.list_all("events", namespace)
        return [event for event in found if event["involvedObject"]["name"] == name]

    def jobs(self, name: str, namespace: str = NAMESPACE) -> list[Object]:
        """A task's Jobs."""
        return self.cluster.list_all("jobs", namespace, f"orbiter.dev/agenttask={name}")

    def pods(self, name: str, namespace: str = NAMESPACE) -> list[Object]:
        """A task's pods that have not ended."""
        pods = self.cluster.list_all("pods", namespace, f"orbiter.dev/agenttask={name}")
        return [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]

    def processes(self, name: str, namespace: str = NAMESPACE) -> str:
        """The command lines of all processes in a task's running pod; empty when there is none."""
        script = "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $p 2>/dev/null; echo; done"
        for pod in self.pods(name, namespace):
            try:
                words = ("exec", pod["metadata"]["name"], "--", "sh", "-c", script)
                return self.kubectl("-n", namespace, *words)
            except CommandError:
                continue
        return ""

    @contextmanager
    def forward(self, target: str, port: int, namespace: str = SYSTEM) -> Iterator[int]:
        """Forward a free local port to a port of a pod or service; yields the local port."""
        words = ("-n", namespace, "port-forward", target, f":{port}")
        command = self.cluster.command("kubectl", *words)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            try:
                assert child.stdout is not None
                line = child.stdout.readline()
                assert "127.0.0.1:" in line, f"{' '.join(command)} said {line!r}"
                yield int(line.split("127.0.0.1:")[1].split()[0])
            finally:
                child.terminate()

    @contextmanager
    def redis(self, *, text: bool = True) -> Iterator["Redis"]:
        """A Redis client with the operator's rights; without `text` it reads bytes."""
        secret = self.cluster.get("secret", "orbiter-redis-auth", SYSTEM)
        password = base64.b64decode(secret["data"]["operator-password"]).decode()
        with self.forward("service/orbiter-redis", 6379) as port:
            client = Redis(
                host="127.0.0.1",
                port=port,
                username="operator",
                password=password,
                decode_responses=text,
                **PATIENT,
            )
            try:
                yield client
            finally:
                client.close()
