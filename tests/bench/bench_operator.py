"""Measures the operator on the running cluster, beside bare Jobs in the same run: `make bench`.

Everything is a figure of one run on one machine; only ratios travel. Pods of the bursts carry a
scheduling gate, so that the API server and the controllers work and the node does not. A missed
goal makes the exit code 1.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from goals import Goal, exit_code, told
from support.cluster import STATE, Cluster
from support.world import ECHO_IMAGE, SYSTEM, World

from orbiter_contracts import (
    AgentVerdict,
    DeveloperWorkerOutput,
    WorkerLifecycleEvent,
)
from orbiter_contracts.attempts import request_id
from orbiter_contracts.queues import DEVELOPER_GROUP, Keys
from orbiter_contracts.scripts import ATTEMPT_TTL_SECONDS, PUBLISH_ATTEMPT
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.connection import Credentials, load_connection
from orbiter_operator.kube.resources import AGENT_TASKS, JOBS, PODS

NAMESPACE = "e2e-bench"
KEYS = Keys.of_namespace(NAMESPACE)
TASKS_PER_NAMESPACE = 500
Object = dict[str, Any]
SMALL = {"requests": {"cpu": "5m", "memory": "32Mi"}}
"""So that every task of a bench fits on a small node at once."""
GATE = {"schedulingGates": [{"name": "orbiter.dev/bench"}]}
CONCURRENCY = 16
REFERENCE_PASSES = 400
"""About 10 ms on a fast machine."""


def task(name: str, **template: Any) -> Object:
    """An AgentTask of the bench; `template` overlays its pod's spec."""
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentTask",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "prompt": "echo",
            "agent": {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}},
            "podTemplate": {"spec": template},
        },
    }


def bare_job(name: str, like: Object) -> Object:
    """A Job with the same pod as another one, and nobody behind it."""
    spec = {k: v for k, v in like["spec"].items() if k not in ("selector", "manualSelector")}
    spec["template"] = {"metadata": {"labels": {"bench": "bare"}}, "spec": spec["template"]["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


class Clock:
    """When each object first fulfilled a condition, as a watch saw it."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}
        self._changed = asyncio.Event()

    def note(self, name: str) -> None:
        """The object fulfils it now."""
        self.seen.setdefault(name, time.perf_counter())
        self._changed.set()

    async def wait(self, names: set[str], seconds: float = 240.0) -> None:
        """Wait until all of these have been seen."""
        async with asyncio.timeout(seconds):
            while not names <= self.seen.keys():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def watching(
    kube: Kube, resource: Any, condition: Callable[[Object], bool]
) -> AsyncIterator[Clock]:
    """Note the time at which objects fulfil a condition."""
    clock = Clock()
    _, since = await kube.list(resource, NAMESPACE)

    async def follow() -> None:
        async for event in kube.watch(resource, NAMESPACE, since=since, seconds=3600):
            if event["type"] in ("ADDED", "MODIFIED") and condition(event["object"]):
                clock.note(event["object"]["metadata"]["name"])

    follower = asyncio.create_task(follow())
    try:
        yield clock
    finally:
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)


async def in_parallel(calls: list[Callable[[], Awaitable[Any]]]) -> None:
    """Run calls, CONCURRENCY at a time."""
    waiting = iter(calls)

    async def one_after_another() -> None:
        for call in waiting:
            await call()

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(one_after_another())


def percentiles(seconds: list[float]) -> Object:
    """p50 and p99 in milliseconds."""
    ordered = sorted(seconds)
    return {
        "p50_ms": round(statistics.median(ordered) * 1000, 1),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1000, 1),
        "n": len(ordered),
    }


def writes(before: dict[str, float], after: dict[str, float], count: int) -> dict[str, float]:
    """What the operator wrote to the API server meanwhile, by resource and verb, a task."""
    return {
        key: round((after[key] - before.get(key, 0)) / count, 2)
        for key in after
        if key.startswith("orbiter_api_requests_total")
        and not any(word in key for word in ('verb="get"', 'verb="list"', "leases"))
        and after[key] > before.get(key, 0)
    }


def finished(job: Object) -> bool:
    """Whether a Job is reported Complete."""
    conditions = job.get("status", {}).get("conditions", [])
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


def completed(found: Object) -> bool:
    """Whether an AgentTask is Completed."""
    return bool(found.get("status", {}).get("phase") == "Completed")


class Bench:
    """The measurements, each on an empty namespace."""

    def __init__(self, world: World, kube: Kube) -> None:
        self.world = world
        self.kube = kube
        self.template: Object = {}

    async def empty(self) -> None:
        """Delete all tasks and Jobs and wait until they are gone."""
        for resource in (AGENT_TASKS, JOBS, PODS):
            path = f"{resource.path(NAMESPACE)}?propagationPolicy=Background"
            await asyncio.to_thread(self.world.kubectl, "delete", "--raw", path)
        async with asyncio.timeout(300):
            for resource in (AGENT_TASKS, JOBS, PODS):
                while (await self.kube.list(resource, NAMESPACE))[0]:
                    await asyncio.sleep(0.5)

    async def single(self, count: int) -> Object:
        """AgentTask created → Job exists, one at a time; then output added → Completed."""
        starts, ends = [], []
        async with (
            watching(self.kube, JOBS, lambda job: True) as jobs,
            watching(self.kube, AGENT_TASKS, completed) as done,
        ):
            with self.world.redis() as redis:
                for n in range(count):
                    began = time.perf_counter()
                    created = await self.kube.create(
                        AGENT_TASKS, NAMESPACE, task(f"single-{n}", **GATE)
                    )
                    await jobs.wait({f"single-{n}-1"})
                    starts.append(jobs.seen[f"single-{n}-1"] - began)
                    ends.append(await self.answer(redis, created, done))
        self.template = await self.kube.get(JOBS, NAMESPACE, "single-0-1")
        return {"task_to_job": percentiles(starts), "output_to_completed": percentiles(ends)}

    async def answer(self, redis: Any, created: Object, done: Clock) -> float:
        """Publish an output as the worker would; seconds until the phase says so."""
        meta = created["metadata"]
        record = KEYS.attempt_record(meta["uid"], 1)
        entry = redis.hget(record, "entry")
        output = DeveloperWorkerOutput(
            request_id=request_id(meta["uid"], 1),
            task_id="bench",
            verdict=AgentVerdict(summary="bench"),
        )
        event = WorkerLifecycleEvent(worker_id="bench", event="completed")
        publish = redis.register_script(PUBLISH_ATTEMPT)
        arguments = [
            *(ATTEMPT_TTL_SECONDS, entry, DEVELOPER_GROUP),
            *(output.model_dump_json(), event.model_dump_json()),
            *(f"{NAMESPACE}/{meta['name']}", 1),
        ]
        began = time.perf_counter()
        await asyncio.to_thread(
            publish,
            [record, KEYS.developer_input, KEYS.developer_output, KEYS.lifecycle],
            arguments,
        )
        await done.wait({meta["name"]})
        return done.seen[meta["name"]] - began

    async def burst(self, count: int) -> Object:
        """AgentTasks created at once, beside as many bare Jobs."""
        bare = await self._burst(
            JOBS,
            {f"bare-{n}": bare_job(f"bare-{n}", self.template) for n in range(count)},
            lambda name: name,
        )
        await self.empty()
        tasks = await self._burst(
            AGENT_TASKS,
            {f"burst-{n}": task(f"burst-{n}", **GATE) for n in range(count)},
            lambda name: f"{name}-1",
        )
        ratio = tasks["jobs_per_second"] / bare["jobs_per_second"]
        return {"bare": bare, "tasks": tasks, "ratio_to_bare": round(ratio, 2)}

    async def _burst(
        self, resource: Any, bodies: dict[str, Object], job_of: Callable[[str], str]
    ) -> Object:
        sent: dict[str, float] = {}

        def creating(name: str, body: Object) -> Callable[[], Awaitable[Any]]:
            async def create() -> None:
                sent[name] = time.perf_counter()
                await self.kube.create(resource, NAMESPACE, body)

            return create

        async with watching(self.kube, JOBS, lambda job: True) as jobs:
            began = time.perf_counter()
            await in_parallel([creating(name, body) for name, body in bodies.items()])
            await jobs.wait({job_of(name) for name in bodies})
        last = max(jobs.seen[job_of(name)] for name in bodies)
        waits = [jobs.seen[job_of(name)] - sent[name] for name in bodies]
        return {"jobs_per_second": round(len(bodies) / (last - began), 1), **percentiles(waits)}

    async def on_the_node(self, count: int) -> Object:
        """Create → Completed of an echo task and create → Complete of a bare Job, in turn."""
        tasks, bare = [], []
        container = [{"name": "worker", "image": ECHO_IMAGE, "resources": SMALL}]
        async with (
            watching(self.kube, JOBS, finished) as jobs,
            watching(self.kube, AGENT_TASKS, completed) as done,
        ):
            for n in range(count):
                began = time.perf_counter()
                await self.kube.create(
                    AGENT_TASKS, NAMESPACE, task(f"node-{n}", containers=container)
                )
                await done.wait({f"node-{n}"})
                tasks.append(done.seen[f"node-{n}"] - began)
                await jobs.wait({f"node-{n}-1"})
                like = await self.kube.get(JOBS, NAMESPACE, f"node-{n}-1")
                job = bare_job(f"alone-{n}", like)
                only = job["spec"]["template"]["spec"]["containers"][0]
                only["command"], only["args"] = ["true"], []
                began = time.perf_counter()
                await self.kube.create(JOBS, NAMESPACE, job)
                await jobs.wait({f"alone-{n}"})
                bare.append(jobs.seen[f"alone-{n}"] - began)
        return {
            "task_create_to_completed": percentiles(tasks),
            "bare_job_create_to_complete": percentiles(bare),
        }

    async def cost(self, count: int, rounds: int = 3) -> Object:
        """API writes and CPU of the operator per plain task: of several rounds the median.

        A machine that is shared computes faster at one time than at another, and beside many pods
        slower than alone. So the same piece of Python runs beside each round, now and then, and
        its CPU time is said too: the ratio of both is what can be compared.
        """
        found = []
        for _ in range(rounds):
            found.append(await self._cost(count))
            await self.empty()
        cpu, reference = (
            [one[name] for one in found]
            for name in ("operator_cpu_ms_per_task", "reference_cpu_ms")
        )
        middle = sorted(found, key=lambda one: float(one["operator_cpu_ms_per_task"]))[rounds // 2]
        return middle | {
            "operator_cpu_ms_per_task_of_rounds": cpu,
            "reference_cpu_ms_of_rounds": reference,
        }

    async def _cost(self, count: int) -> Object:
        before = self.metrics()
        container = [{"name": "worker", "image": ECHO_IMAGE, "resources": SMALL}]
        names = {f"cost-{n}" for n in range(count)}
        async with (
            watching(self.kube, AGENT_TASKS, completed) as done,
            watching(self.kube, JOBS, finished) as jobs,
            reference_cpu() as reference,
        ):
            for name in sorted(names):
                await self.kube.create(AGENT_TASKS, NAMESPACE, task(name, containers=container))
            await done.wait(names)
            await jobs.wait({f"{name}-1" for name in names})
        after = self.metrics()
        wrote = writes(before, after, count)
        cpu = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
        return {
            "api_writes_per_task": round(sum(wrote.values()), 2),
            "writes": wrote,
            "operator_cpu_ms_per_task": round(cpu / count * 1000, 2),
            "reference_cpu_ms": round(statistics.mean(reference), 2),
        }

    async def at_rest(self, count: int, seconds: float) -> Object:
        """Memory with many finished tasks and CPU while nothing happens."""
        names = [f"rest-{n}" for n in range(count)]

        def creating(name: str) -> Callable[[], Awaitable[Any]]:
            body = task(name)
            body["spec"]["desiredState"] = "Cancelled"
            return lambda: self.kube.create(AGENT_TASKS, NAMESPACE, body)

        async with watching(
            self.kube, AGENT_TASKS, lambda found: bool(found.get("status", {}).get("phase"))
        ) as ended:
            await in_parallel([creating(name) for name in names])
            await ended.wait(set(names))
        await self.rest()
        before, began = self.metrics(), time.perf_counter()
        await asyncio.sleep(seconds)
        after, took = self.metrics(), time.perf_counter() - began
        cpu = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
        return {
            "finished_tasks": count,
            "rss_mb": round(after["process_resident_memory_bytes"] / 2**20, 1),
            "idle_cpu_percent": round(cpu / took * 100, 2),
        }

    async def rest(self) -> None:
        """Wait until the operator has nothing left to look at: no pass between two looks at it."""
        passes = -1.0
        while passes != (now := self.metrics()['orbiter_reconcile_seconds_count{result="ok"}']):
            passes = now
            await asyncio.sleep(2.0)

    def metrics(self) -> dict[str, float]:
        """The active operator's metrics."""
        for pod in self.world.cluster.list_all(
            "pods", SYSTEM, "app.kubernetes.io/component=operator"
        ):
            with self.world.forward(f"pod/{pod['metadata']['name']}", 9090) as port:
                url = f"http://127.0.0.1:{port}/metrics"
                with urllib.request.urlopen(url, timeout=10) as answer:
                    lines = answer.read().decode().splitlines()
            found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
            if float(found.get("orbiter_leader", 0)) == 1:
                return {key: float(value) for key, value in found.items()}
        raise RuntimeError("no operator says that it is the active one")


PEERS = {
    "burst.tasks.jobs_per_second": "Kelos 46-57",
    "burst.tasks.p50_ms": "Kelos 3000-5000",
    "burst.ratio_to_bare": "Kelos 0.08-0.11",
    "single.task_to_job.p50_ms": "Kelos 14-17",
    "node.task_create_to_completed.p50_ms": "Kelos 3000-3500",
    "node.bare_job_create_to_complete.p50_ms": "seen elsewhere 2700-2900",
    "cost.api_writes_per_task": "Kelos 11",
    "cost.operator_cpu_ms_per_task": "Kelos 19-23",
    "rest.rss_mb": "Kelos 101-120",
}
GOALS = {
    "burst.ratio_to_bare": Goal(">=", 0.5),
    "single.task_to_job.p50_ms": Goal("<", 20),
    "single.output_to_completed.p50_ms": Goal("<", 15),
    "node.task_create_to_completed.p50_ms": Goal("<", "node.bare_job_create_to_complete.p50_ms"),
    "cost.api_writes_per_task": Goal("<=", 5),
    "cost.operator_cpu_ms_per_task": Goal("<=", 10),
    "rest.rss_mb": Goal("<", 120),
    "rest.idle_cpu_percent": Goal("<", 1),
}


@asynccontextmanager
async def reference_cpu() -> AsyncIterator[list[float]]:
    """Measure the same small piece of work twice a second; the list has its CPU ms each time."""
    found: list[float] = []
    text = json.dumps(task("reference", containers=[{"name": "worker", "resources": SMALL}]))

    async def go_on() -> None:
        while True:
            began = time.process_time()
            for _ in range(REFERENCE_PASSES):
                json.dumps(json.loads(text), sort_keys=True)
            found.append((time.process_time() - began) * 1000)
            await asyncio.sleep(0.5)

    running = asyncio.create_task(go_on())
    try:
        yield found
    finally:
        running.cancel()


def flat(found: Object, prefix: str = "") -> dict[str, Any]:
    """One level of names, joined by dots."""
    rows: dict[str, Any] = {}
    for key, value in found.items():
        name = f"{prefix}{key}"
        rows |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return rows


async def measure(arguments: argparse.Namespace) -> Object:
    """Run everything once."""
    world = World(Cluster(STATE / "kubeconfig", STATE / "bin"))
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "claude-credentials", "namespace": NAMESPACE},
            "stringData": {"ANTHROPIC_API_KEY": "sk-not-a-key"},
        }
    )
    async with Kube(Credentials(load_connection)) as kube:
        bench = Bench(world, kube)
        result: Object = {}
        for name, step in (
            ("single", lambda: bench.single(arguments.single)),
            ("burst", lambda: bench.burst(arguments.burst)),
            ("node", lambda: bench.on_the_node(arguments.node)),
            ("cost", lambda: bench.cost(arguments.cost)),
            ("rest", lambda: bench.at_rest(arguments.finished, arguments.idle_seconds)),
        ):
            if arguments.only and name not in arguments.only:
                continue
            if name == "burst" and not bench.template:
                await bench.single(1)  # bare Jobs are like a task's
            await bench.empty()
            began = time.perf_counter()
            result[name] = await step()
            print(f"{name}: measured in {time.perf_counter() - began:.0f} s", flush=True)
            for line in told(flat(result[name], f"{name}."), GOALS, PEERS):
                print(f"  {line}", flush=True)
        await bench.empty()
        return result


def main() -> int:
    """Parse the arguments, measure, print the table and keep the JSON; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--single", type=int, default=30)
    parser.add_argument("--burst", type=int, default=300)
    parser.add_argument("--node", type=int, default=8)
    parser.add_argument("--cost", type=int, default=40)
    parser.add_argument("--finished", type=int, default=1000)
    parser.add_argument("--idle-seconds", type=float, default=30.0)
    parser.add_argument("--only", nargs="*", help="only these: single, burst, node, cost, rest")
    parser.add_argument("--out", type=Path, default=Path("bench/operator.json"))
    arguments = parser.parse_args()
    result = asyncio.run(measure(arguments))
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    wanted = {
        name: goal
        for name, goal in GOALS.items()
        if not arguments.only or name.split(".")[0] in arguments.only
    }
    return exit_code(flat(result), wanted)


if __name__ == "__main__":
    sys.exit(main())
