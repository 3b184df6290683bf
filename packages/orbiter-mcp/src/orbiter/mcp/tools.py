"""`mcp_tools`: from a server, several, or a config file, to tools for an agent."""

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from orbiter.approval import Approvals, require_approval
from orbiter.mcp._internal.names import chosen, server_prefix
from orbiter.mcp.client import (
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_TIMEOUT,
    MCPClient,
    ProgressHandler,
)
from orbiter.mcp.config import ServerConfig, load_config
from orbiter.mcp.elicitation import ElicitationHandler
from orbiter.mcp.errors import MCPConfigError
from orbiter.mcp.tool import MCPTool

Server = str | ServerConfig | Any


class MCPToolSet:
    """What `mcp_tools` returns: `async with` it, or `await` it."""

    def __init__(
        self,
        clients: Sequence[MCPClient],
        allow: Sequence[str] | None,
        deny: Sequence[str],
        approval: Approvals = False,
    ) -> None:
        self._clients = clients
        self._approval = approval
        self._allow = allow
        self._deny = deny
        self._stack = AsyncExitStack()

    def __await__(self) -> Generator[Any, None, list[MCPTool]]:
        """Connect; the servers stay until the event loop ends."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> list[MCPTool]:
        """Connect to all servers at the same time and list their tools.

        Raises:
            MCPConnectionError: A server cannot be reached; the others are closed again.
            OrbiterError: Two tools have one name, or `allow` or `approval` names one that is not
                there.
        """
        async with AsyncExitStack() as stack:
            tasks = [asyncio.create_task(_listed(client, stack)) for client in self._clients]
            try:
                lists = await asyncio.gather(*tasks)
            except BaseException:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                raise
            found = [tool for tools in lists for tool in tools]
            tools = _without_collisions(chosen(found, self._allow, self._deny))
            if self._approval is not False:
                require_approval(tools, self._approval, "mcp_tools(approval=...)")
            self._stack = stack.pop_all()
        return tools

    async def __aexit__(self, *error: object) -> None:
        """Close all connections; programs that were started have ended when this returns."""
        await self._stack.aclose()


async def _listed(client: MCPClient, stack: AsyncExitStack) -> list[MCPTool]:
    if not client.is_open:  # one that is open stays its owner's to close
        await stack.enter_async_context(client)
    return await client.list_tools()


def mcp_tools(
    server: Server | Path | Mapping[str, Any] | Sequence[Server],
    *,
    allow: Sequence[str] | None = None,
    deny: Sequence[str] = (),
    approval: Approvals = False,
    prefix: str | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
    on_progress: ProgressHandler | None = None,
    on_elicitation: ElicitationHandler | None = None,
    environ: Mapping[str, str] | None = None,
    files: bool = True,
) -> MCPToolSet:
    """Give the tools of a server, or of several, to an agent.

    `async with mcp_tools(...) as tools` closes the connections at its end; with
    `tools = await mcp_tools(...)` they stay until the event loop ends.

    Args:
        server: What MCPClient takes, a list of such, the Path of a config file, or its content
            (`{"mcpServers": {...}}`). An MCPClient in a list keeps its own settings.
        allow: Only tools with these names, as the server calls them or with their prefix; `*` and
            `?` stand for any characters.
        deny: Not the tools with these names.
        approval: Which tools wait for a person before each call: True for all, such names, or a
            function of a call's arguments. What an MCPClient says of its own holds, too.
        prefix: Put before all names; by default nothing, or `<server>_` with several servers.
        timeout: Seconds a call may go without an answer or a word of progress; None waits on.
        connect_timeout: Seconds until a server has to have answered for the first time.
        on_progress: Told of the progress of every call.
        on_elicitation: Answers what a server asks a person in a call; without, the run pauses with
            the question, and the call is made again with the answer.
        environ: Where a config's variables are looked up, by default the process's environment.
        files: Whether models are shown the images and documents that tools give.

    Returns:
        The tools, when it is awaited or entered.

    Raises:
        MCPConfigError: The config or a command line cannot be used.
    """
    several = isinstance(server, Mapping | Path | list | tuple)
    named: list[tuple[str | None, Server]]
    if isinstance(server, Mapping | Path):
        named = list(load_config(server, environ=environ).items())
    else:
        named = [(None, one) for one in (server if isinstance(server, list | tuple) else [server])]

    def client(name: str | None, one: Server) -> MCPClient:
        if isinstance(one, MCPClient):
            return one
        made = MCPClient(
            one,
            name=name,
            timeout=timeout,
            connect_timeout=connect_timeout,
            on_progress=on_progress,
            on_elicitation=on_elicitation,
            files=files,
        )
        made.prefix = server_prefix(made.name) if several and prefix is None else prefix or ""
        return made

    return MCPToolSet([client(name, one) for name, one in named], allow, deny, approval)


def _without_collisions(tools: list[MCPTool]) -> list[MCPTool]:
    seen: dict[str, MCPTool] = {}
    for tool in tools:
        other = seen.setdefault(tool.name, tool)
        if other is not tool:
            raise MCPConfigError(
                f"two tools are named '{tool.name}': of MCP server '{other.client.name}' and of "
                f"'{tool.client.name}'; give one MCPClient a prefix"
            )
    return tools
