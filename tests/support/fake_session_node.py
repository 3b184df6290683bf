"""Deployment controller, garbage collector and kubelet for sessions, on `fake_api`.

Its workers do what the PO wrapper promises (what is pending first, one message at a time, answered
in one step, the present turn ended before they leave) and keep a state. The session's
`spec.agent.model` says how the pod fares: `noimage`, `unschedulable`, `crashloop`, `misconfigured`.
A message says how its turn goes: `sleep=SECONDS`, `crash` (the worker dies of it), `rotate`.
`answers` and `runs` record what happened, for tests about what must never happen.
"""

import asyncio
import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError
from support.fake_api import FakeApi, Object

from orbiter_contracts import POWorkerInput, POWorkerOutput, WorkerLifecycleEvent, decode
from orbiter_contracts.queues import (
    LIFECYCLE,
    PO_GROUP,
    dead_letter,
    po_input,
    po_output,
    po_state,
)

_PROBLEMS = {
    "noimage": ("ImagePullBackOff", "Back-off pulling image"),
    "nosecret": ("CreateContainerConfigError", 'secret "orbiter-redis" not found'),
}
_SETTLE = """
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)
if pending.err or #pending == 0 or #redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2]) == 0 then
  return 0
end
redis.call('XADD', KEYS[2], '*', 'data', ARGV[3])
redis.call('XADD', KEYS[4], '*', 'data', ARGV[4])
if ARGV[6] ~= '' then redis.call('XADD', KEYS[5], '*', 'data', '{}', 'reason', ARGV[6]) end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[3], 'state', 'ready', 'request_id', '', 'last_activity', ARGV[5])
redis.call('HSETNX', KEYS[3], 'first_output_at', ARGV[5])
redis.call('HINCRBY', KEYS[3], 'turns', 1)
redis.call('HINCRBY', KEYS[3], 'input_tokens', 10)
return 1
"""
POISONED_DELIVERIES = 3


class _CrashError(Exception):
    """The worker's process dies."""


@dataclass
class _Pod:
    namespace: str
    name: str
    env: dict[str, str]
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
    answers: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    beside: int = 0
    _pods: dict[str, list[_Pod]] = field(default_factory=dict)
    _working: Counter[str] = field(default_factory=Counter)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self) -> None:
        self.api.listeners.append(self._changed)
        self._settle = self.redis.register_script(_SETTLE)

    async def stop(self) -> None:
        self.api.listeners.remove(self._changed)
        tasks = [pod.task for pods in self._pods.values() for pod in pods if pod.task]
        for task in [*tasks, *self._tasks]:
            task.cancel()
        await asyncio.gather(*tasks, *self._tasks, return_exceptions=True)

    def _changed(self, change: str, plural: str, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        if plural == "deployments" and change == "DELETED":
            self._later(self._scale_down(uid))
        elif plural == "deployments":
            alive = [pod for pod in self._pods.get(uid, ()) if not pod.stop.is_set()]
            if obj["spec"]["replicas"] and not alive:
                self._begin(obj)
            elif not obj["spec"]["replicas"] and alive:
                self._later(self._scale_down(uid))
        elif plural == "posessions" and change == "DELETED":
            self._later(self._collect(uid))

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _collect(self, uid: str) -> None:
        await asyncio.sleep(0)
        for (namespace, name), obj in list(self.api.objects["deployments"].items()):
            if any(o["uid"] == uid for o in obj["metadata"].get("ownerReferences") or ()):
                self.api.remove("deployments", namespace, name)

    async def _scale_down(self, uid: str) -> None:
        for pod in self._pods.get(uid, ()):
            if not pod.stop.is_set():
                pod.stop.set()
                deleted = {"metadata": {"deletionTimestamp": _now()}}
                self.api.patch("pods", pod.namespace, pod.name, deleted)

    def delete_pod(self, uid: str) -> None:
        """What `kubectl delete pod` does: this one ends, the Deployment makes another."""
        for key, obj in self.api.objects["deployments"].items():
            if obj["metadata"]["uid"] == uid:
                self._later(self._scale_down(uid))
                self._later(self._begin_again(key, uid))

    async def _begin_again(self, key: tuple[str, str], uid: str) -> None:
        await asyncio.sleep(0)
        self._begin(self.api.objects["deployments"][key])

    def _begin(self, deployment: Object) -> None:
        meta, template = deployment["metadata"], deployment["spec"]["template"]
        variables = template["spec"]["containers"][0]["env"]
        env = {item["name"]: item.get("value", "") for item in variables}
        name = f"{meta['name']}-{uuid4().hex[:5]}"
        pod = _Pod(meta["namespace"], name, env)
        self._pods.setdefault(meta["uid"], []).append(pod)
        self.api.put(
            "pods",
            {
                "metadata": {
                    "name": name,
                    "namespace": meta["namespace"],
                    "labels": dict(template["metadata"]["labels"]),
                    "ownerReferences": [{"kind": "ReplicaSet", "name": name, "uid": meta["uid"]}],
                },
                "spec": {"nodeName": ""},
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

    async def _live(self, pod: _Pod) -> None:
        await asyncio.sleep(self.pod_delay)
        fate = pod.env.get("AGENT_MODEL", "")
        if fate == "unschedulable":
            reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            told = reason | {"message": "0/1 nodes are available: 1 Insufficient memory."}
            self._pod(pod, {"conditions": [told]})
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
                    raise _CrashError(fate)
                await self._work(pod)
                return
            except _CrashError as crash:
                restarts += 1
                code = 2 if str(crash) == "misconfigured" else 1
                last = {"exitCode": code, "reason": "Error", "message": "log\nKEY is missing"}
                waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting"}
                self._container(pod, restarts, {"waiting": waiting}, last)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(pod.stop.wait(), min(0.02 * 2**restarts, 0.5))

    async def _work(self, pod: _Pod) -> None:
        worker = pod.env["WORKER_ID"]
        self._working[worker] += 1
        self.beside = max(self.beside, self._working[worker])
        try:
            await self._converse(pod, worker)
        finally:
            self._working[worker] -= 1

    async def _converse(self, pod: _Pod, worker: str) -> None:
        state, after = po_state(worker), "0"
        await self._say(worker, "started", {"state": "starting"})
        await self._patiently(lambda: self.redis.hdel(state, "ready_at", "first_output_at"))
        ready = {"state": "ready", "ready_at": datetime.now(UTC).isoformat()}
        await self._say(worker, "ready", ready)
        while not pod.stop.is_set():
            try:
                found = await self.redis.xreadgroup(
                    PO_GROUP, worker, {po_input(worker): after}, count=1, block=30
                )
            except ResponseError:
                with contextlib.suppress(ResponseError, RedisError):
                    await self.redis.xgroup_create(po_input(worker), PO_GROUP, "0", mkstream=True)
                continue
            except (RedisError, OSError):
                await asyncio.sleep(0.05)
                after = "0"
                continue
            entries = found[0][1] if found else []
            if entries:
                await self._turn(worker, *entries[0])
            elif after == "0":
                after = ">"
        await self._say(worker, "stopped", {"state": "stopped"})

    async def _turn(self, worker: str, entry: str, fields: dict[str, str]) -> None:
        message = decode(POWorkerInput, fields)
        words = message.prompt.split()
        self.runs[message.request_id] += 1
        await self._say(worker, "busy", {"state": "busy", "request_id": message.request_id})
        for word in words:
            if word.startswith("sleep="):
                await asyncio.sleep(float(word[6:]))
        dead = ""
        if "crash" in words:
            pending = await self.redis.xpending_range(
                po_input(worker), PO_GROUP, entry, entry, count=1
            )
            if pending[0]["times_delivered"] < POISONED_DELIVERIES:
                raise _CrashError(message.request_id)
            dead = "delivered 3 times"
        if "rotate" in words:
            news = {"reason": "Command", "from": "one", "to": "two", "at": _now()}
            fields = {"session_id": "two", "rotations": "1", "rotation": json.dumps(news)}
            await self.redis.hset(po_state(worker), mapping=fields)
        output = POWorkerOutput(
            request_id=message.request_id,
            user_id=message.user_id,
            text=f"re: {message.prompt}",
            status="error" if dead else "success",
        )
        stream, now = po_input(worker), datetime.now(UTC).isoformat()
        told = WorkerLifecycleEvent(worker_id=worker, event="completed")
        keys = [stream, po_output(worker), po_state(worker), LIFECYCLE, dead_letter(stream)]
        texts = [output.model_dump_json(), told.model_dump_json(), now, dead]
        settled = await self._patiently(
            lambda: self._settle(keys=keys, args=[PO_GROUP, entry, *texts])
        )
        if settled:
            self.answers[message.request_id] += 1

    async def _say(self, worker: str, event: Any, state: dict[str, str]) -> None:
        told = WorkerLifecycleEvent(worker_id=worker, event=event)

        async def tell() -> None:
            async with self.redis.pipeline(transaction=True) as pipe:
                pipe.hset(po_state(worker), mapping=state)
                pipe.xadd(LIFECYCLE, {"data": told.model_dump_json()})
                await pipe.execute()

        await self._patiently(tell)

    @staticmethod
    async def _patiently(command: Any) -> Any:
        """Redis may be away for a while; a worker tries again."""
        while True:
            try:
                return await command()
            except (RedisError, OSError):
                await asyncio.sleep(0.05)

    def _pod(self, pod: _Pod, status: Object) -> None:
        self.api.patch("pods", pod.namespace, pod.name, {"status": status})

    def _container(
        self, pod: _Pod, restarts: int, state: Object, last: Object | None = None
    ) -> None:
        status = {"name": "worker", "state": state, "restartCount": restarts}
        if last:
            status["lastState"] = {"terminated": last}
        self._pod(pod, {"phase": "Running", "containerStatuses": [status]})


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def long_ago() -> str:
    """A creation time that makes a session the older of two."""
    return (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
