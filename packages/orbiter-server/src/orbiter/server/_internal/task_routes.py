"""Endpoints of tasks, over the TaskBroker."""

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from orbiter.errors import InputAnswerError
from orbiter.server._internal.endpoint import Endpoint
from orbiter.server._internal.errors import RequestError, unknown
from orbiter.server._internal.services import Services
from orbiter.server._internal.sse import Batch, last_event_id, with_silences
from orbiter.server._internal.viewer import viewer_of
from orbiter.server.models import (
    Answer,
    EventsQuery,
    NewTask,
    TaskDetail,
    TaskInfo,
    TaskPage,
    TaskPageQuery,
)
from orbiter.tasks import OtherRequestError, Task, TaskNotFoundError, TransitionError, page_of

SHOWN = 200
USER = "user"
"""Whose a task is, in its metadata."""


def task_endpoints(services: Services) -> list[Endpoint]:
    """Return the endpoints."""
    broker = services.broker

    async def create(request: Request, body: NewTask) -> TaskDetail:
        services.runs.agent(body.agent)
        if services.runs.draining:
            services.runs.check_room()
        options: dict[str, Any] = {"config_name": body.agent}
        user = viewer_of(request).user
        if user is not None:
            options[USER] = user
        if body.system_prompt is not None:
            options["system_prompt"] = body.system_prompt
        return _detail(await task_of(services, await broker.submit(body.input, **options), user))

    async def list_page(request: Request, query: TaskPageQuery) -> TaskPage:
        user = viewer_of(request).user
        states = None if query.state is None else {query.state}
        try:
            page = await page_of(
                broker.store, states=states, limit=query.limit, after=query.after,
                metadata=None if user is None else {USER: user},
            )  # fmt: skip
        except ValueError as error:
            raise RequestError(400, str(error)) from None
        return TaskPage(
            tasks=[_info(task) for task in page.tasks], total=page.total, next=page.next
        )

    async def get(request: Request, task_id: str) -> TaskDetail:
        return _detail(await task_of(services, task_id, viewer_of(request).user))

    async def cancel(request: Request, task_id: str) -> TaskDetail:
        await task_of(services, task_id, viewer_of(request).user)
        return _detail(await broker.cancel(task_id))

    async def answer(request: Request, task_id: str, body: Answer) -> TaskDetail:
        await task_of(services, task_id, viewer_of(request).user)
        try:
            by = viewer_of(request).user or ""
            said = broker.answer(task_id, body.text, by=by, request_id=body.request_id)
            return _detail(await said)
        except TaskNotFoundError:
            raise unknown("task", task_id) from None
        except TransitionError as error:
            raise RequestError(409, str(error), code="nothing_asked") from None
        except OtherRequestError as error:
            raise RequestError(409, str(error), code="other_request", param="request_id") from None
        except InputAnswerError as error:
            raise RequestError(422, str(error), code="no_answer") from None

    async def events(request: Request, task_id: str, query: EventsQuery) -> Response:
        viewer = viewer_of(request)
        await task_of(services, task_id, viewer.user)
        after = last_event_id(request.headers, query.after)
        told = with_silences(follow(services, task_id, after), services.config.heartbeat_seconds)
        return services.streams.events(told, viewer)

    return [
        Endpoint(
            "GET", "/v1/tasks", "List tasks, the latest first", list_page, TaskPage,
            query=TaskPageQuery,
        ),
        Endpoint(
            "POST", "/v1/tasks", "Hand in a task", create, TaskDetail, body=NewTask, status=202,
            errors=(404, 503),
        ),
        Endpoint("GET", "/v1/tasks/{task_id}", "Show a task", get, TaskDetail, errors=(404,)),
        Endpoint(
            "POST", "/v1/tasks/{task_id}/cancel", "Cancel a task", cancel, TaskDetail,
            errors=(404,),
        ),
        Endpoint(
            "POST", "/v1/tasks/{task_id}/answer", "Answer a task's question", answer, TaskDetail,
            body=Answer, errors=(404, 409, 422),
        ),
        Endpoint(
            "GET", "/v1/tasks/{task_id}/events",
            "Follow a task, from the event after Last-Event-ID", events, query=EventsQuery,
            media="text/event-stream", errors=(404, 503),
        ),
    ]  # fmt: skip


async def task_of(services: Services, task_id: str, user: str | None) -> Task:
    """Return a task of that user; None is anybody.

    Raises:
        RequestError: There is none.
    """
    task = await services.broker.poll(task_id)
    if task is None or (user is not None and task.metadata.get(USER) != user):
        raise unknown("task", task_id)
    return task


async def follow(services: Services, task_id: str, after: int) -> AsyncIterator[Batch]:
    """Yield a task's events behind `after`, live, until it is over or the server stops."""
    async for event in services.broker.stream(task_id, after=after):
        # a paused run holds its conversation, which nobody sends back
        told = event.model_dump_json(exclude={"task_id": True, "payload": {"paused"}})
        yield [(event.seq, told)]


def _info(task: Task) -> TaskInfo:
    return TaskInfo(**_common(task) | {"input": task.input[:SHOWN]})


def _detail(task: Task) -> TaskDetail:
    return TaskDetail(
        **_common(task),
        result=task.result,
        error=task.error,
        question=task.question,
        input_request=task.input_request,
    )


def _common(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "state": task.state,
        "agent": str(task.metadata.get("config_name") or ""),
        "input": task.input,
        "created_at": task.created_at,
        "updated_at": task.updated_at,
    }
