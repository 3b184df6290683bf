"""An upgrade with work under way: the earlier release on the cluster, and what goes on beside."""

import json
import os
import re
import subprocess
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from redis.exceptions import NoPermissionError
from support import earlier_release
from support.cluster import Cluster, CommandError, Object
from support.installation import MODEL_URL, ROOT, SERVERS, install_servers
from support.world import SYSTEM, World, task

from orbiter_contracts import POWorkerInput, encode
from orbiter_contracts.queues import BARE, Keys

FIRST, SECOND = "up-first", "up-second"
NAMESPACES = (FIRST, SECOND)
"""In the first one entries without a task are adopted, so its keys never get a prefix."""
PATIENCE = 600.0
"""Seconds that anything may take: none of it is measured."""
GO = "/tmp/go"
HELD = f"[[bash: until [ -e {GO} ]; do sleep 0.5; done; echo went on]]"
LONG = [{"name": f"BASH_{which}_TIMEOUT_MS", "value": "3600000"} for which in ("DEFAULT", "MAX")]
SESSION = "orbiter.dev/posession"
_TIMEOUT = ("--wait", "--timeout", f"{PATIENCE:.0f}s")
_TRIES = 3
_ENTRY = re.compile(r"\d+-\d+")
_MADE_EVERY = 8.0
_SAID_EVERY = 15.0

VALUES = {
    "images.registry": "localhost/orbiter",
    "workers.namespaces": list(NAMESPACES),
    "workers.resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
    "workers.maxConcurrentJobs": 3,
    "networkPolicy.modelServer": {
        "enabled": True,
        "namespace": SERVERS,
        "podLabels": {"app.kubernetes.io/name": "model-server"},
        "port": 8080,
    },
}
"""What the administrator has set: of both charts, because an upgrade keeps it."""


def install_earlier(cluster: Cluster) -> None:
    """The earlier release as its own README installs it."""
    chart = earlier_release.unpacked() / "helm" / "orbiter"
    found = cluster.helm("list", "-A", "-q")
    assert not found.strip(), f"there is a release already, {found.strip()}: make cluster-down"
    for name in NAMESPACES:
        meta = {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    values = VALUES | {"images.tag": earlier_release.VERSION}
    cluster.helm(
        *("install", "orbiter", str(chart), "--namespace", SYSTEM, "--create-namespace"),
        *("-f", str(chart / "ci" / "local-values.yaml")),
        *(word for key, value in values.items() for word in _set(key, value)),
        *_TIMEOUT,
    )
    install_servers("model-server")
    for name in NAMESPACES:
        secret = {"ANTHROPIC_API_KEY": "sk-scripted-key", "ANTHROPIC_BASE_URL": MODEL_URL}
        meta = {"name": "claude-credentials", "namespace": name}
        kinds = {"apiVersion": "v1", "kind": "Secret"}
        cluster.apply(kinds | {"metadata": meta, "stringData": secret}, namespace=name)


def upgrade(cluster: Cluster) -> None:
    """Type what the chart's README says, and where this cluster's images and DNS are."""
    page = (ROOT / "helm" / "orbiter" / "README.md").read_text(encoding="utf-8")
    typed = page.split("\n## Upgrade\n")[1].split("```bash\n")[1].split("```")[0]
    here = f"-f helm/orbiter/ci/local-values.yaml {' '.join(_TIMEOUT)}"
    typed = re.sub(r"images\.tag=\S+", f"images.tag=dev {here}", typed)
    assert here in typed
    tools = Path(cluster.command("helm")[0]).parent
    env = os.environ | {
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": f"{tools}:{os.environ['PATH']}",
    }
    for left in reversed(range(_TRIES)):
        # A machine that is too busy has the API server refuse; then one types it once more.
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", typed], cwd=ROOT, env=env)
        if done.returncode == 0:
            return
        assert left, f"not upgraded in {_TRIES} tries"


def _set(key: str, value: object) -> tuple[str, str]:
    return "--set-json", f"{key}={json.dumps(value)}"


class Upgrade:
    """What the tests ask about one installation before, while and after it is upgraded."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.made = Producer(world)
        self.said = FrontEnd(world)

    def task(self, namespace: str, name: str, prompt: str, **spec: Any) -> None:
        """Apply a task whose commands may take as long as they like."""
        made = task(name, prompt, namespace=namespace, timeoutSeconds=3600, **spec)
        made["spec"]["agent"]["env"] = LONG
        self.world.apply(made)

    def session(self, namespace: str, name: str, user: int, idle: int) -> None:
        """Apply a session."""
        secret = {"name": "claude-credentials"}
        agent = {"type": "claude", "credentialsSecretRef": secret, "env": LONG}
        spec = {"userId": user, "agent": agent, "idle": {"scaleToZeroAfterSeconds": idle}}
        meta = {"name": name, "namespace": namespace}
        kinds = {"apiVersion": "orbiter.dev/v1alpha1", "kind": "POSession"}
        self.world.apply(kinds | {"metadata": meta, "spec": spec})

    def sleep(self, namespace: str, name: str, idle: int) -> None:
        """Say after how long a session sleeps."""
        change = {"spec": {"idle": {"scaleToZeroAfterSeconds": idle}}}
        self.world.cluster.patch("posession", name, change, namespace)

    def send(self, namespace: str, name: str, user: int, prompt: str) -> str:
        """Say something where the session's status says; returns the request's id."""
        stream = self.wait_session(namespace, name, lambda s: s.get("inputStream"))["inputStream"]
        message = POWorkerInput(user_id=user, prompt=prompt)
        with self.world.redis() as redis:
            redis.xadd(stream, encode(message))  # type: ignore[arg-type]
        return message.request_id

    def answers(self, namespace: str, name: str) -> list[Object]:
        """All final answers of a session, wherever they are."""
        worker, found = f"{namespace}.{name}", []
        with self.world.redis() as redis:
            for keys in (BARE, Keys.of_namespace(namespace)):
                with suppress(NoPermissionError):  # the earlier release knows no prefix
                    entries: Any = redis.xrange(keys.po_output(worker))
                    found += [json.loads(fields["data"]) for _, fields in entries]
        return [answer for answer in found if answer.get("is_final", True)]

    def answer(self, namespace: str, name: str, request: str) -> Object:
        """Wait for the answer to one message."""
        return self.world.until(
            f"{namespace}/{name} answers",
            lambda: next(
                (a for a in self.answers(namespace, name) if a["request_id"] == request), None
            ),
            PATIENCE,
        )

    def ask(self, namespace: str, name: str, user: int, prompt: str) -> str:
        """Say something and wait for what is answered."""
        sent = self.send(namespace, name, user, prompt)
        return str(self.answer(namespace, name, sent)["text"])

    def wait_session(
        self, namespace: str, name: str, condition: Callable[[Object], object]
    ) -> Object:
        """Wait until a session's status is so; returns it."""
        found = self.world.cluster.wait_for(
            "posession",
            name,
            lambda found: condition(found.get("status", {})),
            namespace=namespace,
            seconds=PATIENCE,
        )
        status: Object = found["status"]
        return status

    def wait(self, namespace: str, name: str, *phases: str, reason: str | None = None) -> Object:
        """Wait until a task is so far; returns its status."""
        return self.world.wait(name, *phases, seconds=PATIENCE, namespace=namespace, reason=reason)

    def let_go(self, namespace: str, selector: str) -> None:
        """Have what waits in these pods go on."""
        for pod in self.world.cluster.list_all("pods", namespace, selector):
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
                words = ("exec", pod["metadata"]["name"], "-c", "worker", "--", "touch", GO)
                self.world.kubectl("-n", namespace, *words)

    def outputs(self, keys: Keys) -> list[Object]:
        """All outputs of developer workers under some keys."""
        with self.world.redis() as redis:
            entries: Any = redis.xrange(keys.developer_output)
        return [json.loads(fields["data"]) for _, fields in entries]

    def users(self) -> set[str]:
        """The users that Redis knows."""
        with self.world.redis() as redis:
            return set(redis.execute_command("ACL", "USERS"))


class Repeated:
    """Does something again and again beside the test, by redis-cli: it knows what was accepted."""

    every = 1.0

    def __init__(self, world: World) -> None:
        self.accepted: dict[str, str] = {}
        self.refused: Counter[str] = Counter()
        self._world = world
        self._end = threading.Event()

    def next(self, number: int) -> tuple[str, str, str, str]:
        """Stream, message, request id, and a name for it."""
        raise NotImplementedError

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Until the block ends."""
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join()

    def _run(self) -> None:
        number = 0
        while not self._end.wait(self.every):
            number += 1
            stream, data, request, name = self.next(number)
            words = ("redis-cli", "--no-auth-warning", "--user", "operator", "XADD", stream, "*")
            try:
                told = self._world.kubectl(
                    *("-n", SYSTEM, "exec", "orbiter-redis-0", "--", *words, "data", data)
                )
            except CommandError as error:
                self.refused[str(error)[:60]] += 1
                continue
            if _ENTRY.fullmatch(told.strip()):
                self.accepted[request] = name
            else:
                self.refused[told.strip()[:60]] += 1


class Producer(Repeated):
    """Hands in work by Redis, under the name that all producers had."""

    every = _MADE_EVERY

    def next(self, number: int) -> tuple[str, str, str, str]:
        """One task."""
        name, request = f"made-{number}", str(uuid.uuid4())
        message = {
            "request_id": request,
            "task_id": name,
            "prompt": f'Run {request[:8]}.\n[[result: {{"summary": "{name}"}}]]',
            "timeout": 3600,
        }
        return BARE.developer_input, json.dumps(message), request, name


class FrontEnd(Repeated):
    """Talks to the sleeping sessions under the names they had."""

    every = _SAID_EVERY

    def next(self, number: int) -> tuple[str, str, str, str]:
        """One message."""
        namespace = NAMESPACES[number % 2]
        user = users_of(namespace)["asleep"]
        message = POWorkerInput(user_id=user, prompt="[[recall]]")
        fields: Any = encode(message)
        return BARE.po_input(f"{namespace}.asleep"), fields["data"], message.request_id, namespace


def users_of(namespace: str) -> dict[str, int]:
    """The users of the sessions of a namespace, by the session's name."""
    first = 100 * (1 + NAMESPACES.index(namespace))
    return {name: first + n for n, name in enumerate(("asleep", "awake", "talking", "silent"))}
