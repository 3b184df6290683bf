"""Measures how sessions wake, on the running cluster: `make bench-sessions`.

A thousand sessions sleep; their pods carry a scheduling gate, so that a woken one costs the node
nothing. Times are those of this process: the message is sent, the watch shows the Deployment
scaled. Everything is a figure of one run on one machine; only ratios travel. A missed
goal makes the exit code 1.
"""

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import sessions_alone
from bench_operator import GATE, KEYS, NAMESPACE, SMALL, Bench, flat, in_parallel, percentiles
from goals import exit_code, told
from session_peers import GOALS, PEERS, Scaled, at_rest, seconds, secret, session, worker_id
from support.cluster import STATE, Cluster
from support.world import ECHO_IMAGE, World

from orbiter_contracts import POWorkerInput, encode
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.connection import Credentials, load_connection
from orbiter_operator.kube.resources import DEPLOYMENTS, PO_SESSIONS

Object = dict[str, Any]


class SessionBench:
    """The measurements on one namespace full of sleepers."""

    def __init__(self, world: World, kube: Kube, redis: Any) -> None:
        self.operator = Bench(world, kube)
        self.kube = kube
        self.redis = redis
        self.scaled = Scaled(kube)

    async def fill(self, count: int) -> list[str]:
        """Have so many sessions asleep; returns their names."""
        names = [f"sleeper-{n:04d}" for n in range(count)]
        began = time.perf_counter()

        def creating(number: int, name: str) -> Callable[[], Any]:
            body = session(name, 10_000 + number, **GATE)
            return lambda: self.kube.create(PO_SESSIONS, NAMESPACE, body)

        await in_parallel([creating(n, name) for n, name in enumerate(names)])
        await self.scaled.until(lambda: len(self.scaled.replicas) >= count)
        print(f"{count} sessions asleep after {time.perf_counter() - began:.1f} s", file=sys.stderr)
        return names

    async def send(self, name: str) -> float:
        """Send a message as a front end does; returns when."""
        began = time.perf_counter()
        message = POWorkerInput(user_id=1, prompt="hello")
        await asyncio.to_thread(self.redis.xadd, KEYS.po_input(worker_id(name)), encode(message))
        return began

    async def one_by_one(self, names: list[str]) -> Object:
        """Message sent → Deployment scaled, each session alone."""
        waits = []
        for name in names:
            began = await self.send(name)
            await self.scaled.until(lambda name=name: name in self.scaled.at)
            waits.append(self.scaled.at[name] - began)
            await asyncio.sleep(0.02)
        return percentiles(waits)

    async def bare(self, names: list[str]) -> Object:
        """A bare patch of a Deployment's replicas → the watch shows it: the API server's share."""
        waits = []
        for name in names:
            began = time.perf_counter()
            await self.kube.patch(DEPLOYMENTS, NAMESPACE, name, {"spec": {"replicas": 1}})
            await self.scaled.until(lambda name=name: name in self.scaled.at)
            waits.append(self.scaled.at[name] - began)
        return percentiles(waits)

    async def bare_at_once(self, names: list[str]) -> Object:
        """As many bare patches at once as the operator has workers."""
        began = time.perf_counter()

        def patching(name: str) -> Callable[[], Any]:
            body = {"spec": {"replicas": 1}}
            return lambda: self.kube.patch(DEPLOYMENTS, NAMESPACE, name, body)

        await in_parallel([patching(name) for name in names])
        await self.scaled.until(lambda: all(name in self.scaled.at for name in names))
        waits = [self.scaled.at[name] - began for name in names]
        return {"all_scaled_ms": round(max(waits) * 1000, 1), **percentiles(waits)}

    async def at_once(self, names: list[str]) -> Object:
        """Messages to many sessions in one go → the last Deployment is scaled."""
        began = time.perf_counter()

        def send_all() -> None:
            with self.redis.pipeline(transaction=False) as pipe:
                for name in names:
                    message = POWorkerInput(user_id=1, prompt="hello")
                    pipe.xadd(KEYS.po_input(worker_id(name)), encode(message))
                pipe.execute()

        await asyncio.to_thread(send_all)
        await self.scaled.until(lambda: all(name in self.scaled.at for name in names))
        waits = [self.scaled.at[name] - began for name in names]
        return {"all_scaled_ms": round(max(waits) * 1000, 1), **percentiles(waits)}

    async def on_the_node(self, count: int) -> Object:
        """Message → first output of a sleeping session on the real node, stage by stage."""
        name = "awake"
        container = [{"name": "worker", "image": ECHO_IMAGE, "resources": SMALL}]
        await self.kube.create(PO_SESSIONS, NAMESPACE, session(name, 1, 1, containers=container))
        await self.scaled.until(lambda: self.scaled.replicas.get(name) == 0)
        before = await asyncio.to_thread(self.operator.metrics)
        totals, ours = [], []
        for number in range(count):
            sent = time.time()
            await self.send(name)
            await asyncio.to_thread(self._answered, name, number + 1)
            state = await asyncio.to_thread(self.redis.hgetall, KEYS.po_state(worker_id(name)))
            first, ready = (seconds(state[key]) for key in ("first_output_at", "ready_at"))
            totals.append(first - sent)
            ours.append(ready - seconds(state["started_at"]))
            await self.scaled.until(lambda: self.scaled.replicas[name] == 0)
            await asyncio.to_thread(self._pod_is_gone, name)
        after = await asyncio.to_thread(self.operator.metrics)
        stages = {}
        for stage in ("seen", "scaled", "scheduled", "started", "ready", "first_output"):
            label = f'{{stage="{stage}"}}'
            sums, counts = (
                f"orbiter_session_wake_seconds_{part}{label}" for part in ("sum", "count")
            )
            number = after[counts] - before.get(counts, 0)
            spent = (after[sums] - before.get(sums, 0)) / max(number, 1)
            stages[f"{stage}_ms"] = round(spent * 1000, 1)
        worker = statistics.median(ours) * 1000
        return {
            "message_to_first_output": percentiles(totals),
            "mean_of_stages": stages,
            "worker_started_to_ready_ms": round(worker, 1),
            "own_share_ms": round(stages["seen_ms"] + stages["scaled_ms"] + worker, 1),
        }

    def _answered(self, name: str, count: int) -> None:
        deadline = time.monotonic() + 120
        while self.redis.xlen(KEYS.po_output(worker_id(name))) < count:
            assert time.monotonic() < deadline, f"{name} has not answered"
            time.sleep(0.005)

    def _pod_is_gone(self, name: str) -> None:
        selector = f"orbiter.dev/posession={name}"
        world = self.operator.world
        world.until("no pod", lambda: not world.cluster.list_all("pods", NAMESPACE, selector))


async def measure(arguments: argparse.Namespace) -> Object:
    """Run everything once."""
    world = World(Cluster(STATE / "kubeconfig", STATE / "bin"))
    world.apply(secret())
    alone = await sessions_alone.measure(arguments.sessions, arguments.single, arguments.many)
    async with Kube(Credentials(load_connection)) as kube:
        with world.redis() as redis:
            bench = SessionBench(world, kube, redis)
            await _empty(world, kube)
            follower = asyncio.create_task(bench.scaled.follow())
            try:
                found: Object = {"alone": alone, "node": await bench.on_the_node(arguments.node)}
                names = await bench.fill(arguments.sessions)
                await asyncio.sleep(arguments.settle)
                found["asleep"] = {
                    "sessions": len(names),
                    **await asyncio.to_thread(at_rest, bench.operator, arguments.rest),
                }
                some = iter(names)
                single = list(itertools.islice(some, arguments.single))
                found["wake"] = await bench.one_by_one(single)
                many = list(itertools.islice(some, arguments.many))
                found["at_once"] = {"sessions": len(many), **await bench.at_once(many)}
                # The same without the operator, from Deployments nobody has a message for.
                found["bare"] = await bench.bare(list(itertools.islice(some, arguments.single)))
                others = list(itertools.islice(some, arguments.many))
                found["bare_at_once"] = await bench.bare_at_once(others)
                found["load"] = round(os.getloadavg()[0], 1)
            finally:
                follower.cancel()
                await asyncio.gather(follower, return_exceptions=True)
                await _empty(world, kube)
    return found


async def _empty(world: World, kube: Kube) -> None:
    for resource in (PO_SESSIONS, DEPLOYMENTS):
        path = f"{resource.path(NAMESPACE)}?propagationPolicy=Background"
        await asyncio.to_thread(world.kubectl, "delete", "--raw", path)
    async with asyncio.timeout(600):
        while (await kube.list(DEPLOYMENTS, NAMESPACE))[0]:
            await asyncio.sleep(0.5)


def main() -> int:
    """Measure and write the figures down; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--single", type=int, default=100)
    parser.add_argument("--many", type=int, default=80)
    parser.add_argument("--node", type=int, default=5)
    parser.add_argument("--settle", type=float, default=20.0)
    parser.add_argument("--rest", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("bench/sessions.json"))
    arguments = parser.parse_args()
    found = asyncio.run(measure(arguments))
    rows = flat(found)
    print("\n".join(told(rows, GOALS, PEERS)))
    arguments.out.write_text(json.dumps(found, indent=2) + "\n")
    return exit_code(rows, GOALS)


if __name__ == "__main__":
    sys.exit(main())
