"""The kernel's own record of which processes belong to the cluster.

Every component joins its own cgroup before it becomes the component, and whatever it starts stays
below the cluster's root: containers too. So a crash of this tool at any moment loses nothing, no
pid file can go stale, and nothing is ever found by its name.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import ClusterError
from localcluster.shell import wait_for

SHIMS = "shims"
_WEIGHT = 4
"""Of the CPU, in times that of one process or cgroup beside the cluster: it is dozens of processes,
and the kernel counts it as one. With the weight of one it had two fifths of two processors beside
tests at `nice 10`, and the tests on it took twice as long."""
_CPU = {"cpu.shares": 1024, "cpu.weight": 100}
"""Of a cgroup that nobody has given another weight: of v1, of v2."""


@dataclass(frozen=True)
class Hierarchies:
    """Mount points.

    Attributes:
        tracking: the hierarchy used to find processes.
        all: where the node needs its root cgroup, or leaves some.
        unified: cgroup v2 rather than v1.
    """

    tracking: Path
    all: tuple[Path, ...]
    unified: bool


def parse_mounts(mountinfo: str) -> Hierarchies:
    """Find the cgroup mounts in the text of /proc/self/mountinfo.

    Raises:
        ClusterError: there is no cgroup v2, and no v1 hierarchy with the pids controller.
    """
    v1: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mount_point, (kind, _, options) = Path(before.split()[4]), after.split(maxsplit=2)
        if kind == "cgroup2" and mount_point == Path("/sys/fs/cgroup"):
            return Hierarchies(mount_point, (mount_point,), unified=True)
        if kind == "cgroup":
            v1[options.split(",", 1)[-1]] = mount_point
        if kind == "cgroup2":  # beside v1 it has no controllers, but gets directories all the same
            v1[""] = mount_point
    tracking = next((path for names, path in v1.items() if "pids" in names.split(",")), None)
    if tracking is None:
        raise ClusterError("no cgroups are mounted below /sys/fs/cgroup: a node needs them")
    return Hierarchies(tracking, tuple(dict.fromkeys(v1.values())), unified=False)


class CgroupTree:
    """A node's cgroups: `<root>/system/<component>`, `<root>/shims`, `<root>/kubepods`.

    The roots of further nodes are below the first node's, which so has everyone.
    """

    def __init__(self, name: str, hierarchies: Hierarchies) -> None:
        self.name = name
        self._hierarchies = hierarchies

    def create(self) -> None:
        """Make the tree; harmless when it exists."""
        for mount in self._hierarchies.all:
            if self._hierarchies.unified:
                _delegate(mount)
            for path in (mount / self.name, mount / self.name / SHIMS):
                path.mkdir(exist_ok=True)
                _inherit_cpuset(path)
            if "/" not in self.name:  # a further node's is among the first node's own
                weigh(mount / self.name)
            if self._hierarchies.unified:
                _delegate(mount / self.name)

    def ensure(self, component: str) -> Path:
        """Make a component's cgroup unless it exists; returns where to join it."""
        directory = self._directory(component)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def pids(self, component: str) -> list[int]:
        """The component's living process, if any; its passing children are not the component."""
        return [pid for pid in _living(self._directory(component)) if _leads_session(pid)]

    def everyone(self) -> list[int]:
        """Every living process of the cluster, containers included."""
        root = self._hierarchies.tracking / self.name
        return [pid for path in _subtree(root) for pid in _living(path)]

    def kill(self, component: str, timeout: float = 10.0) -> None:
        """SIGKILL a component and its children and wait until all are gone."""
        directory = self._directory(component)
        self._kill_until_empty(lambda: _living(directory), timeout, component)

    def kill_everyone(self, timeout: float = 30.0) -> None:
        """SIGKILL every process of the cluster and wait until all are gone."""
        self._kill_until_empty(self.everyone, timeout, "the cluster")

    def remove(self, timeout: float = 10.0) -> None:
        """Remove the (empty) tree from every hierarchy."""
        for mount in self._hierarchies.all:
            root = mount / self.name
            # The kernel lets go of a cgroup a moment after its last process.
            if not wait_for(lambda root=root: _removed(root), timeout):  # type: ignore[misc]
                raise ClusterError(f"{root} cannot be removed: something still runs in it")

    def _directory(self, component: str) -> Path:
        return self._hierarchies.tracking / self.name / "system" / component

    def _kill_until_empty(self, find: Callable[[], list[int]], timeout: float, what: str) -> None:
        def sweep() -> bool:
            pids = find()
            for pid in pids:
                self._kill_member(pid)
            return not pids

        if not wait_for(sweep, timeout):
            raise ClusterError(
                f"processes {find()} of {what} do not die (are they in uninterruptible I/O?); "
                "try again later"
            )

    def _kill_member(self, pid: int) -> None:
        # The handle pins the process, so a pid reused between listing and killing is never hit.
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            if is_member(Path(f"/proc/{pid}/cgroup").read_text(), self.name):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass
        finally:
            os.close(handle)


def is_member(cgroup: str, name: str) -> bool:
    """Whether the text of a /proc/<pid>/cgroup is that of a process below cgroup `name`."""
    paths = [line.split(":", 2)[2] for line in cgroup.splitlines()]
    return any(f"/{name}/" in f"{path}/" for path in paths)


def _removed(root: Path) -> bool:
    for path in reversed(list(_subtree(root))):
        with contextlib.suppress(OSError):
            path.rmdir()
    return not root.exists()


def _subtree(root: Path) -> Iterator[Path]:
    if root.is_dir():
        for directory, _, _ in os.walk(root):
            yield Path(directory)


def _living(directory: Path) -> list[int]:
    try:
        listed = (directory / "cgroup.procs").read_text().split()
    except OSError:
        return []
    return [int(pid) for pid in listed if _is_living(int(pid))]


def _is_living(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # The command name is in parentheses and may hold anything; the state follows it.
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def _leads_session(pid: int) -> bool:
    # Components are started as leaders of sessions of their own; what they run inherits it.
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def _inherit_cpuset(path: Path) -> None:
    # A new v1 cpuset is empty, and no process may join it until it names CPUs and memory nodes.
    for name in ("cpuset.cpus", "cpuset.mems"):
        own, parent = path / name, path.parent / name
        if own.exists() and not own.read_text().strip():
            own.write_text(parent.read_text())


def weigh(path: Path) -> None:
    """Give a cgroup the weight of a cluster, where its hierarchy has the controller."""
    for name, ordinary in _CPU.items():
        if (path / name).exists():
            (path / name).write_text(str(_WEIGHT * ordinary))


def _delegate(path: Path) -> None:
    # Controllers that cannot be enabled here are not needed: the kubelet names those it misses.
    for controller in (path / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):
            (path / "cgroup.subtree_control").write_text(f"+{controller}")
