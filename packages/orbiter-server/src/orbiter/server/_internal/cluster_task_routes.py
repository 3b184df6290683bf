"""Endpoints that make and change tasks of the cluster: as whoever asks, by a TaskClient."""

from starlette.requests import Request
from starlette.responses import Response

from orbiter.client import TaskClient
from orbiter.server._internal.endpoint import Endpoint
from orbiter.server._internal.services import Services, cluster_of
from orbiter.server._internal.viewer import viewer_of
from orbiter.server._internal.viewer_tasks import ViewerTasks
from orbiter.server.cluster_models import (
    NewAnswer,
    NewAttempt,
    NewClusterTask,
    TaskReference,
)

REFUSED = (404, 501, 502, 403, 409)


def client_of(services: Services, request: Request) -> TaskClient:
    """Return the client of whoever asks.

    Raises:
        RequestError: The server knows no cluster.
    """
    tasks = ViewerTasks(cluster_of(services), viewer_of(request), services.config.kubeconfig)
    return TaskClient(tasks)


def cluster_task_endpoints(services: Services) -> list[Endpoint]:
    """Return the endpoints."""

    def client(request: Request) -> TaskClient:
        return client_of(services, request)

    async def submit(request: Request, body: NewClusterTask) -> Response:
        tasks = client(request)
        given = await tasks.submit(
            body.task(), namespace=body.namespace, key=_key(request.headers.get("idempotency-key"))
        )
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

    path = "/v1/cluster/tasks/{namespace}/{name}"
    return [
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


def _key(given: str | None) -> str | None:
    """Return what the header says, in quotation marks or without."""
    if given is not None and len(given) > 1 and given[0] == given[-1] == '"':
        return given[1:-1]
    return given
