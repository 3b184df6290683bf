"""Two switches of the kernel that a worker's first process sets on itself, at start.

The agent runs as the same user in the same container. Without these its orphans would go to whoever
is PID 1, and it could read this process's environment, with the Redis password in it, from /proc.
"""

import ctypes
import errno
import os
from pathlib import Path

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


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
