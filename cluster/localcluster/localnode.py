"""One node of the local cluster: its namespaces, its cgroups and the components in them."""

import shutil
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from localcluster import config, host, namespaces, pki
from localcluster import node as facts
from localcluster.cgroups import CgroupTree, parse_mounts
from localcluster.components import Component, components
from localcluster.errors import ClusterError
from localcluster.health import is_ready
from localcluster.kube import Kube
from localcluster.layout import Layout
from localcluster.node import Node
from localcluster.shell import run, succeeds
from localcluster.supervise import HOLDER, Supervisor

NOT_RUNNING = "is not running; start it with `make cluster-up`"
READY_SECONDS = 90.0


class LocalNode:
    """A node made of processes on this machine."""

    def __init__(self, layout: Layout, node: Node) -> None:
        self.node = node
        self._layout = layout
        self._tree = CgroupTree(node.cgroup, parse_mounts(Path("/proc/self/mountinfo").read_text()))
        self._supervisor = Supervisor(layout, self._tree)

    @cached_property
    def components(self) -> dict[str, Component]:
        """What runs on it, by its names there."""
        containerd = shutil.which("containerd") or "/usr/bin/containerd"
        programs = self._layout.build / "programs"
        return {one.name: one for one in components(self.node, programs, containerd)}

    def write_config(self) -> None:
        """Make its keys and its configuration files what they should be."""
        pki.ensure(self.node)
        for name, content in config.render(self.node).items():
            path = self._layout.config / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text() != content:
                path.write_text(content)

    def inside(self) -> int | None:
        """A living process in its furnished namespaces; None when there are none."""
        furnished = (self._layout.started / HOLDER).exists()
        return self._supervisor.inside(self.components) if furnished else None

    def entrance(self) -> int:
        """The same, of a node that must run.

        Raises:
            ClusterError: it does not.
        """
        inside = self.inside()
        if inside is None:
            where = "the local cluster" if self.node.is_first else self.node.prefix.strip("/")
            raise ClusterError(f"{where} {NOT_RUNNING}")
        return inside

    def furnish(self) -> None:
        """Give it fresh namespaces; whatever is left in its old ones is killed."""
        self.lose()
        self._tree.remove()  # the kubelet would search dead pods' cgroups for their containers
        shutil.rmtree(self._layout.started, ignore_errors=True)
        for path in facts.RUNTIME_DIRECTORIES:
            shutil.rmtree(self._layout.node_path(path), ignore_errors=True)
        self._tree.create()
        host.register(self._layout)
        holder = self._supervisor.hold_namespaces()
        namespaces.set_up(self.node, self._layout, holder)
        self._layout.started.mkdir(parents=True)
        (self._layout.started / HOLDER).touch()

    def lose(self) -> None:
        """Kill every process of it, containers included, as if its machine had lost its power."""
        self._tree.kill_everyone()

    def remove(self) -> None:
        """Kill it and remove what it left on this machine."""
        self.lose()
        self._tree.remove()
        host.remove_link(self.node)
        if self._layout.home.exists():
            shutil.rmtree(self._layout.home)

    def outdated(self) -> list[Component]:
        """The components that do not run as they should."""
        return [one for one in self.components.values() if not self._supervisor.is_current(one)]

    def pids(self, name: str) -> list[int]:
        """Living processes of a component."""
        return self._supervisor.pids(name)

    def kill(self, name: str) -> None:
        """SIGKILL a component."""
        self._supervisor.kill(name)

    def start(self, wanted: Iterable[Component]) -> None:
        """Start components anew and wait until they are ready."""
        wanted, inside = tuple(wanted), self.entrance()
        for component in wanted:
            self._supervisor.start(component, inside)
        for component in wanted:
            self.await_ready(component.name)

    def await_ready(self, name: str) -> None:
        """Wait until a component answers.

        Raises:
            ClusterError: it died, or does not in time.
        """
        self._supervisor.await_ready(name, lambda: self._is_ready(name), READY_SECONDS)

    def log_end(self, name: str) -> str:
        """The last lines that a component wrote."""
        return self._supervisor.log_end(name)

    def is_ready(self) -> bool:
        """Whether Kubernetes calls the node ready."""
        found = Kube(self.node).get(f"/api/v1/nodes/{self.node.name}")
        conditions = found["status"].get("conditions", []) if found else []
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def images(self) -> dict[str, str]:
        """The images it has by name, with their digests."""
        lines = run([*self._ctr(), "images", "ls"]).splitlines()[1:]
        listed = (line.split() for line in lines)
        return {words[0]: words[2] for words in listed if not words[0].startswith("sha256:")}

    def has_image(self, name: str) -> bool:
        """Whether it has an image under exactly this name."""
        return name in run([*self._ctr(), "images", "ls", "-q", f"name=={name}"]).split()

    def load_image(self, archive: Path) -> None:
        """Import an OCI archive."""
        run([*self._ctr(), "images", "import", str(archive.resolve())])

    def save_images(self, archive: Path, names: Iterable[str]) -> None:
        """Export images to an OCI archive."""
        run([*self._ctr(), "images", "export", str(archive.resolve()), *names])

    def _is_ready(self, name: str) -> bool:
        if name == "containerd":
            return succeeds([*self._ctr(), "version"])
        return is_ready(name, self.node)

    def _ctr(self) -> list[str]:
        address = ["--address", facts.CONTAINERD_SOCKET]
        return [*namespaces.enter(self.entrance()), "ctr", *address, "--namespace", "k8s.io"]
