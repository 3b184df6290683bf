"""Endpoints that make, change and follow tasks of the cluster: as whoever asks, by a TaskClient."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from orbiter.client import ClientError, Task, TaskClient
from orbiter.client.following import followed
from orbiter.server._internal.endpoint import Endpoint
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.services import Services, cluster_of
from orbiter.server._internal.sse import Batch, begun, last_event_id, with_silences
from orbiter.server._internal.viewer import viewer_of
from orbiter.server._internal.viewer_redis import ViewerRedis
from orbiter.server._internal.viewer_tasks import ViewerTasks
from orbiter.server.cluster_models import NewAnswer, NewAttempt, TaskReference
from orbiter.server.task_models import NewClusterTask, TaskEventsQuery

_SHOWN = (404, 501, 502)
REFUSED = (*_SHOWN, 403, 409)
_KEY = "Idempotency-Key"


def client_of(services: Services, request: Request) -> TaskClient:
    """Return the client of whoever asks.

    Raises:
        RequestError: The server knows no cluster.
    """
    viewer, kubeconfig = viewer_of(request), services.config.kubeconfig
    tasks = ViewerTasks(cluster_of(services), viewer, kubeconfig)
    return TaskClient(tasks, ViewerRedis(viewer, kubeconfig))


def cluster_task_endpoints(services: Services) -> list[Endpoint]:
    """Return the endpoints."""

    def client(request: Request) -> TaskClient:
        return client_of(services, request)

    async def submit(request: Request, body: NewClusterTask) -> Response:
        tasks = client(request)
        given = await tasks.submit(body.task(), namespace=body.namespace, key=_key(request))
        told = TaskReference(namespace=given.task.namespace, name=given.task.name)
        status = 201 if given.created else 200
        return Response(told.model_dump_json(), status, media_type="application/json")

    async def cancel(request: Request, namespace: str, name: str) -> TaskReference:
        await client(request).cancel(namespace, name)
        return TaskReference(namespace=namespace, name=name)

    async def answer(request: Request, namespace: str, name: str, body: NewAnswer) -> TaskReference:
        await client(request).answer(namespace, name, body.text, question_id=body.id)
        return TaskReference(namespace=namespace, name=name)

    async def retry(request: Request, namespace: str, name: str, body: NewAttempt) -> TaskReference:
        made = await client(request).retry(namespace, name, new_name=body.name, resume=body.resume)
        return TaskReference(namespace=namespace, name=made.name)

    async def events(
        request: Request, namespace: str, name: str, query: TaskEventsQuery
    ) -> Response:
        viewer = viewer_of(request)
        tasks = ViewerTasks(cluster_of(services), viewer, services.config.kubeconfig)
        seen = last_event_id(request.headers, query.after)
        states = followed(tasks, namespace, name, None, to_its_end=True)
        told = with_silences(_events(states, seen), services.config.heartbeat_seconds)
        with services.streams.held(viewer):  # it is waited for, too
            told = await begun(told)
        return services.streams.events(told, viewer)

    path = "/v1/cluster/tasks/{namespace}/{name}"
    return [
        Endpoint(
            "GET", f"{path}/events", "Follow an AgentTask: each of its states, up to its end",
            events, query=TaskEventsQuery, media="text/event-stream", errors=(*_SHOWN, 503),
            needs=None,
        ),
        Endpoint(
            "POST", "/v1/cluster/tasks", "Make an AgentTask", submit, TaskReference,
            body=NewClusterTask, status=201, errors=REFUSED, needs=None, idempotent=True,
        ),
        Endpoint(
            "POST", f"{path}/cancel", "Have an AgentTask cancelled", cancel, TaskReference,
            status=202, errors=REFUSED, needs=None,
        ),
        Endpoint(
            "POST", f"{path}/answer", "Answer the question of an AgentTask", answer,
            TaskReference, body=NewAnswer, status=202, errors=REFUSED, needs=None,
        ),
        Endpoint(
            "POST", f"{path}/retry", "Do an AgentTask that is over once more", retry,
            TaskReference, body=NewAttempt, status=201, errors=REFUSED, needs=None,
        ),
    ]  # fmt: skip


async def _events(states: AsyncGenerator[Task, None], seen: int) -> AsyncGenerator[Batch, None]:
    """Yield each state as an event; what was missed meanwhile is in the one that is so now."""
    first = seen
    async with aclosing(states):
        try:
            async for task in states:
                seen += 1
                yield [(seen, f'{{"seq":{seen},"task":{task.model_dump_json()}}}')]
        except RequestError:
            # deleted, or not theirs any more: whoever comes back is told why
            if seen == first:
                raise


def _key(request: Request) -> str | None:
    """Return what the header says, in quotation marks or without.

    Raises:
        ClientError: It is there more than once, of which anybody may read another one.
    """
    found = request.headers.getlist(_KEY)
    if len(found) > 1:
        raise ClientError("invalid", "give one idempotency key", field=_KEY)
    given = found[0] if found else None
    if given is not None and len(given) > 1 and given[0] == given[-1] == '"':
        return given[1:-1]
    return given
