"""Manifests that are odd or that want what is not theirs, one kind a line: add yours to the table.

The API server refuses some and says why; it accepts the others, and then the operator has to live
with them. What none may get is asked of all at once: see `stolen` in support.storm.
"""

import zlib
from dataclasses import dataclass
from typing import Any

from support.cluster import Object
from support.manifests import agent_task, po_session
from support.world import ECHO_IMAGE

_AGENT = {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}}
REDIS = "orbiter-redis"
"""The Secret with the workers' URLs of the queue: nobody's but the worker's."""
_REDIS_KEY = {"name": REDIS, "key": "developer-url"}


@dataclass(frozen=True)
class Hostile:
    """One manifest.

    Attributes:
        body: The object, but for its namespace.
        refused: Words of the API server's answer, when it has to refuse.
        accepted: Whether it has to accept; with neither, both are right.
    """

    body: Object
    refused: str = ""
    accepted: bool = False

    @property
    def name(self) -> str:
        """The object's name, which says what it wants."""
        return str(self.body["metadata"]["name"])

    @property
    def kind(self) -> str:
        """AgentTask or POSession."""
        return str(self.body["kind"])


def overlay(*, worker: Object | None = None, **spec: Any) -> Object:
    """A podTemplate whose agent answers at once, with these fields of the pod and its worker."""
    small = {"requests": {"cpu": "5m", "memory": "32Mi"}}
    container = {"name": "worker", "image": ECHO_IMAGE, "resources": small} | (worker or {})
    return {"podTemplate": {"spec": {"containers": [container], **spec}}}


def _task(name: str, *says: str, ok: bool = False, **spec: Any) -> Hostile:
    """An AgentTask that the API server refuses with these words, or accepts, or either."""
    spec["agent"] = _AGENT | spec.get("agent", {})
    body = agent_task(name, **({"timeoutSeconds": 60} | overlay() | spec))
    return Hostile(body, "".join(says), ok)


def _session(name: str, *says: str, ok: bool = False, **spec: Any) -> Hostile:
    """A POSession, of a user of its own."""
    user = 10**12 + zlib.crc32(name.encode())
    spec["agent"] = _AGENT | spec.get("agent", {})
    body = po_session(name, **({"userId": user} | overlay() | spec))
    return Hostile(body, "".join(says), ok)


def _pod(name: str, *, ok: bool = False, **spec: Any) -> Hostile:
    """An AgentTask whose podTemplate wants something."""
    return _task(name, ok=ok, **overlay(**spec))


def _volume(name: str, **source: Any) -> Hostile:
    """An AgentTask that wants a volume."""
    mount = {"name": "loot", "mountPath": "/loot"}
    volumes = [{"name": "loot", **source}]
    return _pod(name, worker={"volumeMounts": [mount]}, volumes=volumes)


_ENV = [{"name": "LOOT", "valueFrom": {"secretKeyRef": {"name": REDIS, "key": "developer-url"}}}]
_FIRST = {"name": "first", "image": ECHO_IMAGE, "env": _ENV}
_TOKEN = {"serviceAccountToken": {"path": "token"}}
_GIT = {"url": "https://git.example.com/shop.git", "credentialsSecretRef": {"name": REDIS}}
_CLAIM = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "none"}}
_LABELS = {"orbiter.dev/agenttask": "storm-00"}
_MUCH = {"requests": {"memory": "8Ei"}}
_WORDS = {"limits": {"memory": "lots"}}
_BIG = "x" * 200 * 1024
_SCRIPTS = "\u202e\u05e9\u05dc\u05d5\u05dd \U0001f980\u0000\u2028\ufeff"

WANT_SECRETS = (
    _task("env-of-redis", agent={"env": _ENV}),
    _task("credentials-of-redis", agent={"credentialsSecretRef": {"name": REDIS}}),
    _task("git-credentials-of-redis", workspace={"git": _GIT}),
    _pod("pod-env-of-redis", worker={"env": _ENV}),
    _pod("pod-envfrom-redis", worker={"envFrom": [{"secretRef": {"name": REDIS}}]}),
    _pod("first-container-of-redis", initContainers=[_FIRST]),
    _volume("pod-volume-of-redis", secret={"secretName": REDIS}),
    _volume("pod-projected-redis", projected={"sources": [{"secret": {"name": REDIS}}]}),
    _session("session-env-of-redis", agent={"env": _ENV}),
    _session("session-env-of-redis-in-pod", **overlay(worker={"env": _ENV})),
)
WANT_RIGHTS = (
    _pod("service-account", serviceAccountName="default"),
    _pod("old-service-account", serviceAccount="default"),
    _pod("token", automountServiceAccountToken=True),
    _volume("projected-token", projected={"sources": [_TOKEN]}),
    _session("session-token", **overlay(automountServiceAccountToken=True)),
    _pod("host-network", hostNetwork=True, hostPID=True),
    _volume("host-path", hostPath={"path": "/"}),
    _pod("privileged", worker={"securityContext": {"privileged": True}}),
    _task("redis-url", "reserved", agent={"env": [{"name": "REDIS_URL", "value": "x"}]}),
)
BREAK_THE_POD = (
    _task("containers-in-words", podTemplate={"spec": {"containers": "none"}}),
    _task("containers-of-nothing", podTemplate={"spec": {"containers": [{}, None, 7]}}),
    _session("session-in-words", podTemplate={"spec": {"containers": "none"}}),
    _pod("env-of-numbers", worker={"env": [{"name": 1, "value": 2}]}),
    _pod("volumes-of-nothing", volumes=[None, "x"]),
    _pod("restarts-always", restartPolicy="Always", activeDeadlineSeconds=-1),
    _pod("no-such-node", ok=True, nodeSelector={"no": "such-node"}),
    _pod("all-the-memory", ok=True, worker={"resources": _MUCH}),
    _pod("memory-in-words", worker={"resources": _WORDS}),
    _pod("no-such-image", ok=True, worker={"image": "localhost/orbiter/no-such:dev"}),
    _session("no-such-claim", ok=True, persistence=_CLAIM),
    _task(
        "labels-of-another",
        podTemplate=overlay()["podTemplate"] | {"metadata": {"labels": _LABELS}},
    ),
)
ODD = (
    _task("waits-for-itself", "cannot depend on itself", dependsOn=["waits-for-itself"]),
    _task("waits-for-nobody", ok=True, dependsOn=["nobody"]),
    _task("hen", ok=True, dependsOn=["egg"]),
    _task("egg", ok=True, dependsOn=["hen"]),
    _task("a" * 63, ok=True),
    _task("b" * 64, "metadata.name"),
    _task("every.sort-of.name", ok=True),
    _task("every-script", ok=True, prompt=_SCRIPTS),
    _task("a-long-prompt", ok=True, prompt=_BIG),
    _task("too-long-a-prompt", "prompt", prompt=_BIG * 2),
    _task("an-empty-prompt", "prompt is empty", prompt=" \n\t"),
    _task("an-unknown-agent", "unknown agent type", agent={"type": "../claude"}),
    _task("a-giant-timeout", "timeoutSeconds", timeoutSeconds=2**31 - 1),
    _task("beyond-64-bits", "timeoutSeconds", timeoutSeconds=10**30),
    _task("a-million-attempts", "retry.limit", retry={"limit": 10**6}),
    _task("a-git-option", "write an https", workspace={"git": {"url": "--upload-pack=id"}}),
    _task("cancelled-from-the-start", ok=True, desiredState="Cancelled"),
    _task("an-answer-to-nothing", ok=True, input=[{"id": "x", "text": "y"}]),
    _session("a-user-below-zero", "userId", userId=-1),
    _session("the-last-user", ok=True, userId=2**63 - 1),
    _session("a-session-elsewhere", sessionId="../../etc/passwd"),
    _session("a-worker-elsewhere", "workerId", workerId="../*"),
)
KINDS = (*WANT_SECRETS, *WANT_RIGHTS, *BREAK_THE_POD, *ODD)


def thieves_of_entry(entry: str) -> tuple[Hostile, ...]:
    """Tasks that say they were made of an entry, which is another namespace's, or of none."""
    names = {"thief": entry, "thief-of-nothing": "0-1", "thief-in-words": "9" * 5000}
    thieves = tuple(_task(name, ok=True) for name in names)
    for thief in thieves:
        annotations = {"orbiter.dev/entry": names[thief.name], "orbiter.dev/request-id": "x"}
        thief.body["metadata"]["annotations"] = annotations
    return thieves


def doubles_of_session(worker_id: str, user: int) -> tuple[Hostile, ...]:
    """Sessions that would answer in the place of another namespace's."""
    return (
        _session("double-of-worker", workerId=worker_id),
        _session("double-of-user", ok=True, userId=user),
    )
