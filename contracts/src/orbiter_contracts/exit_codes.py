"""How a worker's process ends before or beside its work, as both sides understand it.

A container's last words are its exit code and the end of its log. Two endings share a code, because
both say "not with this environment": what tells them apart is the sentence, which is made and
recognised here. A name in use passes when the other process ends, a missing variable does not.
"""

import re
from typing import Final

UNUSABLE: Final = 2
"""The environment cannot be worked with: a variable is missing, or the worker's name is in use."""
NAME_LOST: Final = 4
"""Another process took the worker's name over while this one worked."""
INTERRUPTED: Final = 143
"""It was asked to leave before its attempt was done, and has published nothing, so that another pod
goes on: as of any program that SIGTERM ends. A worker's own word, so it does not say that the
cluster asked: an agent may have."""

_IN_USE: Final = re.compile(r"^(?:worker-wrapper: )?WORKER_ID .* is in use: ", re.MULTILINE)


def name_in_use(worker_id: str, host: str) -> str:
    """What a worker says whose name another process has.

    Args:
        worker_id: The name.
        host: Where that process is; "" when nobody knows.
    """
    return (
        f"WORKER_ID {worker_id} is in use: a process on {host or 'another host'} works under that "
        "name; give this one a name of its own, or end the other"
    )


def says_name_in_use(exit_code: int | None, message: str) -> bool:
    """Whether a worker ended because its name was in use, by its exit code and its last words."""
    return exit_code == UNUSABLE and _IN_USE.search(message) is not None
