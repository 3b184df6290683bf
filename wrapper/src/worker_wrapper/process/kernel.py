"""What the wrapper asks of the kernel: two switches for itself, and why an agent was killed.

The agent runs as the same user in the same container. Without the switches, set at start, its
orphans would go to whoever is PID 1, and it could read this process's environment, with the Redis
password in it, from /proc. And when the kernel takes the agent for lack of memory and leaves us
alive, nobody outside learns why: run.py compares the counter before and after a turn.
"""

import ctypes
import errno
import os
from pathlib import Path

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_V2 = ("", "memory.events")
_V1 = ("memory", "memory.oom_control")


def become_subreaper() -> None:
    """Adopt every orphaned descendant, PID 1 or not. Linux only.

    Raises:
        OSError: The kernel refused, or cannot list the children of a process.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if not children.exists():
        raise OSError(errno.ENOSYS, "the kernel lacks CONFIG_PROC_CHILDREN", str(children))


def hide_environment() -> None:
    """Keep other processes of this user from reading our memory and environment through /proc.

    Raises:
        OSError: The kernel refused.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}, {value}): {os.strerror(error)}")


def oom_kills(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Read the counter of this process's memory cgroup, v2 or v1; 0 where there is none."""
    for path in _counters(root, own):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0


def _counters(root: Path, own: Path) -> list[Path]:
    try:
        memberships = own.read_text().splitlines()
    except OSError:
        memberships = []
    found = []
    for line in memberships:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            found.append(root / path.lstrip("/") / _V2[1])
        elif _V1[0] in controllers.split(","):
            found.append(root / _V1[0] / path.lstrip("/") / _V1[1])
    # Without a cgroup namespace the paths are the host's, while the mount shows only our own part.
    return [*found, root / _V2[1], root / _V1[0] / _V1[1]]
