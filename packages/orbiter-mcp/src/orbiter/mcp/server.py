"""MCPServer: agents and tools for any MCP client, over stdio or streamable HTTP."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from orbiter.access import is_loopback
from orbiter.agent import Agent, Provider
from orbiter.mcp._internal.access import BearerToken
from orbiter.mcp._internal.files import blocks
from orbiter.mcp._internal.offers import AgentOffer, Offer, ToolOffer
from orbiter.mcp.errors import MCPConfigError
from orbiter.swarm import Swarm, agents_of
from orbiter.tool import Tool

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from mcp.server import Server

DEFAULT_PORT = 8000
PATH = "/mcp"
_LAST_WORDS_SECONDS = 3


class MCPServer:
    """Serves tools, agents and swarms.

    A tool is offered as it is. An agent becomes a tool with one argument, `input`, that runs it
    from the beginning; its steps and tool calls are reported as progress, and its `output_type`
    is the schema of the structured content.
    """

    def __init__(
        self,
        offers: Agent | Swarm | Tool | Sequence[Agent | Swarm | Tool],
        *,
        name: str = "orbiter",
        instructions: str = "",
        provider: Provider | None = None,
        deps: Any = None,
    ) -> None:
        """Describe the server.

        Args:
            offers: What to serve.
            name: Told to clients.
            instructions: Told to clients: what the server is good for.
            provider: A model to use instead of the agents' own.
            deps: What tools and agents find as `RunContext.deps`.

        Raises:
            MCPConfigError: Two things have one name, there is nothing to serve, or a tool waits
                for a person, whom a call cannot wait for.
        """
        self.name = name
        self._instructions = instructions
        self._sdk_server: Server[Any] | None = None
        self._offers: dict[str, Offer] = {}
        many = offers if isinstance(offers, Sequence) else [offers]
        for one in many:
            _refuse_waiting(one, name)
            offer: Offer = (
                ToolOffer(one, name, provider, deps)
                if isinstance(one, Tool)
                else AgentOffer(one, provider, deps)
            )
            if offer.name in self._offers:
                raise MCPConfigError(
                    f"MCP server '{name}' would have two tools named '{offer.name}'; rename one"
                )
            self._offers[offer.name] = offer
        if not self._offers:
            raise MCPConfigError(f"MCP server '{name}' has nothing to serve; give agents or tools")

    @property
    def sdk_server(self) -> "Server[Any]":
        """The `mcp` SDK's server behind it."""
        if self._sdk_server is None:
            self._sdk_server = self._build()
        return self._sdk_server

    def _build(self) -> "Server[Any]":
        import mcp_types as types

        from mcp.server import Server
        from mcp.shared.exceptions import MCPError

        async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
            tools = [types.Tool(**offer.definition()) for offer in self._offers.values()]
            return types.ListToolsResult(tools=tools)

        async def call_tool(context: Any, params: Any) -> types.CallToolResult:
            offer = self._offers.get(params.name)
            if offer is None:
                known = ", ".join(self._offers)
                raise MCPError(
                    types.INVALID_PARAMS, f"there is no tool '{params.name}'; the tools: {known}"
                )
            answer = await offer.call(params.arguments or {}, context.session.report_progress)
            text = types.TextContent(type="text", text=answer.text)
            # a picture needs no words beside it
            words = [text] if answer.text or not answer.files else []
            return types.CallToolResult(
                content=[*words, *blocks(answer.files)],
                structured_content=answer.structured,
                is_error=answer.failed,
            )

        return Server(
            self.name,
            instructions=self._instructions or None,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )

    async def serve_stdio(self) -> None:
        """Serve the client at stdin and stdout until it goes."""
        from mcp.server.stdio import stdio_server

        server = self.sdk_server
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    def http_app(self, *, host: str = "127.0.0.1", token: str | None = None) -> "Starlette":
        """Return an ASGI application with the endpoint `/mcp`, for a server of your own.

        Args:
            host: Where it will be reached; on the loopback address, requests that a browser was
                tricked into sending (by their Host and Origin) are refused.
            token: What clients have to send as `Authorization: Bearer <token>`.
        """
        app = self.sdk_server.streamable_http_app(streamable_http_path=PATH, host=host)
        if token is not None:
            app.add_middleware(BearerToken, token=token)
        return app

    async def serve_http(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        token: str | None = None,
        on_listening: Callable[[str], None] | None = None,
    ) -> None:
        """Serve `http://<host>:<port>/mcp` until this process is told to end or is cancelled.

        Args:
            host: The address to listen on.
            port: The port; 0 takes any that is free.
            on_listening: Called with the URL as soon as it takes connections.
            token: What clients have to send as `Authorization: Bearer <token>`.

        Raises:
            MCPConfigError: Others than this machine could use it, and there is no token.
            OrbiterError: The port is in use.
        """
        if token is None and not is_loopback(host):
            raise MCPConfigError(
                f"MCP server '{self.name}' would serve anybody who reaches {host}:{port}; "
                "give a token, or serve on 127.0.0.1"
            )
        import uvicorn

        from orbiter.listening import listen, url_of

        opened = listen(host, port)
        if on_listening is not None:
            on_listening(f"{url_of(host, opened)}{PATH}")
        app = self.http_app(host=host, token=token)
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            log_level="warning",
            # clients keep a stream open for as long as there is a server
            timeout_graceful_shutdown=_LAST_WORDS_SECONDS,
        )
        await uvicorn.Server(config).serve(sockets=[opened])

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r}, {list(self._offers)})"


def _refuse_waiting(offered: Agent | Swarm | Tool, server: str) -> None:
    """Refuse what would have to wait for a person in the middle of a client's call."""
    if isinstance(offered, Tool):
        tools: list[Tool] = [offered]
    else:
        tools = [tool for agent in agents_of(offered, asked=False) for tool in agent.tools]
    for tool in tools:
        if tool.approval is not False:
            raise MCPConfigError(
                f"MCP server '{server}' cannot serve '{tool.name}', which waits for a person: a "
                "call cannot wait; leave the tool out, or serve one without approval and have the "
                "client ask"
            )
