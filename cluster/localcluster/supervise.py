"""Starting and stopping components; the cgroup a component runs in is the record of it."""

import hashlib
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from localcluster.cgroups import CgroupTree
from localcluster.components import Component
from localcluster.errors import ClusterError
from localcluster.layout import Layout
from localcluster.namespaces import HOLDER_ARGV, enter
from localcluster.shell import wait_for

HOLDER = "holder"
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
# The shell joins the cgroup before it becomes the component: there is no moment in which a
# component runs unrecorded, even if this tool is killed in between.
JOIN_AND_BECOME = 'echo 0 > "$0/cgroup.procs" && exec "$@"'
AGAIN_AND_AGAIN = ("/bin/sh", "-c", 'while :; do "$@"; sleep 1; done', "again")
MAX_LOG_BYTES = 20_000_000


class Supervisor:
    """Knows which components run, starts those that do not, stops them by name."""

    def __init__(self, layout: Layout, tree: CgroupTree) -> None:
        self._layout = layout
        self._tree = tree

    def inside(self, names: Iterable[str]) -> int | None:
        """A living process in the node's namespaces, if any component or the holder lives."""
        pids = (pid for name in (HOLDER, *names) for pid in self._tree.pids(name))
        return next(pids, None)

    def hold_namespaces(self) -> int:
        """Start the process that keeps new namespaces open and return its pid."""
        self._spawn(HOLDER, HOLDER_ARGV)
        own = Path("/proc/self/ns/net").readlink()

        def separated() -> bool:
            return any(Path(f"/proc/{pid}/ns/net").readlink() != own
                       for pid in self._tree.pids(HOLDER))  # fmt: skip

        if not wait_for(separated, 10):
            raise ClusterError(f"no new namespaces can be made here:\n{self.log_end(HOLDER)}")
        return self._tree.pids(HOLDER)[0]

    def is_current(self, component: Component) -> bool:
        """Whether the component runs, with today's program, arguments and configuration."""
        stamp = self._layout.started / component.name
        known = stamp.read_text() if stamp.exists() else ""
        return bool(self._tree.pids(component.name)) and known == self._fingerprint(component)

    def start(self, component: Component, inside_of: int) -> None:
        """Start a component anew; whatever is left of an earlier one is killed first."""
        self._tree.kill(component.name)
        self._layout.started.mkdir(parents=True, exist_ok=True)
        (self._layout.started / component.name).write_text(self._fingerprint(component))
        again = AGAIN_AND_AGAIN if component.again else ()
        self._spawn(component.name, [*enter(inside_of), *again, *component.argv])

    def kill(self, name: str) -> None:
        """SIGKILL a component and wait until it is gone."""
        self._tree.kill(name)

    def pids(self, name: str) -> list[int]:
        """Living processes of a component."""
        return self._tree.pids(name)

    def await_ready(self, name: str, ready: Callable[[], bool], timeout: float) -> None:
        """Wait until `ready`.

        Raises:
            ClusterError: the component died or is not ready after `timeout` seconds.
        """

        def ready_or_dead() -> bool:
            return ready() or not self._tree.pids(name)

        in_time = wait_for(ready_or_dead, timeout)
        if not self._tree.pids(name):
            raise ClusterError(f"{name} died; the end of its log:\n{self.log_end(name)}")
        if not in_time:
            raise ClusterError(
                f"{name} is not ready after {timeout:.0f} s; the end of its log "
                f"({self._log(name)}):\n{self.log_end(name)}"
            )

    def log_end(self, name: str, lines: int = 12) -> str:
        """The last lines a component wrote."""
        path = self._log(name)
        text = path.read_text(errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _log(self, name: str) -> Path:
        return self._layout.logs / f"{name}.log"

    def _spawn(self, name: str, argv: Iterable[str]) -> None:
        log = self._log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
            log.rename(log.with_suffix(".log.old"))
        cgroup = str(self._tree.ensure(name))
        with log.open("ab") as out:
            process = subprocess.Popen(
                ["/bin/sh", "-c", JOIN_AND_BECOME, cgroup, *argv],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=ENVIRONMENT, cwd="/", start_new_session=True,
            )  # fmt: skip
        joined = wait_for(lambda: bool(self._tree.pids(name)) or process.poll() is not None, 10)
        if not joined or process.poll() is not None:
            raise ClusterError(f"{name} cannot start:\n{self.log_end(name)}")

    def _fingerprint(self, component: Component) -> str:
        digest = hashlib.sha256("\0".join(component.argv).encode())
        for name in component.files:
            digest.update((self._layout.config / name).read_bytes())
        program = Path(component.argv[0]).stat()
        digest.update(f"{program.st_ino} {program.st_size} {program.st_mtime_ns}".encode())
        return digest.hexdigest()
