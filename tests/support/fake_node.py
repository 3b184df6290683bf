"""Job controller, garbage collector and kubelet for `fake_api`, with workers that speak Redis.

A worker does what the real wrapper promises (claim, busy, publish once) with the shared script;
the prompt says how it behaves: `ok`, `fail`, `error`, `timeout`, `ask`, `crash`, `oom`, `silent`,
`hang`, `noimage`, `unschedulable`, `nosecret`, `sleep=SECONDS`, `flaky=N` (the first N attempts
fail); `once` makes an attempt's later pods succeed; one that asks stores its session, unless it is
`forgetful`. A Job's pod that is evicted is replaced where its podFailurePolicy says so. `runs`
records who ran when, for tests about what must never happen, and `prompts` what each was told.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError
from support.fake_api import FakeApi, Object

from orbiter_contracts import (
    AgentVerdict,
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    Usage,
    WorkerLifecycleEvent,
    decode,
)
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, Keys
from orbiter_contracts.scripts import ATTEMPT_TTL_SECONDS, PUBLISH_ATTEMPT
from orbiter_operator.runtime.supervisor import end

_TOOL = {"name": "Bash", "kind": "tool", "duration_ms": 1}
_WAITING = {
    "noimage": ("ImagePullBackOff", "Back-off pulling image"),
    "badimage": ("InvalidImageName", "couldn't parse image name"),
    "nosecret": ("CreateContainerConfigError", 'secret "orbiter-redis" not found'),
}


@dataclass
class Run:
    """One worker's turn; `ended` is None while it lasts. Times are seconds of the event loop."""

    task: str
    uid: str
    attempt: int
    began: float
    ended: float | None = None
    published: bool = False


@dataclass
class FakeNode:
    """Runs every Job that appears in the API.

    `pod_delay` is how long a pod takes to run, `turn_delay` how long an agent takes at least (real
    ones need longer to start), `report_delay` how long after its worker has ended the Job says so.
    With `keep_pods` the pods of what was deleted take their time to end.
    """

    api: FakeApi
    redis: Redis
    pod_delay: float = 0.0
    turn_delay: float = 0.15
    report_delay: float = 0.0
    runs: list[Run] = field(default_factory=list)
    prompts: dict[tuple[str, int], str] = field(default_factory=dict)
    most_at_once: int = 0
    keep_pods: bool = False
    _made: int = 0
    _pods: dict[tuple[str, str], asyncio.Task[None]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self) -> None:
        self.api.listeners.append(self._changed)

    async def stop(self) -> None:
        self.api.listeners.remove(self._changed)
        tasks = [*self._pods.values(), *self._tasks]
        await end(tasks)
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def running(self) -> list[Run]:
        return [run for run in self.runs if run.ended is None]

    def delete_pod(self, namespace: str, name: str) -> None:
        """What `kubectl delete pod` does: the worker is stopped, the Job fails."""
        self._stop_pod(namespace, name)

    def evict_pod(self, namespace: str, name: str) -> None:
        """What a drained node does: the worker is stopped, and the Job makes another pod."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
        }
        self._pod(namespace, name, {"phase": "Failed", "conditions": [condition]})
        pod = self.api.get("pods", namespace, name) or {}
        job = self.api.get("jobs", namespace, pod["metadata"]["ownerReferences"][0]["name"])
        ignored = job is not None and "podFailurePolicy" in job["spec"]
        self._stop_pod(namespace, name, fails=not ignored)
        if job is not None and ignored:
            self._begin(job)

    def _begin(self, job: Object) -> None:
        meta = job["metadata"]
        self._made += 1
        name = f"{meta['name']}-pod{self._made}"
        self._pods[meta["namespace"], name] = asyncio.create_task(self._run_job(job, name))

    def _changed(self, change: str, plural: str, obj: Object) -> None:
        meta = obj["metadata"]
        if plural == "jobs" and change == "ADDED" and not obj["spec"].get("suspend"):
            self._begin(obj)
        elif change == "DELETED" and plural in ("agenttasks", "jobs"):
            self._later(self._collect(plural, meta["namespace"], meta["uid"]))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _collect(self, plural: str, namespace: str, uid: str) -> None:
        """Delete the children of what was deleted."""
        await asyncio.sleep(0)
        child = "jobs" if plural == "agenttasks" else "pods"
        for (place, name), obj in list(self.api.objects[child].items()):
            owners = obj["metadata"].get("ownerReferences") or ()
            if self.keep_pods and child == "pods":
                continue
            if place == namespace and any(owner["uid"] == uid for owner in owners):
                if child == "jobs":
                    self.api.remove("jobs", namespace, name)
                else:
                    self._stop_pod(namespace, name)

    def _stop_pod(self, namespace: str, name: str, *, fails: bool = True) -> None:
        task = self._pods.pop((namespace, name), None)
        if task is not None:
            task.cancel()
            self._later(end([task]))
        deleted = {"metadata": {"deletionTimestamp": _now()}}
        pod = self.api.patch("pods", namespace, name, deleted)
        if pod is None:
            return
        self.api.remove("pods", namespace, name)
        job = pod["metadata"]["ownerReferences"][0]["name"]
        if fails and (found := self.api.get("jobs", namespace, job)) is not None:
            self._job_ended(found, ok=False, message="Job has reached the specified backoff limit")

    async def _run_job(self, job: Object, name: str) -> None:
        meta = job["metadata"]
        template = job["spec"]["template"]
        env = {
            item["name"]: item.get("value", "") for item in template["spec"]["containers"][0]["env"]
        }
        pod = {
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "labels": dict(template["metadata"]["labels"]),
                "ownerReferences": [
                    {"kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
                ],
            },
            "spec": {"nodeName": "fake-node", "containers": template["spec"]["containers"]},
            "status": {"phase": "Pending"},
        }
        self.api.put("pods", pod)
        if self.pod_delay:
            await asyncio.sleep(self.pod_delay)
        words = await self._prompt(env)
        if "unschedulable" in words:
            reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            unscheduled = reason | {"message": "0/1 nodes are available: 1 Insufficient memory."}
            self._pod(meta["namespace"], name, {"conditions": [unscheduled]})
            await asyncio.Event().wait()
        for word, (reason_word, message) in _WAITING.items():
            if word in words:
                state = {"waiting": {"reason": reason_word, "message": message}}
                self._container(meta["namespace"], name, "Pending", state)
                await asyncio.Event().wait()
        self._container(meta["namespace"], name, "Running", {"running": {"startedAt": _now()}})
        code, reason_word, last_words = await self._work(env, words)
        ended = {"exitCode": code, "reason": reason_word, "message": last_words}
        phase = "Failed" if code else "Succeeded"
        if self.report_delay:
            await asyncio.sleep(self.report_delay)
        self._container(meta["namespace"], name, phase, {"terminated": ended})
        self._pods.pop((meta["namespace"], name), None)
        self._job_ended(job, ok=code == 0, message="Job has reached the specified backoff limit")

    async def _prompt(self, env: dict[str, str]) -> list[str]:
        entries = await self._patiently(
            lambda: self.redis.xrange(
                _keys(env).developer_input, env["TASK_ENTRY_ID"], env["TASK_ENTRY_ID"]
            )
        )
        return decode(DeveloperWorkerInput, entries[0][1]).prompt.split() if entries else []

    async def _work(self, env: dict[str, str], words: list[str]) -> tuple[int, str, str]:
        run = Run(
            task=env["TASK_NAME"],
            uid=env["TASK_RECORD"].split(":")[-2],
            attempt=int(env["TASK_ATTEMPT"]),
            began=asyncio.get_running_loop().time(),
        )
        entry = env["TASK_ENTRY_ID"]
        claimed = await self._patiently(
            lambda: self.redis.xclaim(
                *(_keys(env).developer_input, DEVELOPER_GROUP, env["WORKER_ID"], 0),
                *([entry],),
                force=True,
            )
        )
        if not claimed or not claimed[0][1]:
            return 0, "Completed", ""
        message = decode(DeveloperWorkerInput, claimed[0][1])
        self.runs.append(run)
        self.prompts[run.task, run.attempt] = message.prompt
        self.most_at_once = max(self.most_at_once, len(self.running))
        try:
            return await self._turn(env, words, message, run)
        finally:
            run.ended = asyncio.get_running_loop().time()

    async def _turn(
        self, env: dict[str, str], words: list[str], message: DeveloperWorkerInput, run: Run
    ) -> tuple[int, str, str]:
        began = datetime.now(UTC)
        busy = WorkerLifecycleEvent(worker_id=env["WORKER_ID"], event="busy")
        routing = {"agenttask": env["TASK_NAME"], "attempt": env["TASK_ATTEMPT"]}
        await self._patiently(
            lambda: self.redis.xadd(
                _keys(env).lifecycle, {"data": busy.model_dump_json(), **routing}
            )
        )
        await asyncio.sleep(self.turn_delay)
        for word in words:
            if word.startswith("sleep="):
                await asyncio.sleep(float(word[6:]))
        while "seen" in words and not self._is_seen(env):
            await asyncio.sleep(0.02)
        before = [it for it in self.runs if (it.uid, it.attempt) == (run.uid, run.attempt)]
        if "once" in words and len(before) > 1:
            words = ["ok"]
        if "hang" in words:
            await asyncio.Event().wait()
        if "crash" in words:
            return 1, "Error", "Traceback\nRuntimeError: the wrapper fell over"
        if "oom" in words:
            return 137, "OOMKilled", ""
        if "silent" in words:
            return 0, "Completed", ""
        outcome = _outcome(words, run.attempt)
        if "ask" in words and "forgetful" not in words:
            key, session = env["SNAPSHOT_KEY"], env["SESSION_ID"]
            await self._patiently(lambda: self.redis.set(key, session))
        output = DeveloperWorkerOutput.model_validate(
            {
                "request_id": message.request_id,
                "task_id": message.task_id,
                "worker_id": env["WORKER_ID"],
                "started_at": began,
                "finished_at": datetime.now(UTC),
                "duration_ms": 1,
                "steps": [_TOOL | {"started_at": began}] if env.get("TRACEPARENT") else [],
                "usage": Usage(input_tokens=10, output_tokens=5, cost_usd=0.01, turns=1),
                **outcome,
            }
        )
        run.published = await self._publish(env, output)
        return 0, "Completed", ""

    def _is_seen(self, env: dict[str, str]) -> bool:
        """Whether the task says that the turn goes on; of a short one it need not hear at all."""
        namespace, _, name = env["TASK_NAME"].partition("/")
        task = self.api.get("agenttasks", namespace, name)
        return task is None or (task.get("status") or {}).get("phase") == "Running"

    async def _publish(self, env: dict[str, str], output: DeveloperWorkerOutput) -> bool:
        event = WorkerLifecycleEvent(worker_id=env["WORKER_ID"], event="completed")
        script = self.redis.register_script(PUBLISH_ATTEMPT)
        keys = _keys(env)
        streams = (keys.developer_input, keys.developer_output, keys.lifecycle)
        answer = await self._patiently(
            lambda: script(
                keys=[env["TASK_RECORD"], *streams],
                args=[
                    ATTEMPT_TTL_SECONDS,
                    env["TASK_ENTRY_ID"],
                    DEVELOPER_GROUP,
                    output.model_dump_json(),
                    event.model_dump_json(),
                    env["TASK_NAME"],
                    env["TASK_ATTEMPT"],
                ],
            )
        )
        return answer is not None

    @staticmethod
    async def _patiently(command: Any) -> Any:
        """Redis may be away for a while; a worker tries again."""
        while True:
            try:
                return await command()
            except (RedisError, OSError):
                await asyncio.sleep(0.05)

    def _pod(self, namespace: str, name: str, status: Object) -> None:
        self.api.patch("pods", namespace, name, {"status": status})

    def _container(self, namespace: str, name: str, phase: str, state: Object) -> None:
        statuses = [{"name": "worker", "state": state}]
        self._pod(
            namespace,
            name,
            {"phase": phase, "startTime": _now(), "containerStatuses": statuses},
        )

    def _job_ended(self, job: Object, *, ok: bool, message: str) -> None:
        condition = {
            "type": "Complete" if ok else "Failed",
            "status": "True",
            "reason": "CompletionsReached" if ok else "BackoffLimitExceeded",
            "message": "" if ok else message,
        }
        meta = job["metadata"]
        self.api.patch(
            "jobs", meta["namespace"], meta["name"], {"status": {"conditions": [condition]}}
        )


def _keys(env: dict[str, str]) -> Keys:
    return Keys(env.get("KEY_PREFIX", ""))


def record_of(uid: str, attempt: int) -> str:
    return BARE.attempt_record(uid, attempt)


def _outcome(words: list[str], attempt: int) -> Object:
    flaky = next((int(word[6:]) for word in words if word.startswith("flaky=")), 0)
    if "fail" in words or attempt <= flaky:
        return {
            "status": "failed",
            "reason": "AgentError",
            "error": "the agent gave up\nno idea why",
        }
    if "error" in words:
        return {"status": "error", "error": "exit code 1\nsome trace\nValueError: boom"}
    if "timeout" in words:
        return {"status": "timeout", "reason": "AgentTimeout", "error": "no answer after 5 s"}
    if "ask" in words:
        verdict = AgentVerdict(status="input_required", question="which branch?")
        return {"status": "input_required", "verdict": verdict}
    verdict = AgentVerdict(summary="all done", data={"files": 3})
    return {"status": "success", "verdict": verdict, "commit_sha": "c0ffee"}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
