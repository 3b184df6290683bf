"""How often the kernel killed a process of this container for lack of memory.

When it takes the agent and leaves us alive, nobody outside learns why: process.py compares the
counter before and after a turn.
"""

from pathlib import Path

_V2 = ("", "memory.events")
_V1 = ("memory", "memory.oom_control")


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
