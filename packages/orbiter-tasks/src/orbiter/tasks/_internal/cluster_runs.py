"""What can be asked of a task that the operator runs: to stop, and to go on with an answer."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from orbiter.tasks._internal.agent_tasks import (
    Object,
    open_question,
    read,
)
from orbiter.tasks.models import Task
from orbiter.tasks.state import (
    ConflictError,
    GoneError,
    TaskError,
    TaskState,
    TransitionError,
    refusal,
)

if TYPE_CHECKING:
    from orbiter.tasks._internal.kube_api import AgentTaskApi

STOP_SECONDS = 60.0
"""How long `cancel` waits for the operator to stop a task."""
Learn = Callable[[Object], Task]


async def cancel(api: "AgentTaskApi", task_id: str, learn: Learn) -> Task | None:
    """Set `spec.desiredState` and wait until the task is cancelled; None when it is unknown.

    Raises:
        TransitionError: It is over, or ended by itself before it could be cancelled.
        TaskError: The operator has not stopped it in time.
    """
    obj = await api.get(task_id)
    if obj is None:
        return None
    if reason := refusal(learn(obj).state, TaskState.CANCELLED):
        raise TransitionError(task_id, reason)
    obj = await api.patch(task_id, {"spec": {"desiredState": "Cancelled"}})
    try:
        async with asyncio.timeout(STOP_SECONDS):
            while obj is not None and not learn(obj).is_terminal:
                obj = await _next(api, obj)
    except TimeoutError:
        raise TaskError(
            f"task {task_id} was asked to stop and has not within {STOP_SECONDS:.0f} s; "
            "is the operator running?"
        ) from None
    if obj is None:
        return None
    task = learn(obj)
    if task.state is not TaskState.CANCELLED:
        raise TransitionError(task_id, f"it is {task.state}: it ended before it was cancelled")
    return task


async def answer(api: "AgentTaskApi", task_id: str, text: str, learn: Learn) -> Task | None:
    """Append the answer to `spec.input`; None when the task is unknown.

    Raises:
        TransitionError: The task has asked nothing.
    """
    while True:
        obj = await api.get(task_id)
        if obj is None:
            return None
        asked = open_question(obj)
        if asked is None:
            raise TransitionError(task_id, f"it is {read(obj).state} and has asked nothing")
        given = [*(obj["spec"].get("input") or ()), {"id": asked, "text": text}]
        version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        try:
            obj = await api.patch(task_id, {"metadata": version, "spec": {"input": given}})
        except ConflictError:
            continue
        return None if obj is None else learn(obj)


async def _next(api: "AgentTaskApi", obj: Object) -> Object | None:
    """The object after its next change; None when it is gone."""
    name = obj["metadata"]["name"]
    try:
        async with aclosing(api.watch(obj["metadata"]["resourceVersion"], name)) as changes:
            async for change in changes:
                if change["type"] != "BOOKMARK":
                    return None if change["type"] == "DELETED" else change["object"]
    except GoneError:
        pass
    return await api.get(name)
