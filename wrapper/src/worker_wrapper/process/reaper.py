"""Every process an agent started, wherever it went, and the end of it.

A tool of the agent may run in a session of its own or fork twice; signalling a process group misses
it. As a subreaper (kernel.py) we are the ancestor of all of them, so /proc tells. run.py kills
what is left after each turn and reaps what dies during one.
"""

import asyncio
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

_KILL_SECONDS = 5.0
_ROUND_SECONDS = 0.05
_REAP_SECONDS = 0.5

PreexistingChildren = dict[int, int]
"""Children that are not the agent's: when each pid was started, to tell a reused one apart."""


def preexisting_children() -> PreexistingChildren:
    """Who is there before the agent starts, and is therefore left alone, with all its children."""
    return {pid: _started(pid) for pid in _children(os.getpid())}


_beside: set[int] = set()


@contextmanager
def left_alone(pid: int) -> Iterator[None]:
    """Meanwhile this child of ours is not the agent's, though it was started beside the agent.

    Enter it in the event loop's thread, in the same step that starts the child: whoever looks for
    the agent's processes does so there.
    """
    _beside.add(pid)
    try:
        yield
    finally:
        _beside.discard(pid)


@contextmanager
def reaping(preexisting: PreexistingChildren, *, keep: int) -> Iterator[None]:
    """Meanwhile, take the exit status of orphans that die, so that no zombies pile up.

    By a timer, not by SIGCHLD: a storm of dying processes would crowd out the signals that matter.

    Args:
        preexisting: Not the agent's, somebody else waits for them.
        keep: The agent's pid: its status is wanted elsewhere.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def reap_orphans() -> None:
        nonlocal timer
        for pid in _ours(preexisting):
            if pid != keep:
                _reap(pid)
        timer = loop.call_later(_REAP_SECONDS, reap_orphans)

    timer = loop.call_later(_REAP_SECONDS, reap_orphans)
    try:
        yield
    finally:
        timer.cancel()


def kill_descendants(
    preexisting: PreexistingChildren, *, seconds: float = _KILL_SECONDS
) -> list[int]:
    """Kill all descendants but the preexisting ones, and reap them.

    It is over when we have no child left: whoever lives, or is not reaped, is below one of our own
    children, and the kernel's list of those is exact, because only we remove any from it.

    They are stopped first, until none is left running: killing right away would let the others
    fork on into the room it makes. Each is stopped the moment it is seen, the newest first, because
    one that forks and leaves all the time is never where it was.

    Args:
        preexisting: Who was there before.
        seconds: When to give up.

    Returns:
        Pids of those that are still there.
    """
    until = time.monotonic() + seconds
    stopped: set[int] = set()
    while ours := _ours(preexisting):
        alive, stopped_before = [], len(stopped)
        for pid in _living(ours):
            alive.append(pid)
            if pid not in stopped:
                _signal(pid, signal.SIGSTOP)
                stopped.add(pid)
        if time.monotonic() > until:
            return alive
        if alive and len(stopped) == stopped_before:
            _kill(alive)
    return []


def _ours(preexisting: PreexistingChildren) -> list[int]:
    """Our own children, the oldest first."""
    return [
        pid
        for pid in _children(os.getpid())
        if pid not in _beside and (pid not in preexisting or _started(pid) != preexisting[pid])
    ]


def _living(ours: list[int]) -> Iterator[int]:
    """Our children and everything below them, the newest first; dead children are reaped."""
    for pid in reversed(ours):
        if not _reap(pid):
            below = [pid]
            while below:
                yield below[-1]
                below += _children(below.pop())


def _children(pid: int) -> list[int]:
    """Pids of a process's children, the oldest first; none when it is gone."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - on the path of every turn
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as children:  # noqa: PTH123
                found += map(int, children.read().split())
    return found


def _started(pid: int) -> int:
    """When a process was started, in clock ticks after boot; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - on the path of every turn
            # "pid (command) state …": the command may hold anything, so count from its end.
            return int(stat.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


def _reap(pid: int) -> bool:
    """Whether this child of ours is dead, and now gone."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _kill(pids: Iterable[int]) -> None:
    """Kill, and wait a moment for the ends."""
    poll = select.poll()
    waiting = set()
    for pid in pids:
        with suppress(OSError):
            fd = os.pidfd_open(pid)
            waiting.add(fd)
            poll.register(fd, select.POLLIN)
        _signal(pid, signal.SIGKILL)
    until = time.monotonic() + _ROUND_SECONDS
    while waiting and (left := until - time.monotonic()) > 0:
        for fd, _ in poll.poll(left * 1000):
            poll.unregister(fd)
            waiting.discard(fd)
            os.close(fd)
    for fd in waiting:
        os.close(fd)
