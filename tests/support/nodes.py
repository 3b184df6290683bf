"""The nodes of the local cluster, for tests that drain, cordon or lose one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.world import World

FIRST, SECOND = "local", "local-2"
MACHINE = "node2"
"""What the cluster's tool calls all of the second node."""
_TOOL = Path(__file__).resolve().parents[2] / "cluster" / "cluster.py"
_DRAIN = ("--delete-emptydir-data", "--force", "--ignore-daemonsets", "--timeout=100s")
# It keeps its counts in memory, and the tests want them.
_NOT_THE_MODEL = "app.kubernetes.io/name!=model-server"


def tool(*arguments: str, **environment: str) -> None:
    """Call cluster.py as people do."""
    words = [sys.executable, str(_TOOL), *arguments]
    subprocess.run(words, check=True, env={**os.environ, **environment})


class Nodes:
    """Two nodes, the control plane on the first."""

    def __init__(self, world: World) -> None:
        self._world = world

    def cordon(self, name: str) -> None:
        """Let no new pod onto a node."""
        self._world.kubectl("cordon", name)

    def uncordon(self, *names: str) -> None:
        """Let pods onto nodes again."""
        self._world.kubectl("uncordon", *names)

    def drain(self, name: str, selector: str = _NOT_THE_MODEL) -> None:
        """Evict what is on a node, and wait until it has gone."""
        self._world.kubectl("drain", name, f"--pod-selector={selector}", *_DRAIN)

    def lose(self) -> None:
        """The second node loses its power: every process is gone at once."""
        tool("kill", MACHINE)

    def bring_back(self) -> None:
        """The second node has power again; returns when it is ready."""
        tool("start", MACHINE)

    @contextmanager
    def only(self, name: str) -> Iterator[None]:
        """New pods go to this node alone until the block ends."""
        other = FIRST if name == SECOND else SECOND
        self.cordon(other)
        try:
            yield
        finally:
            self.uncordon(other)


def node_names(world: World) -> list[str]:
    """The names of all nodes."""
    found = json.loads(world.kubectl("get", "nodes", "-o", "json"))["items"]
    return [item["metadata"]["name"] for item in found]


@contextmanager
def two_nodes(world: World) -> Iterator[Nodes]:
    """A second node, taken away again unless it was there before; what is there is on the first."""
    before = len(node_names(world))
    nodes = Nodes(world)
    if before == 1:
        tool("up", NODES="2")
    else:
        nodes.drain(SECOND, "")
        nodes.uncordon(SECOND)
    try:
        yield nodes
    finally:
        nodes.uncordon(FIRST)
        if before == 1:
            nodes.drain(SECOND)
            tool("up", NODES="1")
        else:
            nodes.bring_back()
            nodes.uncordon(SECOND)
