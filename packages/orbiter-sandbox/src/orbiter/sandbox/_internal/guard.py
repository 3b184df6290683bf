"""Watches the sums that no resource limit covers: memory of all processes, size of all files."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from orbiter.sandbox.types import Limits, Stop

PAUSE = 0.1
_MOST_FILES = 100_000
_BLOCK = 512
_KIB = 1024


async def exceeded(limits: Limits, pid: int, workspace: Path) -> Stop:
    """Return when a sum is exceeded, and which.

    Args:
        limits: `memory_bytes` and `disk_bytes` count.
        pid: The process whose descendants, and itself, share the memory.
        workspace: Where the files are.
    """
    rounds = 0
    # whoever begins with too much may still remove some of it
    most = max(limits.disk_bytes, await asyncio.to_thread(disk_of, workspace))
    while True:
        await asyncio.sleep(PAUSE)
        if await asyncio.to_thread(memory_of, pid) > limits.memory_bytes:
            return "memory"
        # a scan of many files costs more than one of few processes
        if rounds % 5 == 0 and await asyncio.to_thread(disk_of, workspace) > most:
            return "disk"
        rounds += 1


def memory_of(root: int) -> int:
    """Return the bytes of memory that a process and its descendants have to themselves."""
    listed = Path("/proc/thread-self/children").exists()  # not every kernel is built with it
    children = _listed if listed else _scanned()
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        total += _own_memory(pid)
        todo += children(pid)
    return total


def _listed(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def _scanned() -> Callable[[int], list[int]]:
    by_parent: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                by_parent.setdefault(int(parent), []).append(int(entry.name))
    return lambda pid: by_parent.get(pid, [])


def _own_memory(pid: int) -> int:
    kib = 0
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            # pages of files are the system's, and shared memory counts for each who has it
            if line.startswith(("RssAnon:", "RssShmem:")):
                kib += int(line.split()[1])
    return kib * _KIB


def disk_of(directory: Path) -> int:
    """Return the bytes that a directory takes; links are not followed."""
    total, seen, todo = 0, 0, [str(directory)]
    while todo:
        with suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                seen += 1
                if seen > _MOST_FILES:
                    return 1 << 62
                with suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
    return total
