"""Long lists of tasks, a page at a time: the newest first, behind a cursor.

A store that can cut pages itself has `page`; of any other all tasks are read and cut here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

from orbiter.tasks.contract import TaskStore
from orbiter.tasks.models import Task
from orbiter.tasks.state import TaskState

MOST = 1000


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A page of tasks.

    Attributes:
        tasks: The newest first; their `events` may be left out.
        total: How many tasks there are on all pages.
        next: The cursor of the page after this one; None on the last.
    """

    tasks: list[Task]
    total: int
    next: str | None


@runtime_checkable
class PagedStore(Protocol):
    """A store that can return a page without reading the rest."""

    async def page(
        self,
        *,
        states: Collection[TaskState] | None,
        limit: int,
        after: str | None,
        metadata: Mapping[str, str] | None = None,
    ) -> TaskPage:
        """Return a page; see `page_of`."""
        ...


async def page_of(
    store: TaskStore,
    *,
    states: Collection[TaskState] | None = None,
    limit: int = 100,
    after: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> TaskPage:
    """Return a page of a store's tasks, the newest first.

    Args:
        store: Any store.
        states: Only tasks in these; None means all.
        limit: Tasks of a page, from 1 to 1000.
        after: What the page before had as `next`; None for the first page.
        metadata: Only tasks that were submitted with all of these; None means all.

    Raises:
        ValueError: `after` is no cursor, or `limit` is out of range.
    """
    if not 1 <= limit <= MOST:
        raise ValueError(f"a page has 1 to {MOST} tasks, not {limit}")
    place = None if after is None else read_cursor(after)
    if isinstance(store, PagedStore):
        wished = {} if metadata is None else {"metadata": metadata}
        return await store.page(states=states, limit=limit, after=after, **wished)
    wanted = TaskState if states is None else states
    every = [
        task
        for state in wanted
        for task in await store.list_by_state(state)
        if all(task.metadata.get(key) == value for key, value in (metadata or {}).items())
    ]
    # a task that changed its state between two lists is in both or in none; never twice here
    tasks = sorted({task.id: task for task in every}.values(), key=_place, reverse=True)
    rest = tasks if place is None else [task for task in tasks if _place(task) < place]
    return cut(rest, limit, len(tasks))


def cut(tasks: list[Task], limit: int, total: int) -> TaskPage:
    """Make a page of the tasks behind a cursor, of which one more than `limit` is enough."""
    more = len(tasks) > limit
    return TaskPage(tasks[:limit], total, cursor(tasks[limit - 1]) if more else None)


def cursor(task: Task) -> str:
    """Return the cursor of what comes behind a task."""
    created, key = _place(task)
    return f"{created!r}~{key}"


def read_cursor(text: str) -> tuple[float, str]:
    """Return the time and the id a cursor stands for.

    Raises:
        ValueError: It is none.
    """
    created, tilde, key = text.partition("~")
    try:
        datetime.fromtimestamp(float(created), UTC)
        if tilde:
            return float(created), key
    except (ValueError, OverflowError, OSError):
        pass
    raise ValueError(f"'{text[:100]}' is no cursor: give what an earlier page had as `next`")


def _place(task: Task) -> tuple[float, str]:
    return task.created_at.timestamp(), task.id
