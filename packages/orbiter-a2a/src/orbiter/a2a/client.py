"""A2AClient: an agent that runs elsewhere, used like one that runs here."""

from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

import httpx

from a2a.types.a2a_pb2 import AgentCard, TaskPushNotificationConfig
from orbiter import Agent
from orbiter.a2a._internal.connection import Connection, request_for, task_of
from orbiter.a2a._internal.conversation import Conversation
from orbiter.a2a._internal.reply import Reply
from orbiter.a2a.remote import RemoteTask


class A2AClient(Agent):
    """A remote agent. Give it to `run`, `handoffs` or a `Swarm`, or speak to it yourself.

    It is told the user's last message, after what was said before it. When it asks a question, the
    question is its answer here, and the next run of that conversation continues the remote task.
    Use it as an async context manager, or call `aclose`.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "remote",
        description: str = "",
        token: str | None = None,
        timeout: float = 600.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """Name the agent; nothing is sent yet. `connect` asks its card for name and description.

        Args:
            url: Where its card is: `<url>/.well-known/agent-card.json`.
            name: What it is called here.
            description: What it is good for; by it, other agents decide to hand off.
            token: Presented as `Authorization: Bearer ...`.
            timeout: Seconds without a sign of it.
            http: A client to use instead of an own one; it is not closed.
        """
        super().__init__(name=name, model=f"a2a:{name}", description=description)
        self.url = url
        self._connection = Connection(url, token, http, timeout)
        self.provider = Conversation(self._connection, lambda: self.name)

    @classmethod
    async def connect(cls, url: str, **options: Any) -> Self:
        """Return the agent at `url`, named and described as its card says.

        Args:
            url: See the constructor.
            **options: What else the constructor takes; it outranks the card.

        Raises:
            RemoteAgentError: There is no card.
        """
        client = cls(url, **options)
        try:
            card = await client.card()
        except BaseException:
            await client.aclose()
            raise
        if "name" not in options:
            client.name = card.name
        if "description" not in options:
            client.description = card.description
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; others are closed at their end."""
        await self._connection.aclose()

    async def card(self) -> AgentCard:
        """Return the agent's card.

        Raises:
            RemoteAgentError: There is none.
        """
        return await self._connection.card()

    async def send(
        self,
        text: str,
        *,
        task_id: str | None = None,
        context_id: str | None = None,
        wait: bool = True,
        push: TaskPushNotificationConfig | None = None,
    ) -> RemoteTask:
        """Send a message and return the task of it.

        Args:
            text: The message.
            task_id: A task that needs input, which this gives.
            context_id: A conversation to go on with.
            wait: Until the task is over or needs input; else it goes on behind the answer.
            push: Where the agent is to tell of changes.

        Raises:
            RemoteAgentError: The agent cannot be reached or refuses.
        """
        reply = Reply()
        request = request_for(text, task_id, context_id)
        request.configuration.return_immediately = not wait
        if push is not None:
            request.configuration.task_push_notification_config.CopyFrom(push)
        async with aclosing(self._connection.events(request, reply)) as pieces:
            async for _ in pieces:
                if not wait and reply.task_id:
                    break
        return task_of(reply)

    async def get(self, task_id: str) -> RemoteTask:
        """Return a task as it is now.

        Raises:
            RemoteAgentError: The agent does not know it or cannot be reached.
        """
        return await self._connection.get(task_id)

    async def cancel(self, task_id: str) -> RemoteTask:
        """Cancel a task and return it.

        Raises:
            RemoteAgentError: It cannot be cancelled, or the agent cannot be reached.
        """
        return await self._connection.cancel(task_id)
