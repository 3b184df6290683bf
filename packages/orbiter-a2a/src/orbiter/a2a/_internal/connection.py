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


class _Line:
    """What belongs to one event loop: its connections, and the client that uses them."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.client: Client | None = None
        self.card = AgentCard()
        self.connecting = asyncio.Lock()
        self.life: AsyncGenerator[None, None] | None = None


class Connection:
    """Speaks to one agent, from any event loop; every failure becomes a RemoteAgentError."""

    def __init__(
        self, url: str, token: str | None, http: httpx.AsyncClient | None, timeout: float
    ) -> None:
        """Remember where the agent is.

        Args:
            url: Where its card is.
            token: Presented as a bearer token.
            http: A client to use for all, which is not closed; else each event loop has its own.
            timeout: Seconds an own client waits.
        """
        self._url = url
        self._token = token
        self._given = http
        self._timeout = timeout
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}

    async def aclose(self) -> None:
        """Close the connections of the running event loop; others are closed at their end."""
        line = self._lines.get(asyncio.get_running_loop())
        if line is not None and line.life is not None:
            await line.life.aclose()

    async def card(self) -> AgentCard:
        """Return the agent's card."""
        return (await self._connected())[1]

    async def events(self, request: SendMessageRequest, reply: Reply) -> AsyncGenerator[str, None]:
        """Send a message and yield what is new in the agent's text, while `reply` grows."""
        client, _ = await self._connected()
        try:
            async for event in client.send_message(request):
                yield reply.take(event)
        except (A2AError, httpx.HTTPError) as error:
            raise self._failure(error) from error

    async def get(self, task_id: str) -> RemoteTask:
        """Return a task."""
        client, _ = await self._connected()
        reply = Reply()
        try:
            reply.take_task(await client.get_task(GetTaskRequest(id=task_id)))
        except (A2AError, httpx.HTTPError) as error:
            raise self._failure(error) from error
        return task_of(reply)

    async def cancel(self, task_id: str) -> RemoteTask:
        """Cancel a task."""
        client, _ = await self._connected()
        reply = Reply()
        try:
            reply.take_task(await client.cancel_task(CancelTaskRequest(id=task_id)))
        except (A2AError, httpx.HTTPError) as error:
            raise self._failure(error) from error
        return task_of(reply)

    async def _connected(self) -> tuple[Client, AgentCard]:
        line = await self._line()
        async with line.connecting:
            if line.client is None:
                http = line.http
                http.headers[VERSION_HEADER] = PROTOCOL_VERSION_CURRENT
                if self._token is not None:
                    http.headers["Authorization"] = f"Bearer {self._token}"
                config = ClientConfig(httpx_client=http, supported_protocol_bindings=BINDINGS)
                try:
                    line.card = await A2ACardResolver(http, self._url).get_agent_card()
                    line.client = ClientFactory(config).create(line.card)
                except (A2AError, httpx.HTTPError, ValueError) as error:
                    raise self._failure(error) from error
            return line.client, line.card

    async def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        if loop in self._lines:
            return self._lines[loop]
        # a loop that was closed without its generators being shut down
        for gone in [other for other in list(self._lines) if other.is_closed()]:
            self._lines.pop(gone, None)
        line = _Line(self._given or httpx.AsyncClient(timeout=self._timeout))
        line.life = self._life(loop, line)
        self._lines[loop] = line
        await anext(line.life)
        return line

    async def _life(
        self, loop: asyncio.AbstractEventLoop, line: _Line
    ) -> AsyncGenerator[None, None]:
        """Last as long as the loop: before its end it closes the generators that it knows."""
        try:
            yield
        finally:
            self._lines.pop(loop, None)
            if self._given is None:
                await line.http.aclose()

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
