"""A2AServer: an Orbiter agent that agents of other frameworks can find and talk to."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import Literal, Self

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware

from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    PushNotificationEvent,
)
from a2a.server.tasks import TaskStore as ProtocolStore
from a2a.types.a2a_pb2 import AgentCard, TaskArtifactUpdateEvent
from a2a.utils.push_url_validator import validate_push_notification_url
from orbiter import Agent, Swarm
from orbiter.a2a._internal.card import REST_PREFIX, make_card
from orbiter.a2a._internal.executor import Executor
from orbiter.a2a._internal.guard import Guard
from orbiter.access import is_loopback
from orbiter.agent import Provider
from orbiter.tasks import TaskBroker, TaskStore
from orbiter.types import OrbiterError

PUSH_TIMEOUT = 10.0
PushTargets = Literal["none", "public", "any"]


class A2AServer:
    """Serves one agent by the A2A protocol, over JSON-RPC and REST, with streaming.

    Each message is a task of an `orbiter.tasks` broker. An agent with the tool `ask_user` can make
    its task input-required; the client's next message to that task is the answer.

    Attributes:
        card: The agent card, which may be changed before the server starts.
        app: The ASGI application; any ASGI server can run it.
    """

    def __init__(
        self,
        agent: Agent | Swarm,
        *,
        name: str | None = None,
        description: str = "",
        version: str = "1.0.0",
        url: str = "http://127.0.0.1:9999",
        token: str | None = None,
        model: Provider | None = None,
        store: TaskStore | None = None,
        protocol_store: ProtocolStore | None = None,
        push: PushTargets = "public",
    ) -> None:
        """Make a server; nothing runs yet.

        Args:
            agent: What is served.
            name: What others know it by; by default the agent's name.
            description: What it is good for: by it, others decide whom to ask. By default the
                agent's own.
            version: Of the agent.
            url: Where clients reach it.
            token: What clients present as `Authorization: Bearer ...`. Without one only this
                machine's programs are served, by a loopback address.
            model: A model to use instead of the agents' own.
            store: Where the broker keeps its tasks; in memory by default.
            protocol_store: Where the a2a-sdk keeps what it knows of tasks; in memory by default.
            push: Where push notifications may go: `public` addresses, `any` (also those of this
                machine and its network), or `none`.

        Raises:
            OrbiterError: A swarm is given without a name, or what is no agent.
        """
        if not isinstance(agent, Agent | Swarm):
            given = f"the class {agent.__name__}" if isinstance(agent, type) else f"{agent!r:.80}"
            raise OrbiterError(f"A2AServer(...) got {given}: give an Agent or a Swarm")
        name = name or agent.name
        if not name:
            raise OrbiterError("a swarm has no name of its own: give A2AServer(name=...)")
        self.name = name
        description = description or agent.description
        self.card: AgentCard = make_card(
            self.name, description or f"The agent {self.name}", url, version,
            secured=token is not None, push=push != "none",
        )  # fmt: skip
        self._executor = Executor(self.name)
        self._broker = TaskBroker(
            store, model=model, agent_specs={self.name: agent}, listener=self._executor.hear
        )
        self._executor.broker = self._broker
        self._http = httpx.AsyncClient(timeout=PUSH_TIMEOUT, follow_redirects=False)
        configs = None if push == "none" else InMemoryPushNotificationConfigStore()
        allowed = validate_push_notification_url if push == "public" else None
        self._handler = DefaultRequestHandlerV2(
            agent_executor=self._executor,
            task_store=protocol_store or InMemoryTaskStore(),
            agent_card=self.card,
            push_config_store=configs,
            push_sender=None
            if configs is None
            else _StatusSender(self._http, configs, push_url_validator=allowed),
            push_url_validator=allowed,
        )
        self._token = token
        self._running: AsyncExitStack | None = None
        self.app = self._app()

    async def __aenter__(self) -> Self:
        """Begin to run tasks; the application does this by itself when it is started."""
        self._running = AsyncExitStack()
        self._running.push_async_callback(self._http.aclose)
        await self._running.enter_async_context(self._broker)
        self._running.push_async_callback(self._handler.aclose)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End: running tasks have a few seconds to finish."""
        running, self._running = self._running, None
        if running is not None:
            await running.__aexit__(kind, error, trace)

    def serve(self, host: str = "127.0.0.1", port: int = 9999) -> None:
        """Serve until SIGTERM or SIGINT; `url` has to lead here.

        Raises:
            OrbiterError: Others could reach it although there is no token, the port is in use, or
                an event loop runs in this thread.
        """
        import uvicorn

        from orbiter.listening import listen, outside_of_a_loop

        if self._token is None and not is_loopback(host):
            raise OrbiterError(f"'{host}' can be reached by others: give A2AServer(token=...)")
        outside_of_a_loop("A2AServer.serve", ".app")
        opened = listen(host, port)
        config = uvicorn.Config(
            self.app, host=host, port=port, access_log=False, server_header=False
        )
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[opened])

    def _app(self) -> Starlette:
        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            async with self:
                yield

        return Starlette(
            routes=[
                *create_agent_card_routes(self.card),
                *create_rest_routes(self._handler, path_prefix=REST_PREFIX),
                *create_jsonrpc_routes(self._handler, "/", enable_v0_3_compat=True),
            ],
            middleware=[Middleware(Guard, self._token)],
            lifespan=lifespan,
        )


class _StatusSender(BasePushNotificationSender):
    """Notifies of changes of state; a request for each piece of text would be a flood."""

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        if not isinstance(event, TaskArtifactUpdateEvent):
            await super().send_notification(task_id, event)
