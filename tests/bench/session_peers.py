"""What the bench of sessions is made of: sessions that cost the node nothing, and a watch."""

import asyncio
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from bench_operator import NAMESPACE, Bench
from goals import Goal

from orbiter_operator.kube.client import TRANSPORT_ERRORS, Kube
from orbiter_operator.kube.resources import DEPLOYMENTS

Object = dict[str, Any]
LONG = 600
"""Seconds after which a woken session would sleep again: later than the bench ends."""


def session(name: str, user: int, idle: int = LONG, **template: Any) -> Object:
    """A POSession of the bench; `template` overlays its pod's spec."""
    agent = {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}}
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "POSession",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "userId": user,
            "agent": agent,
            "idle": {"scaleToZeroAfterSeconds": idle},
            "podTemplate": {"spec": template},
        },
    }


def worker_id(name: str) -> str:
    """The worker id of a session of the bench."""
    return f"{NAMESPACE}.{name}"


def at_rest(operator: Bench, seconds: float) -> Object:
    """The operator's CPU and memory while all sleep."""
    before, began = operator.metrics(), time.perf_counter()
    time.sleep(seconds)
    after, took = operator.metrics(), time.perf_counter() - began
    cpu = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
    return {
        "cpu_percent": round(cpu / took * 100, 2),
        "rss_mb": round(after["process_resident_memory_bytes"] / 2**20, 1),
    }


class Scaled:
    """When the watch first showed each Deployment with a pod, and how many it asks for.

    By name, or over all namespaces (`namespace=None`) by `NAMESPACE/NAME`.
    """

    def __init__(self, kube: Kube, namespace: str | None = NAMESPACE) -> None:
        self._kube = kube
        self._namespace = namespace
        self._changed = asyncio.Event()
        self.at: dict[str, float] = {}
        self.replicas: dict[str, int] = {}

    async def follow(self) -> None:
        """Watch for ever."""
        while True:
            items, since = await self._kube.list(DEPLOYMENTS, self._namespace)
            for item in items:
                self._note(item)
            try:
                async for event in self._kube.watch(DEPLOYMENTS, self._namespace, since=since):
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._note(event["object"])
            except TRANSPORT_ERRORS as error:
                print(f"the watch is begun again: {error!r}", file=sys.stderr)

    async def until(self, condition: Callable[[], bool], seconds: float = 600.0) -> None:
        """Wait until a condition holds, asked at every event."""
        async with asyncio.timeout(seconds):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def _note(self, obj: Object) -> None:
        name, replicas = obj["metadata"]["name"], obj["spec"]["replicas"]
        if self._namespace is None:
            name = f"{obj['metadata']['namespace']}/{name}"
        if replicas and not self.replicas.get(name):
            self.at[name] = time.perf_counter()
        self.replicas[name] = replicas
        self._changed.set()


def seconds(text: str) -> float:
    """A time of a worker's state, as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


PEERS = {
    "alone.wake.p50_ms": "without an API server's share",
    "wake.p50_ms": "KEDA 10000-14000 at its default",
    "at_once.all_scaled_ms": "for 80; KEDA 4600",
    "asleep.cpu_percent": "with 1000 asleep; KEDA 7-10 with 100, polling every second",
}
GOALS = {
    "wake.p50_ms": Goal("<", 30),
    "wake.p99_ms": Goal("<", 250),
    "at_once.all_scaled_ms": Goal("<", 1000),
    "asleep.cpu_percent": Goal("<", 2),
    "asleep.rss_mb": Goal("<", 200),
    "node.own_share_ms": Goal("<", 300),
}


def secret() -> Object:
    """What the worker's agent would be given; the bench's agent needs none."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "claude-credentials", "namespace": NAMESPACE},
        "stringData": {"ANTHROPIC_API_KEY": "sk-not-a-key"},
    }
