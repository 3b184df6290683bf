"""Deployment controller, garbage collector and kubelet for sessions, on `fake_api`.

The session's `spec.agent.model` says how the pod fares: `noimage`, `nosecret`, `unschedulable`,
`crashloop`, `misconfigured`. `answers` and `runs` record what its workers did, for tests about what
must never happen.
"""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis
from support.fake_api import FakeApi, Object
from support.fake_session_worker import FakeSessionWorkers, WorkerCrashError

from orbiter_contracts.queues import Keys
from orbiter_operator.runtime.supervisor import end

_PROBLEMS = {
    "noimage": ("ImagePullBackOff", "Back-off pulling image"),
    "nosecret": ("CreateContainerConfigError", 'secret "orbiter-redis" not found'),
}


@dataclass
class _Pod:
    namespace: str
    name: str
    env: dict[str, str]
    template: Object
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


@dataclass
class FakeSessionNode:
    """Runs the pod of every session's Deployment that appears in the API.

    `pod_delay` is how long a pod takes to run, `end_delay` how long the kubelet takes to notice
    that its worker has left.
    """

    api: FakeApi
    redis: Redis
    pod_delay: float = 0.0
    end_delay: float = 0.0
    _pods: dict[str, list[_Pod]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.workers = FakeSessionWorkers(self.redis)

    @property
    def answers(self) -> Counter[str]:
        """How often each message was answered, by request id."""
        return self.workers.answers

    @property
    def runs(self) -> Counter[str]:
        """How often an agent ran for each message."""
        return self.workers.runs

    @property
    def beside(self) -> int:
        """How many workers of one session ran at the same time, at most."""
        return self.workers.beside

    def start(self) -> None:
        self.api.listeners.append(self._changed)

    async def stop(self) -> None:
        self.api.listeners.remove(self._changed)
        pods = [pod.task for pods in self._pods.values() for pod in pods if pod.task]
        tasks = [*pods, *self._tasks]
        await end(tasks)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _changed(self, change: str, plural: str, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        if plural == "deployments" and not obj["metadata"].get("ownerReferences"):
            return
        if plural == "deployments" and change == "DELETED":
            self._later(self._scale_down(uid))
            self._later(self._collect(uid, "secrets"))
        elif plural == "deployments":
            if change == "ADDED":
                self._collect_orphan(obj)
            alive = [pod for pod in self._pods.get(uid, ()) if not pod.stop.is_set()]
            if obj["spec"]["replicas"] and not alive:
                self._begin(obj)
            elif alive and (not obj["spec"]["replicas"] or alive[0].template != _template(obj)):
                self._later(self._scale_down(uid))
        elif plural == "posessions" and change == "DELETED":
            self._later(self._collect(uid))

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _collect_orphan(self, deployment: Object) -> None:
        """What was made for an owner that is gone goes too, as the garbage collector sees to."""
        alive = {obj["metadata"]["uid"] for obj in self.api.objects["posessions"].values()}
        for owner in deployment["metadata"]["ownerReferences"]:
            if owner["uid"] not in alive:
                self._later(self._collect(owner["uid"]))

    async def _collect(self, uid: str, plural: str = "deployments") -> None:
        await asyncio.sleep(0)
        for (namespace, name), obj in list(self.api.objects[plural].items()):
            if any(o["uid"] == uid for o in obj["metadata"].get("ownerReferences") or ()):
                self.api.remove(plural, namespace, name)

    async def _scale_down(self, uid: str) -> None:
        for pod in self._pods.get(uid, ()):
            if not pod.stop.is_set():
                pod.stop.set()
                deleted = {"metadata": {"deletionTimestamp": _now()}}
                self.api.patch("pods", pod.namespace, pod.name, deleted)

    def delete_pod(self, uid: str) -> None:
        """What `kubectl delete pod` does; the Deployment makes another when it has ended."""
        self._later(self._scale_down(uid))

    def _replace(self, uid: str) -> None:
        if self._changed not in self.api.listeners:
            return
        for obj in list(self.api.objects["deployments"].values()):
            owners = obj["metadata"].get("ownerReferences") or ()
            if obj["metadata"]["uid"] == uid and owners and not self._pods[uid]:
                self._changed("MODIFIED", "deployments", obj)

    def _begin(self, deployment: Object) -> None:
        meta, template = deployment["metadata"], deployment["spec"]["template"]
        variables = template["spec"]["containers"][0]["env"]
        env = {item["name"]: item.get("value", "") for item in variables}
        name = f"{meta['name']}-{uuid4().hex[:5]}"
        pod = _Pod(meta["namespace"], name, env, _template(deployment))
        self._pods.setdefault(meta["uid"], []).append(pod)
        self.api.put(
            "pods",
            {
                "metadata": {
                    "name": name,
                    "namespace": meta["namespace"],
                    "labels": dict(template["metadata"]["labels"]),
                    "ownerReferences": [
                        {
                            "kind": "ReplicaSet",
                            "name": f"{meta['name']}-5d4f8c7b9",
                            "uid": meta["uid"],
                            "controller": True,
                        }
                    ],
                },
                "spec": {"nodeName": "", "containers": template["spec"]["containers"]},
                "status": {"phase": "Pending"},
            },
        )
        pod.task = asyncio.ensure_future(self._run(meta["uid"], pod))

    async def _run(self, uid: str, pod: _Pod) -> None:
        try:
            await self._live(pod)
        finally:
            if pod.stop.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(self.end_delay)
            self._pods[uid].remove(pod)
            self.api.remove("pods", pod.namespace, pod.name)
            self._replace(uid)

    async def _live(self, pod: _Pod) -> None:
        await asyncio.sleep(self.pod_delay)
        fate = pod.env.get("AGENT_MODEL", "")
        if fate == "unschedulable":
            reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            condition = reason | {"message": "0/1 nodes are available: 1 Insufficient memory."}
            self._pod(pod, {"conditions": [condition]})
            await pod.stop.wait()
            return
        self.api.patch("pods", pod.namespace, pod.name, {"spec": {"nodeName": "fake-node"}})
        if fate in _PROBLEMS:
            word, message = _PROBLEMS[fate]
            self._container(pod, 0, {"waiting": {"reason": word, "message": message}})
            await pod.stop.wait()
            return
        restarts = 0
        while not pod.stop.is_set():
            began = _now()
            self._container(pod, restarts, {"running": {"startedAt": began}})
            try:
                if fate in ("crashloop", "misconfigured"):
                    raise WorkerCrashError(fate)
                keys = Keys(pod.env.get("KEY_PREFIX", ""))
                await self.workers.work(pod.env["WORKER_ID"], pod.stop, keys)
                return
            except WorkerCrashError as crash:
                restarts += 1
                code = 2 if str(crash) == "misconfigured" else 1
                last = {"exitCode": code, "reason": "Error", "message": "log\nKEY is missing"}
                waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting"}
                self._container(pod, restarts, {"waiting": waiting}, last)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(pod.stop.wait(), min(0.02 * 2**restarts, 0.5))

    def _pod(self, pod: _Pod, status: Object) -> None:
        self.api.patch("pods", pod.namespace, pod.name, {"status": status})

    def _container(
        self, pod: _Pod, restarts: int, state: Object, last: Object | None = None
    ) -> None:
        status = {"name": "worker", "state": state, "restartCount": restarts}
        if last:
            status["lastState"] = {"terminated": last}
        self._pod(pod, {"phase": "Running", "containerStatuses": [status]})


def _template(deployment: Object) -> Object:
    found: Object = deployment["spec"]["template"]
    return found


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def long_ago() -> str:
    """A creation time that makes a session the older of two."""
    return (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
