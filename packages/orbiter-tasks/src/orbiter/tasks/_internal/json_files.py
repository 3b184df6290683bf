"""The files of TaskStoreJson: a JSON file a task, and markers that tell which ones are active.

A file that holds no task is set aside, under the lock, by whoever meets it; all others go on.

Every write happens under one lock of the directory and replaces a whole file. A marker is an empty
file in `.pending` or `.running`; it is there before the task's file says so and stays a little
longer, so after a SIGKILL at any moment no active task lacks one. The lock's file holds a counter
of changes to the markers: while it stands still, what this process knows of them is true.
"""

import fcntl
import heapq
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

from orbiter.tasks._internal.task_file import (
    UnreadableError,
    file_name,
    read_task,
    set_aside,
    written,
)
from orbiter.tasks.models import Task
from orbiter.tasks.state import TaskError, TaskState

ACTIVE = (TaskState.PENDING, TaskState.RUNNING)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TaskFiles:
    """Blocking operations on the directory; each is whole or did not happen."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._markers = {state: Markers(directory / f".{state}") for state in ACTIVE}
        # what is no task and cannot be renamed either: said once
        self._stuck: set[Path] = set()
        self._opened = False
        self._generation = 0

    def insert(self, task: Task) -> None:
        """Write a new task.

        Raises:
            TaskError: Its id is taken.
        """
        with self._locked() as lock:
            if self._path(task.id).exists():
                raise TaskError(f"there is a task {task.id} already; give the new one another id")
            self._mark(lock, task)
            self._write(task)

    def load(self, task_id: str) -> Task | None:
        """Read a task; None when there is none."""
        try:
            return read_task(self._path(task_id))
        except UnreadableError:
            with self._locked():
                return self._load(self._path(task_id))

    def change(
        self, task_id: str | None, change: Callable[[Task], Task]
    ) -> tuple[Task, Task] | None:
        """Change a task, or the oldest PENDING one; see VersionedStore."""
        with self._locked() as lock:
            old = self._first(lock) if task_id is None else self._load(self._path(task_id))
            if old is None:
                return None
            new = change(old)
            if new is not old:
                self._replace(lock, old, new)
            return old, new

    def first_pending(self) -> Task | None:
        """Return the oldest PENDING task."""
        with self._locked() as lock:
            return self._first(lock)

    def in_state(self, state: TaskState) -> list[Task]:
        """Return the tasks in a state, oldest first."""
        if state in ACTIVE:
            with self._locked():
                files = [self._path(_task_id(name)) for name in self._markers[state].names()]
        else:
            files = list(self.directory.glob("*.json"))
        found, broken = _sorted_out(files)
        if broken:
            with self._locked():
                found += [task for file in broken if (task := self._load(file)) is not None]
        return sorted((t for t in found if t.state is state), key=lambda t: (t.created_at, t.id))

    def _first(self, lock: int) -> Task | None:
        markers = self._markers[TaskState.PENDING]
        while (name := markers.first()) is not None:
            task = self._load(self._path(_task_id(name)))
            if task is not None and task.state is TaskState.PENDING:
                return task
            self._notify_watchers(lock)
            markers.discard(name)
        return None

    def _replace(self, lock: int, old: Task, new: Task) -> None:
        if new.state is old.state:
            self._write(new)
            return
        self._mark(lock, new)
        self._write(new)
        if old.state in ACTIVE:
            self._markers[old.state].discard(_marker(old))

    def _load(self, path: Path) -> Task | None:
        """Read a file under the lock: nobody can have replaced it when it is set aside."""
        try:
            return read_task(path)
        except UnreadableError as error:
            if path not in self._stuck and not set_aside(path, str(error)):
                self._stuck.add(path)
            return None

    def _path(self, task_id: str) -> Path:
        return self.directory / file_name(task_id)

    def _write(self, task: Task) -> None:
        path, data = self._path(task.id), written(task)
        # only one writer at a time, so one name will do; what a killed one left is overwritten
        unfinished = self.directory / ".unfinished"
        try:
            unfinished.write_bytes(data)
        except IsADirectoryError:
            set_aside(unfinished, "it is a directory")
            unfinished.write_bytes(data)
        unfinished.replace(path)

    def _mark(self, lock: int, task: Task) -> None:
        self._notify_watchers(lock)
        if task.state in ACTIVE:
            self._markers[task.state].add(_marker(task))

    def _notify_watchers(self, lock: int) -> None:
        """Tell other processes that the markers change; before they do, lest we die between."""
        self._generation = (self._generation + 1) % 2**64
        os.pwrite(lock, self._generation.to_bytes(8, "big"), 0)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        if not self._opened:
            for markers in self._markers.values():
                markers.directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            generation = int.from_bytes(os.pread(lock, 8, 0), "big")
            if generation != self._generation:
                self._generation = generation
                for markers in self._markers.values():
                    markers.forget()
            if not self._opened:
                self._mark_all(lock)
                self._opened = True
            yield lock
        finally:
            os.close(lock)

    def _mark_all(self, lock: int) -> None:
        # files may have been put here by other means
        for file in self.directory.glob("*.json"):
            task = self._load(file)
            if task is None:
                continue
            if task.state in ACTIVE and _marker(task) not in self._markers[task.state].names():
                self._mark(lock, task)


class Markers:
    """The names in one directory, the oldest task's first."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._names: set[str] | None = None
        self._queue: list[str] = []

    def forget(self) -> None:
        """Look into the directory anew the next time."""
        self._names = None

    def names(self) -> set[str]:
        """Return all names."""
        if self._names is None:
            entries = os.scandir(self.directory)
            self._names = {e.name for e in entries if e.is_file(follow_symlinks=False)}
            self._queue = sorted(self._names)
        return self._names

    def first(self) -> str | None:
        """Return the oldest name."""
        names = self.names()
        while self._queue and self._queue[0] not in names:
            heapq.heappop(self._queue)
        return self._queue[0] if self._queue else None

    def add(self, name: str) -> None:
        """Add a name."""
        if name not in self.names():
            (self.directory / name).touch()
            self.names().add(name)
            heapq.heappush(self._queue, name)

    def discard(self, name: str) -> None:
        """Remove a name if it is there."""
        (self.directory / name).unlink(missing_ok=True)
        self.names().discard(name)


def _sorted_out(files: list[Path]) -> tuple[list[Task], list[Path]]:
    """Read files without the lock: the tasks, and the files that have to be set aside."""
    found, broken = [], []
    for file in files:
        try:
            task = read_task(file)
        except UnreadableError:
            broken.append(file)
        else:
            if task is not None:
                found.append(task)
    return found, broken


def _marker(task: Task) -> str:
    age = (task.created_at - _EPOCH).total_seconds()
    return f"{round(age * 1_000_000):020d}-{quote(task.id, safe='')}"


def _task_id(marker: str) -> str:
    return unquote(marker[21:])
