"""One task's file: read by a function that knows every way it can be broken, and set aside then."""

import errno
import logging
import os
import stat
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from orbiter.tasks._internal.changes import numbered
from orbiter.tasks._internal.raised import why
from orbiter.tasks.models import Task
from orbiter.tasks.state import TaskError

logger = logging.getLogger("orbiter.tasks")
MOST_BYTES = 64 * 1024 * 1024
SUFFIX = ".unreadable"
# the process' or the machine's trouble at this moment, not this file's
_PASSING = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EINTR, errno.EAGAIN}
)


class UnreadableError(TaskError):
    """A file is there and holds no task, or not the one it is named after."""


def file_name(task_id: str) -> str:
    """Return the name of a task's file."""
    return f"{quote(task_id, safe='', errors='surrogatepass')}.json"


def read_task(path: Path) -> Task | None:
    """Read a task's file; None when there is none.

    Raises:
        UnreadableError: It can be read by nobody; the text says why, and not what is in it.
        OSError: It cannot be read just now.
    """
    try:
        data = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        if error.errno in _PASSING:
            raise
        raise UnreadableError(str(error.strerror or error)) from error
    try:
        task = Task.model_validate_json(data)
    except ValidationError as error:
        raise UnreadableError(why(error)) from None
    if file_name(task.id) != path.name:
        raise UnreadableError(f"it holds the task {task.id[:100]!r}")
    task.events = numbered(task.events, 0)
    return task


def written(task: Task) -> bytes:
    """Return what a task's file is to hold.

    Raises:
        TaskError: There is more to it than would be read again.
    """
    try:
        data = task.model_dump_json().encode()
    except (ValueError, TypeError) as error:
        raise TaskError(f"task {task.id} cannot be written as JSON: {error}") from error
    if len(data) > MOST_BYTES:
        raise TaskError(f"task {task.id} is too large: {len(data)} bytes; {MOST_BYTES} are allowed")
    return data


def set_aside(path: Path, reason: str) -> bool:
    """Rename what is no task, so that it is kept and in nobody's way; say whether it worked.

    Only for one process at a time.
    """
    place = path.with_name(f"{path.name}{SUFFIX}")
    try:
        number = 1
        while os.path.lexists(place):
            number += 1
            place = path.with_name(f"{path.name}{SUFFIX}-{number}")
        path.rename(place)
    except OSError as error:
        logger.error("%r holds no task: %s; it stays, because %s", str(path), reason, error)
        return False
    logger.error(
        "%r holds no task: %s; it is kept as %r. Mend it and rename it back, or submit the task "
        "again",
        str(path), reason, place.name,
    )  # fmt: skip
    return True


def _read(path: Path) -> bytes:
    # without waiting for a writer, should it be a pipe
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        kind = os.fstat(opened)
        if not stat.S_ISREG(kind.st_mode):
            raise UnreadableError("it is no regular file")
        if kind.st_size > MOST_BYTES:
            raise UnreadableError(f"it has {kind.st_size} bytes; {MOST_BYTES} are allowed")
        data = b""
        while len(data) < kind.st_size and (piece := os.read(opened, kind.st_size - len(data))):
            data += piece
        return data
    finally:
        os.close(opened)
