"""The line to a remote agent: the SDK's client, made from the agent's card when first needed."""

import asyncio
from collections.abc import AsyncGenerator
from uuid import uuid4

import httpx

from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
)
from a2a.types.a2a_pb2 import TaskState as RemoteState
from a2a.utils.constants import PROTOCOL_VERSION_CURRENT, VERSION_HEADER, TransportProtocol
from a2a.utils.errors import A2AError
from orbiter.a2a._internal.reply import Reply
from orbiter.a2a.remote import RemoteAgentError, RemoteTask
from orbiter.tasks import TaskState

BINDINGS = [TransportProtocol.JSONRPC.value, TransportProtocol.HTTP_JSON.value]
_STATES = {
    RemoteState.TASK_STATE_SUBMITTED: TaskState.PENDING,
    RemoteState.TASK_STATE_WORKING: TaskState.RUNNING,
    RemoteState.TASK_STATE_COMPLETED: TaskState.COMPLETED,
    RemoteState.TASK_STATE_FAILED: TaskState.FAILED,
    RemoteState.TASK_STATE_REJECTED: TaskState.FAILED,
    RemoteState.TASK_STATE_CANCELED: TaskState.CANCELLED,
    RemoteState.TASK_STATE_INPUT_REQUIRED: TaskState.INPUT_REQUIRED,
    RemoteState.TASK_STATE_AUTH_REQUIRED: TaskState.INPUT_REQUIRED,
}


class Connection:
    """Speaks to one agent; every failure becomes a RemoteAgentError."""

    def __init__(self, url: str, token: str | None, http: httpx.AsyncClient) -> None:
        self._url = url
        self._token = token
        self._http = http
        self._client: Client | None = None
        self._card = AgentCard()
        self._connecting = asyncio.Lock()

    async def card(self) -> AgentCard:
        """Return the agent's card."""
        await self._connected()
        return self._card

    async def events(self, request: SendMessageRequest, reply: Reply) -> AsyncGenerator[str, None]:
        """Send a message and yield what is new in the agent's text, while `reply` grows."""
        client = await self._connected()
        try:
            async for event in client.send_message(request):
                yield reply.take(event)
        except (A2AError, httpx.HTTPError) as error:
            raise self._failure(error) from error

    async def get(self, task_id: str) -> RemoteTask:
        """Return a task."""
        client = await self._connected()
        reply = Reply()
        try:
            reply.take_task(await client.get_task(GetTaskRequest(id=task_id)))
        except (A2AError, httpx.HTTPError) as error:
            raise self._failure(error) from error
        return task_of(reply)

    async def cancel(self, task_id: str) -> RemoteTask:
        """Cancel a task."""
        client = await self._connected()
        reply = Reply()
        try:
            reply.take_task(await client.cancel_task(CancelTaskRequest(id=task_id)))
        except (A2AError, httpx.HTTPError) as error:
            raise self._failure(error) from error
        return task_of(reply)

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None:
                self._http.headers[VERSION_HEADER] = PROTOCOL_VERSION_CURRENT
                if self._token is not None:
                    self._http.headers["Authorization"] = f"Bearer {self._token}"
                config = ClientConfig(httpx_client=self._http, supported_protocol_bindings=BINDINGS)
                try:
                    self._card = await A2ACardResolver(self._http, self._url).get_agent_card()
                    self._client = ClientFactory(config).create(self._card)
                except (A2AError, httpx.HTTPError, ValueError) as error:
                    raise self._failure(error) from error
            return self._client

    def _failure(self, error: Exception) -> RemoteAgentError:
        return RemoteAgentError(f"the agent at {self._url}: {error or type(error).__name__}")


def request_for(text: str, task_id: str | None, context_id: str | None) -> SendMessageRequest:
    """Return the request that sends a text."""
    message = Message(
        message_id=uuid4().hex, role=Role.ROLE_USER, parts=[Part(text=text)],
        task_id=task_id or "", context_id=context_id or "",
    )  # fmt: skip
    return SendMessageRequest(message=message)


def task_of(reply: Reply) -> RemoteTask:
    """Return what a reply says of its task."""
    state = _STATES.get(reply.state, TaskState.RUNNING)
    text = reply.text if state in (TaskState.COMPLETED, TaskState.RUNNING) else reply.said
    return RemoteTask(reply.task_id, reply.context_id, state, text or reply.text)
