"""Measures the operator with a hundred tenants, on the running cluster: `make bench-tenants`.

Namespaces become tenants by a label, each with sessions that sleep, so Redis has a user for each of
both. Pods carry a scheduling gate, so that a woken session costs the node nothing. When
Redis has its users again is asked beside it, in its own container, from the time at which its
process began. Everything is a figure of one run on one machine; only ratios travel. A missed
goal makes the exit code 1.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_operator import GATE, Bench, flat, in_parallel, percentiles
from goals import Goal, exit_code, told
from session_peers import Scaled, at_rest, session
from support.cluster import STATE, Cluster, CommandError
from support.world import SYSTEM, World

from orbiter_contracts import POWorkerInput, encode
from orbiter_contracts.queues import Keys
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.connection import Credentials, load_connection
from orbiter_operator.kube.resources import DEPLOYMENTS, NAMESPACES, PO_SESSIONS, SECRETS

Object = dict[str, Any]
Session = tuple[str, str]
"""Namespace and name."""
LABEL = "orbiter.dev/bench"
BACK = """
count() { redis-cli --no-auth-warning --user operator ACL USERS 2> /dev/null | grep -c .; }
first=$(count)
until [ "$(count)" -ge USERS_BEFORE ]; do sleep 0.02; done
now=$(cut -d ' ' -f 1 /proc/uptime)
began=$(cut -d ' ' -f 22 /proc/1/stat)
echo "$first $(awk "BEGIN {print $now - $began / 100}")"
"""
"""How many users Redis has, and how many seconds after its process began it has all of them."""
MADE = frozenset({"orbiter-developer", "orbiter-chat", "orbiter-producer", "orbiter-transcript"})
PATIENCE = 1200.0
PEERS = {
    "asleep.rss_mb": "limit 512",
    "wake.p50_ms": "on a quiet machine",
    "wake_own_share.mean_ms": "message → patch answered, as the operator says",
}
GOALS = {
    "asleep.rss_mb": Goal("<", 200),
    "asleep.cpu_percent": Goal("<", 2),
    "wake.p50_ms": Goal("<", 30),
    "restart.users_back_s": Goal("<", 5),
    "restart.messages_lost": Goal("<=", 0),
}


class TenantsBench:
    """The measurements on one cluster full of tenants."""

    def __init__(self, world: World, kube: Kube) -> None:
        self.operator = Bench(world, kube)
        self.world = world
        self.kube = kube
        self.scaled = Scaled(kube, None)
        self.sent: dict[Session, int] = {}

    async def admit(self, count: int) -> tuple[list[str], float]:
        """Label so many namespaces; returns them, and after how many seconds all were ready."""
        names = [f"bench-tenant-{n:03d}" for n in range(count)]
        began = time.perf_counter()

        def creating(name: str) -> Callable[[], Any]:
            labels = {LABEL: "yes", "pod-security.kubernetes.io/enforce": "restricted"}
            body = {"apiVersion": "v1", "kind": "Namespace"}
            return lambda: self.kube.create(
                NAMESPACES, "", body | {"metadata": {"name": name, "labels": labels}}
            )

        await in_parallel([creating(name) for name in names])
        wanted = {(name, secret) for name in names for secret in MADE}
        async with asyncio.timeout(PATIENCE):
            while True:
                found, _ = await self.kube.list(SECRETS)
                made = {(s["metadata"]["namespace"], s["metadata"]["name"]) for s in found}
                if wanted <= made:
                    return names, time.perf_counter() - began
                await asyncio.sleep(0.2)

    async def fill(self, namespaces: list[str], each: int) -> tuple[list[Session], float]:
        """Have so many sessions asleep in each; returns them, and how long it took."""
        began = time.perf_counter()
        sessions = [(place, f"sleeper-{n}") for n in range(each) for place in namespaces]

        def creating(number: int, place: str, name: str) -> Callable[[], Any]:
            body = session(name, 10_000 + number, **GATE)
            body["metadata"]["namespace"] = place
            return lambda: self.kube.create(PO_SESSIONS, place, body)

        await in_parallel([creating(n, *where) for n, where in enumerate(sessions)])
        wanted = {f"{place}/{name}" for place, name in sessions}
        await self.scaled.until(lambda: wanted <= self.scaled.replicas.keys(), PATIENCE)
        return sessions, time.perf_counter() - began

    async def wake(self, redis: Any, sessions: list[Session]) -> Object:
        """Message sent → Deployment scaled, each session alone, and the operator's share of it."""
        before = await asyncio.to_thread(self.operator.metrics)
        waits = []
        for place, name in sessions:
            began = time.perf_counter()
            await asyncio.to_thread(self.send, redis, [(place, name)])
            await self.scaled.until(lambda key=f"{place}/{name}": key in self.scaled.at)
            waits.append(self.scaled.at[f"{place}/{name}"] - began)
            await asyncio.sleep(0.02)
        after = await asyncio.to_thread(self.operator.metrics)
        mean = sum(_mean(before, after, stage) for stage in ("seen", "scaled")) * 1000
        return {"wake": percentiles(waits), "wake_own_share": {"mean_ms": round(mean, 1)}}

    async def bare(self, sessions: list[Session]) -> Object:
        """A bare patch of a Deployment's replicas → the watch shows it: the API server's share."""
        waits = []
        for place, name in sessions:
            began = time.perf_counter()
            await self.kube.patch(DEPLOYMENTS, place, name, {"spec": {"replicas": 1}})
            await self.scaled.until(lambda key=f"{place}/{name}": key in self.scaled.at)
            waits.append(self.scaled.at[f"{place}/{name}"] - began)
        return percentiles(waits)

    def send(self, redis: Any, sessions: list[Session]) -> None:
        """A message to each, as a front end sends one."""
        with redis.pipeline(transaction=False) as pipe:
            for place, name in sessions:
                message = POWorkerInput(user_id=1, prompt="hello")
                pipe.xadd(_input(place, name), encode(message))
                self.sent[place, name] = self.sent.get((place, name), 0) + 1
            pipe.execute()

    async def restart(self, sessions: list[Session], crowd: list[Session]) -> Object:
        """Redis ends in the moment a crowd was messaged, and comes back without its users.

        Args:
            sessions: All of them.
            crowd: Those that are messaged, asleep until then.
        """
        with self.world.redis() as redis:
            users = len(redis.execute_command("ACL", "USERS"))
            self.send(redis, crowd)
        runs = self._restarts()
        began = time.perf_counter()
        ends = ("exec", "orbiter-redis-0", "--", "sh", "-c", "kill 1")
        with suppress(CommandError):  # the shell may end before it has said how it went
            await asyncio.to_thread(self.world.kubectl, "-n", SYSTEM, *ends)
        await asyncio.to_thread(
            self.world.until, "Redis is restarted", lambda: self._restarts() > runs, PATIENCE
        )
        told = await asyncio.to_thread(self._inside, BACK.replace("USERS_BEFORE", str(users)))
        at_first, back = told.split()
        await self.scaled.until(
            lambda: all(f"{place}/{name}" in self.scaled.at for place, name in crowd), PATIENCE
        )
        woken = time.perf_counter() - began
        with self.world.redis() as redis, redis.pipeline(transaction=False) as pipe:
            for place, name in sessions:
                pipe.xlen(_input(place, name))
            there = sum(pipe.execute())
        return {
            "users": users,
            "users_at_the_first_look": int(at_first),
            "users_back_s": round(float(back), 2),
            "crowd": len(crowd),
            "crowd_woken_s": round(woken, 2),
            "messages": sum(self.sent.values()),
            "messages_lost": sum(self.sent.values()) - there,
        }

    def _inside(self, script: str) -> str:
        """Run a script beside Redis; a container that has just begun takes none yet."""

        def tried() -> str:
            words = ("exec", "orbiter-redis-0", "--", "sh", "-c", f"{script.strip()}; echo ran")
            try:
                return self.world.kubectl("-n", SYSTEM, *words)
            except CommandError:
                return ""

        return self.world.until("a shell beside Redis", tried, PATIENCE).removesuffix("ran\n")

    def _restarts(self) -> int:
        pod = self.world.cluster.get("pod", "orbiter-redis-0", SYSTEM)
        return int(pod["status"]["containerStatuses"][0]["restartCount"])


def _input(place: str, name: str) -> str:
    return Keys.of_namespace(place).po_input(f"{place}.{name}")


def _mean(before: dict[str, float], after: dict[str, float], stage: str) -> float:
    total, count = (
        f'orbiter_session_wake_seconds_{part}{{stage="{stage}"}}' for part in ("sum", "count")
    )
    number = after.get(count, 0.0) - before.get(count, 0.0)
    return (after.get(total, 0.0) - before.get(total, 0.0)) / max(number, 1.0)


async def measure(arguments: argparse.Namespace) -> Object:
    """Run everything once."""
    world = World(Cluster(STATE / "kubeconfig", STATE / "bin"))
    async with Kube(Credentials(load_connection)) as kube:
        bench = TenantsBench(world, kube)
        follower = asyncio.create_task(bench.scaled.follow())
        try:
            names, admitted = await bench.admit(arguments.namespaces)
            sessions, filled = await bench.fill(names, arguments.sessions // len(names))
            print(f"{len(sessions)} asleep after {filled:.1f} s", file=sys.stderr)
            await asyncio.sleep(arguments.settle)
            found: Object = {
                "namespaces": len(names),
                "sessions": len(sessions),
                "admitted_s": round(admitted, 1),
                "filled_s": round(filled, 1),
                "asleep": await asyncio.to_thread(at_rest, bench.operator, arguments.rest),
            }
            some = iter(sessions)
            with world.redis() as redis:
                found |= await bench.wake(redis, [next(some) for _ in range(arguments.single)])
            found["bare"] = await bench.bare([next(some) for _ in range(arguments.single)])
            crowd = [next(some) for _ in range(arguments.many)]
            found["restart"] = await bench.restart(sessions, crowd)
            after = await asyncio.to_thread(bench.operator.metrics)
            found["rss_at_the_end_mb"] = round(after["process_resident_memory_bytes"] / 2**20, 1)
            found["load"] = round(os.getloadavg()[0], 1)
        finally:
            follower.cancel()
            await asyncio.gather(follower, return_exceptions=True)
            words = ("delete", "namespaces", "-l", f"{LABEL}=yes", "--wait=false")
            await asyncio.to_thread(world.kubectl, *words)
    return found


def main() -> int:
    """Measure and write the figures down; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namespaces", type=int, default=100)
    parser.add_argument("--sessions", type=int, default=1000, help="in all of them together")
    parser.add_argument("--single", type=int, default=100)
    parser.add_argument("--many", type=int, default=80)
    parser.add_argument("--settle", type=float, default=20.0)
    parser.add_argument("--rest", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("bench/tenants.json"))
    arguments = parser.parse_args()
    found = asyncio.run(measure(arguments))
    rows = flat(found)
    print("\n".join(told(rows, GOALS, PEERS)))
    arguments.out.write_text(json.dumps(found, indent=2) + "\n")
    return exit_code(rows, GOALS)


if __name__ == "__main__":
    sys.exit(main())
