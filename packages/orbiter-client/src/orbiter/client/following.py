"""A task as it changes, until it stands still or time is over."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from orbiter.client.contract import TaskApi
from orbiter.client.models import Task
from orbiter.client.objects import read_task


async def followed(
    api: TaskApi, namespace: str, name: str, seconds: float | None, *, to_its_end: bool = False
) -> AsyncGenerator[Task, None]:
    """Yield each state of a task; see `TaskClient.watch`.

    Args:
        api: Where it is.
        namespace: And in which namespace.
        name: The task.
        seconds: After so many no change is waited for, but how it is now is told in any case; None
            waits for as long as it takes.
        to_its_end: Whether a question is waited out, too.
    """
    end = None if seconds is None else asyncio.get_running_loop().time() + seconds
    shown: Task | None = None
    async with aclosing(api.changes(namespace, name)) as changes:
        while shown is None or not (shown.over if to_its_end else shown.stands):
            try:
                async with asyncio.timeout_at(end if shown is not None else None):
                    task = read_task(await anext(changes))
            except (TimeoutError, StopAsyncIteration):
                return
            if task != shown:
                shown = task
                yield task
