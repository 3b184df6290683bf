"""What a storm test asks of the cluster: who restarted, what was counted, what was stolen."""

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from redis import Redis
from support.cluster import CommandError, Object
from support.hostile import REDIS, Hostile
from support.malformed import SESSION, Malformed
from support.world import ENDED, NAMESPACE, STRANGERS, SYSTEM, World

from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, OPERATOR_GROUP, dead_letter

OPERATOR = "app.kubernetes.io/component=operator"
_WORKERS = "app.kubernetes.io/managed-by=orbiter"
_SERVICE_ACCOUNT = "orbiter-worker"
_COUNTED = re.compile(r'^orbiter_dead_letters_total\{stream="([^"]+)"\} (\S+)$', re.MULTILINE)
_AT_ONCE = 4
_SHOWN = 4000


def restarts(world: World) -> dict[str, int]:
    """How often each of the operator's containers has restarted, by pod.

    A pod on its way out, behind an upgrade for instance, is not the operator's any more.
    """
    pods = world.cluster.list_all("pods", SYSTEM, OPERATOR)
    there = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return {pod["metadata"]["name"]: restarted(pod) for pod in there}


def last_words(world: World) -> str:
    """What operators said before they restarted."""
    said = []
    for pod, count in restarts(world).items():
        if count:
            words = ("logs", pod, "--previous", "--tail=5")
            said.append(world.kubectl("-n", SYSTEM, *words)[-_SHOWN:])
    return "\n".join(said)


def restarted(pod: Object) -> int:
    """How often a pod's containers have restarted."""
    return sum(item["restartCount"] for item in pod["status"].get("containerStatuses", ()))


def counted(world: World) -> Counter[str]:
    """The dead letters that the operators have counted, by stream."""
    found: Counter[str] = Counter()
    for pod in restarts(world):
        with (
            world.forward(f"pod/{pod}", 9090) as port,
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            for stream, value in _COUNTED.findall(answer.read().decode()):
                found[stream] += int(float(value))
    return found


def create(world: World, namespace: str, hostile: tuple[Hostile, ...]) -> dict[str, str]:
    """Hand manifests in; returns what the API server said to those it refused."""

    def said(one: Hostile) -> str:
        manifest = json.dumps(one.body)
        try:
            words = ("-n", namespace, "create", "--validate=false", "-f", "-")
            world.kubectl(*words, stdin=manifest)
        except CommandError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = zip(hostile, pool.map(said, hostile), strict=True)
    return {one.name: answer for one, answer in answers if answer}


@contextmanager
def dead_letters(redis: "Redis", streams: list[str]) -> Iterator["DeadLetters"]:
    """The dead letters that come while the block runs; they are removed at its end."""
    letters = DeadLetters(redis, streams)
    try:
        yield letters
    finally:
        letters.remove()


class DeadLetters:
    """What has become a dead letter since this was made, by stream.

    Args:
        redis: A client that reads bytes.
        streams: The streams whose dead letters are meant.
    """

    def __init__(self, redis: "Redis", streams: list[str]) -> None:
        self._redis = redis
        self._since = {stream: _newest(redis, dead_letter(stream)) for stream in streams}
        self._sent: list[tuple[str, Any]] = []

    def send(self, entry: Malformed, worker: str) -> None:
        """Hand a malformed entry in; one for a session goes to this worker's."""
        stream = BARE.po_input(worker) if entry.stream == SESSION else entry.stream
        fields: Any = entry.fields
        self._sent.append((stream, self._redis.xadd(stream, fields)))

    def found(self, stream: str) -> list[dict[bytes, bytes]]:
        """The fields of the stream's new dead letters."""
        entries: Any = self._redis.xrange(dead_letter(stream), min=f"({self._since[stream]}")
        return [fields for _, fields in entries]

    def remove(self) -> None:
        """Leave nothing of the storm behind, whether it was survived or not."""
        for stream, entry in self._sent:
            # What is held but gone would be read again, as an entry without fields.
            group = DEVELOPER_GROUP if stream == BARE.developer_input else OPERATOR_GROUP
            self._redis.xack(stream, group, entry)
            self._redis.xdel(stream, entry)
        for stream, since in self._since.items():
            entries: Any = self._redis.xrange(dead_letter(stream), min=f"({since}")
            if entries:
                self._redis.xdel(dead_letter(stream), *(entry for entry, _ in entries))


def stolen(world: World) -> list[str]:
    """What workers of either namespace were given that is not theirs; empty when all is well."""
    found: list[str] = []
    entries: dict[tuple[str, str], str] = {}
    for namespace in (NAMESPACE, STRANGERS):
        for kind in ("jobs", "deployments"):
            for item in world.cluster.list_all(kind, namespace, _WORKERS):
                name = f"{namespace}/{item['metadata']['name']}"
                spec = item["spec"]["template"]["spec"]
                found += [f"{name}: {what}" for what in _taken(spec)]
                env = _environment(spec)
                if not env.get("WORKER_ID", "").startswith(f"{namespace}."):
                    found.append(f"{name}: is the worker {env.get('WORKER_ID')}")
                # Entries of two streams may have one id: it is a time.
                entry = env.get("KEY_PREFIX", ""), env.get("TASK_ENTRY_ID", name)
                if entry in entries:
                    found.append(f"{name}: has the entry of {entries[entry]}")
                entries[entry] = name
    return found


def unanswered(world: World) -> list[str]:
    """The strangers' tasks that have neither ended nor been told what they wait for."""
    found = world.tasks(STRANGERS).items()
    return [
        f"{name}: {status}"
        for name, status in found
        if status.get("phase") not in ENDED and status.get("reason") in (None, "ConcurrencyLimit")
    ]


def _taken(spec: Object) -> Iterator[str]:
    """What one pod may not have."""
    if spec.get("serviceAccountName") != _SERVICE_ACCOUNT:
        yield f"service account {spec.get('serviceAccountName')}"
    if spec.get("automountServiceAccountToken") is not False:
        yield "a token"
    for path, name in _secrets(spec, ""):
        if name == REDIS and not path.endswith("REDIS_URL"):
            yield f"the Secret {name} at {path}"
        if name == "":
            yield f"a token at {path}"


def _secrets(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every Secret that is named anywhere, and every token (without a name)."""
    if isinstance(value, list):
        for item in value:
            named = item.get("name", "") if isinstance(item, dict) else ""
            yield from _secrets(item, f"{path}/{named}")
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("secretKeyRef", "secretRef"):
                yield path, item.get("name")
            elif key == "secret":
                yield path, item.get("secretName") or item.get("name")
            elif key == "serviceAccountToken":
                yield path, ""
            elif key == "valueFrom":
                yield from _secrets(item, path)
            else:
                yield from _secrets(item, f"{path}/{key}" if key != "env" else path)


def _environment(spec: Object) -> dict[str, str]:
    (worker,) = (item for item in spec["containers"] if item["name"] == "worker")
    return {item["name"]: item.get("value", "") for item in worker.get("env", ())}


def _newest(redis: "Redis", stream: str) -> str:
    """The id of the newest entry that a stream ever had."""
    if not redis.exists(stream):
        return "0-0"
    known: Any = redis.xinfo_stream(stream)
    return str(known["last-generated-id"].decode())
