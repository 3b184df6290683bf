"""MCPClient: one server, its tools, and calls that survive the server's end."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from orbiter.approval import Approvals, require_approval
from orbiter.mcp._internal.asking import UNCLEAR, Call, Questions
from orbiter.mcp._internal.convert import from_wire
from orbiter.mcp._internal.line import Line
from orbiter.mcp._internal.loss import LostError, is_loss, is_repeatable, lost
from orbiter.mcp._internal.names import chosen, full_name
from orbiter.mcp.config import HttpServer, ServerConfig, StdioServer, parse_server
from orbiter.mcp.elicitation import ElicitationHandler
from orbiter.mcp.errors import MCPConfigError, MCPConnectionError
from orbiter.mcp.results import MCPResult, Progress
from orbiter.mcp.tool import MCPTool

DEFAULT_TIMEOUT = 60.0
DEFAULT_CONNECT_TIMEOUT = 30.0
RECONNECT_PAUSES = (0.0, 0.5, 2.0)

ProgressHandler = Callable[[Progress], Awaitable[None] | None]


class MCPClient:
    """A connection to one MCP server: `async with MCPClient("npx ...") as client`.

    Attributes:
        name: Names the server in errors, and prefixes its tools where several servers meet.
    """

    def __init__(
        self,
        server: str | ServerConfig | Any,
        *,
        name: str | None = None,
        prefix: str = "",
        allow: Sequence[str] | None = None,
        deny: Sequence[str] = (),
        approval: Approvals = False,
        timeout: float | None = DEFAULT_TIMEOUT,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        on_progress: ProgressHandler | None = None,
        on_elicitation: ElicitationHandler | None = None,
        reconnect_pauses: Sequence[float] = RECONNECT_PAUSES,
        files: bool = True,
    ) -> None:
        """Describe the connection; nothing is started before `async with`.

        Args:
            server: A URL (streamable HTTP), a command line (stdio), a StdioServer or HttpServer,
                or a server object in this process, of Orbiter or of the `mcp` SDK.
            name: By default the program's name or the URL's host.
            prefix: Put before the name of every tool.
            allow: Only tools with these names, as the server calls them or with their prefix;
                `*` and `?` stand for any characters.
            deny: Not the tools with these names.
            approval: Which tools wait for a person before each call: True for all, such names, or
                a function of a call's arguments.
            timeout: Seconds a call may go without an answer or a word of progress; None waits on.
            connect_timeout: Seconds until the server has to have answered for the first time.
            on_progress: Told of the progress of every call.
            on_elicitation: Answers what the server asks a person in a call; without, the run of an
                agent that calls pauses with the question.
            reconnect_pauses: Seconds to wait before each attempt to reach a server that ended.
            files: Whether models are shown the images and documents that tools give, beside a line
                for each; without, a model that takes no images can use such tools.

        Raises:
            MCPConfigError: The command line cannot be read, or this is no server.
        """
        server = parse_server(server) if isinstance(server, str) else server
        if isinstance(server, StdioServer | HttpServer):
            self.name = name or server.default_name
        else:
            server = _in_process(server)
            self.name = name or str(getattr(server, "name", "server"))
        self.prefix = prefix
        self._allow = None if allow is None else tuple(allow)
        self._deny = tuple(deny)
        self._approval = approval
        self._timeout = timeout
        self._files = files
        self._on_progress = on_progress
        if isinstance(server, HttpServer) and server.oauth is not None:
            # a person signs in first
            connect_timeout += server.oauth.timeout
        self._questions = Questions(self.name, on_elicitation)
        self._line = Line(
            self.name, server, connect_timeout, reconnect_pauses, self._questions.answer
        )
        self._repeatable: frozenset[str] = frozenset()

    async def __aenter__(self) -> Self:
        """Start or reach the server.

        Raises:
            MCPConnectionError: It cannot be, the text has the last lines of its stderr; or the
                client is open already.
        """
        await self._line.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the connection; a program that was started has ended when this returns."""
        await self._line.close()

    @property
    def is_open(self) -> bool:
        """Whether it was entered and not left; the server may have ended all the same."""
        return self._line.is_open

    async def list_tools(self) -> list[MCPTool]:
        """Ask the server for its tools; those that are allowed, with their prefix.

        Raises:
            MCPConnectionError: The server ended and cannot be reached again, or does not answer.
            OrbiterError: `allow` or `approval` names a tool that the server does not have.
        """
        connection = await self._line.connected()
        try:
            async with asyncio.timeout(self._timeout):
                found = await _listed(connection.client)
        except TimeoutError as error:
            raise MCPConnectionError(
                self.name, f"did not list its tools within {self._timeout:g} s"
            ) from error
        except Exception as error:
            raise MCPConnectionError(self.name, f"did not list its tools: {error}") from error
        self._repeatable = frozenset(tool.name for tool in found if is_repeatable(tool))
        tools = [
            MCPTool(self, tool.name, full_name(self.prefix, tool.name), tool, files=self._files)
            for tool in found
        ]
        kept = chosen(tools, self._allow, self._deny)
        require_approval(kept, self._approval, f"MCPClient('{self.name}', approval=...)")
        return kept

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, tool_call_id: str = ""
    ) -> MCPResult:
        """Call a tool by the name the server knows.

        A server that ended is started or reached again first. One that ends during the call is
        asked again only if that cannot do a thing twice: the tool calls itself read-only or
        idempotent, or the call never reached it.

        Args:
            name: The tool's name, without a prefix.
            arguments: What to call it with.
            tool_call_id: Given back in the result.

        Returns:
            Its answer; an `error` in it when the tool, the server or the time failed it, and a
            `question` when the server asks a person who is not there yet.
        """
        told: list[Progress] = []
        call = Call(name, self._timeout)
        try:
            try:
                result = await self._call(call, arguments, told)
            except LostError as loss:
                if not loss.unheard and name not in self._repeatable:
                    raise
                call = Call(name, self._timeout)
                result = await self._call(call, arguments, told)
        except (MCPConnectionError, TimeoutError) as error:
            problem = str(error) if not isinstance(error, TimeoutError) else self._late()
        except Exception as error:
            problem = str(error) or type(error).__name__
        else:
            answer = from_wire(result, tool_call_id, name)
            if call.question is None and not (answer.error and call.unclear):
                return answer
            problem = f"{answer.error}; {UNCLEAR}"
        if told:
            problem += f"; its last progress was {told[-1]}"
        if call.question is not None:
            problem = f"nobody has answered yet: {call.question}"
        return MCPResult(
            tool_call_id=tool_call_id, tool_name=name, error=problem, question=call.question
        )

    def _late(self) -> str:
        return f"MCP server '{self.name}': no answer within {self._timeout:g} s"

    async def _call(
        self, call: Call, arguments: Mapping[str, Any] | None, told: list[Progress]
    ) -> Any:
        connection = await self._line.connected()

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            call.alive()
            told.append(
                Progress(
                    server=self.name,
                    tool=call.tool,
                    progress=progress,
                    total=total,
                    message=message,
                )
            )
            if self._on_progress is not None:
                outcome = self._on_progress(told[-1])
                if inspect.isawaitable(outcome):
                    await outcome

        try:
            async with call.clock:
                call.alive()
                with self._questions.during(call):
                    return await connection.client.call_tool(
                        call.tool, dict(arguments or {}), progress_callback=progressed
                    )
        except Exception as error:
            if not is_loss(error):
                raise
            await connection.close()
            raise lost(error, connection) from error

    def __repr__(self) -> str:
        return f"MCPClient({self.name!r})"


def _in_process(server: Any) -> Any:
    """Return the SDK's server or transport; both are known by what they can do alone."""
    server = getattr(server, "sdk_server", server)
    if isinstance(server, Path):
        raise MCPConfigError(f"{server} is a file of servers: give mcp_tools(Path(...)) instead")
    able = callable(getattr(server, "run", None)) or hasattr(server, "__aenter__")
    if isinstance(server, type) or not able:
        given = server.__name__ if isinstance(server, type) else f"{server!r:.80}"
        raise MCPConfigError(
            f"{given} is no MCP server: give a URL, a command line, a StdioServer, an HttpServer "
            "or an instance of MCPServer"
        )
    return server


async def _listed(client: Any) -> list[Any]:
    """Read all pages of a server's list of tools."""
    page = await client.list_tools(cursor=None)
    found = list(page.tools)
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        found += page.tools
    return found
