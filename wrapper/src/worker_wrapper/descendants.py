"""Every process an agent started, wherever it went, and the end of it.

A tool of the agent may run in a session of its own or fork twice; signalling a process group misses
it. As a subreaper (prctl.py) we are the ancestor of all of them, so /proc tells. process.py sweeps
after each turn and reaps what dies during one.
"""

import asyncio
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_SWEEP_SECONDS = 5.0
_ROUND_MS = 50
_REAP_AFTER_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Process:
    """One process; `started` (clock ticks after boot) tells a reused pid apart."""

    pid: int
    started: int
    parent: int
    zombie: bool

    @property
    def key(self) -> tuple[int, int]:
        """What stays the same as long as it is the same process."""
        return self.pid, self.started


Keys = frozenset[tuple[int, int]]


def descendants(*, strangers: Keys = frozenset()) -> list[Process]:
    """All descendants of this process, but for `strangers` and theirs.

    Empty means that there is none: whoever lives, or has not been reaped, is below one of our own
    children, and of those the kernel's list is exact, because only we remove any from it.
    """
    found: list[Process] = []
    parents = [os.getpid()]
    while parents:
        for pid in _children(parents.pop()):
            child = _read(pid)
            if child is not None and child.key not in strangers:
                found.append(child)
                parents.append(child.pid)
    return found


def present() -> Keys:
    """Who is there before the agent starts, and therefore not the agent's."""
    return frozenset(process.key for process in descendants())


@contextmanager
def reaping(*, strangers: Keys, spare: int) -> Iterator[None]:
    """Meanwhile, take the exit status of orphans that die, so that no zombies pile up.

    Args:
        strangers: Not the agent's, somebody else waits for them.
        spare: The agent's pid: its status is wanted elsewhere.
    """
    loop = asyncio.get_running_loop()
    due: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal due
        due = None
        for process in descendants(strangers=strangers):
            if process.pid != spare:
                _reap(process)

    def on_sigchld() -> None:
        nonlocal due
        due = due or loop.call_later(_REAP_AFTER_SECONDS, look)

    loop.add_signal_handler(signal.SIGCHLD, on_sigchld)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGCHLD)
        if due:
            due.cancel()


def sweep(*, strangers: Keys, seconds: float = _SWEEP_SECONDS) -> list[int]:
    """Kill all descendants but `strangers`, and reap them.

    They are stopped first, until none is left running: killing right away would let the others
    fork on into the room it makes.

    Args:
        strangers: Who was there before.
        seconds: When to give up.

    Returns:
        Pids of those that are still there.
    """
    until = time.monotonic() + seconds
    stopped: set[tuple[int, int]] = set()
    while seen := descendants(strangers=strangers):
        found = [process for process in seen if not _reap(process)]
        if time.monotonic() > until:
            return [process.pid for process in found]
        fresh = [process for process in found if process.key not in stopped]
        if fresh:
            _send(fresh, signal.SIGSTOP, wait_ms=0)
            stopped |= {process.key for process in fresh}
        else:
            _send(found, signal.SIGKILL, wait_ms=_ROUND_MS)
    return []


def _children(pid: int) -> list[int]:
    """Pids of a process's children; none when it is gone."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - on the path of every turn
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as children:  # noqa: PTH123
                found += map(int, children.read().split())
    return found


def _read(pid: int) -> Process | None:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        stat = os.read(fd, 1024)
    except OSError:
        return None
    finally:
        os.close(fd)
    # "pid (command) state parent …": the command may hold anything, so count from its end.
    fields = stat[stat.rfind(b")") + 2 :].split()
    return Process(pid, int(fields[19]), int(fields[1]), fields[0] in (b"Z", b"X"))


def _reap(process: Process) -> bool:
    if not process.zombie or process.parent != os.getpid():
        return False
    try:
        return os.waitpid(process.pid, os.WNOHANG)[0] == process.pid
    except ChildProcessError:
        return True


def _send(processes: Iterable[Process], number: signal.Signals, *, wait_ms: int) -> None:
    """Signal through pidfds, so that a pid reused meanwhile is not hit; wait for the ends."""
    poll = select.poll()
    waiting = set()
    for process in processes:
        with suppress(OSError):
            fd = os.pidfd_open(process.pid)
            waiting.add(fd)
            now = _read(process.pid)
            if now is not None and now.key == process.key:
                signal.pidfd_send_signal(fd, number)
            poll.register(fd, select.POLLIN)
    until = time.monotonic() + wait_ms / 1000
    while waiting and (left := until - time.monotonic()) > 0:
        for fd, _ in poll.poll(left * 1000):
            poll.unregister(fd)
            waiting.discard(fd)
            os.close(fd)
    for fd in waiting:
        os.close(fd)
