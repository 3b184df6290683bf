"""What a cluster takes away: random faults, one after the other, from a seed."""

import json
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from subprocess import CalledProcessError, TimeoutExpired

from support.cluster import CommandError, Object
from support.nodes import FIRST, SECOND, Nodes, tool
from support.world import NAMESPACE, SYSTEM, World

NOW = ("--grace-period=0", "--force", "--wait=false")
NO_ANSWER = (CommandError, CalledProcessError, TimeoutExpired)
"""What becomes of a command while the API server is away."""
_OPERATOR = "app.kubernetes.io/component=operator"
_WORKERS = "app.kubernetes.io/managed-by=orbiter"
_AWAY_SECONDS = 75.0
"""A lost node stays away until its pods have been given up: 20 s and 30 s, and some more."""


class Faults:
    """Makes faults and counts them by kind.

    Args:
        world: The cluster.
        nodes: Its two nodes.
        seed: What all choices follow from.
        node_loss: Whether the second node may be lost, too.
        away: Waits for so many seconds, or until the faults shall end.
    """

    def __init__(
        self,
        world: World,
        nodes: Nodes,
        seed: int,
        *,
        node_loss: bool,
        away: Callable[[float], object],
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.failed: list[str] = []
        self._world = world
        self._nodes = nodes
        self._chance = random.Random(seed)
        self._away = away
        self._threads = ThreadPoolExecutor(1)
        self._long: Future[None] | None = None
        self._short: dict[str, Callable[[Object | None], None]] = {
            "pod killed": self._kill_pod,
            "pod evicted": self._evict_pod,
            "operators killed": lambda _: self._delete(SYSTEM, "-l", _OPERATOR),
            "Redis restarted": lambda _: self._restart_redis(),
        }
        self._slow: dict[str, Callable[[str], None]] = {
            "node drained": self._drain,
            "kubelet restarted": self._restart_kubelet,
            "API server restarted": lambda _: tool("restart", "apiserver"),
        }
        if node_loss:
            self._slow["node lost"] = lambda _: self._lose()
        # Pods go most often, Redis and nodes seldom: each fault shall find work to stop.
        self._weights = {"pod killed": 5, "pod evicted": 4, "operators killed": 2}

    def one(self) -> str:
        """Make a fault of a random kind; returns which."""
        kinds = [*self._short, *self._slow]
        (kind,) = self._chance.choices(kinds, [self._weights.get(name, 1) for name in kinds])
        node = self._chance.choice((FIRST, SECOND))
        lot = self._chance.random()
        if kind in self._slow:
            slow = partial(self._slow[kind], node)
            if self._long is None or self._long.done():
                self._long = self._threads.submit(self._guarded, kind, slow)
                return kind
            kind = "pod killed"  # one of these at a time
        self._guarded(kind, partial(self._short[kind], self._pod(lot)))
        return kind

    def end(self) -> None:
        """Wait for the last one, and make the cluster whole."""
        self._threads.shutdown(wait=True)
        for name in ("apiserver", "kubelet", "node2"):
            tool("start", name)
        self._nodes.uncordon(FIRST, SECOND)

    def _guarded(self, kind: str, fault: Callable[[], None]) -> None:
        try:
            fault()
        except NO_ANSWER as error:
            # The API server is away, or the pod has ended: then it was no fault.
            self.failed.append(f"{kind}: {str(error)[:200]}")
        else:
            self.counts[kind] += 1

    def _pod(self, lot: float) -> Object | None:
        """A worker's pod that runs and may stay."""
        with suppress(*NO_ANSWER):
            pods = self._world.cluster.list_all("pods", NAMESPACE, _WORKERS)
            there = [
                pod
                for pod in pods
                if pod["status"]["phase"] == "Running"
                and "deletionTimestamp" not in pod["metadata"]
            ]
            if there:
                return sorted(there, key=_name)[int(lot * len(there))]
        return None

    def _kill_pod(self, pod: Object | None) -> None:
        self._delete(NAMESPACE, _name(pod))

    def _evict_pod(self, pod: Object | None) -> None:
        name = _name(pod)
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": NAMESPACE},
        }
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction"
        self._world.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    def _restart_redis(self) -> None:
        # Not by force: then its successor would begin on its volume while it still writes there.
        pod = ("pod", "orbiter-redis-0", "--now", "--wait=false")
        self._world.kubectl("-n", SYSTEM, "delete", *pod)

    def _delete(self, namespace: str, *which: str) -> None:
        self._world.kubectl("-n", namespace, "delete", "pods", *which, *NOW)

    def _drain(self, node: str) -> None:
        try:
            self._nodes.drain(node)
        finally:
            self._nodes.uncordon(node)

    def _restart_kubelet(self, node: str) -> None:
        tool("restart", "kubelet" if node == FIRST else "node2/kubelet")

    def _lose(self) -> None:
        self._nodes.lose()
        self._away(_AWAY_SECONDS)
        self._nodes.bring_back()


def _name(pod: Object | None) -> str:
    if pod is None:
        raise CommandError("no worker's pod runs")
    return str(pod["metadata"]["name"])
