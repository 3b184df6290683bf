"""`orbiter mcp`: servers of the Model Context Protocol, from both sides."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from orbiter.cli.ui.options import AsJson, Model
from orbiter.cli.ui.outcome import ExitCode, UsageError, ends, usage

app = typer.Typer(
    help="List and call tools of MCP servers, or serve agents as one.", no_args_is_help=True
)
ServerName = Annotated[
    str,
    typer.Argument(
        metavar="SERVER", help="A URL, a command line in quotes, or a config file (.json)."
    ),
]


@app.command()
@ends
def tools(server: ServerName, as_json: AsJson = False) -> None:
    """List the tools of a server, or of all servers of a config file."""
    import asyncio

    from orbiter.cli.ui.terminal import print_json
    from orbiter.cli.ui.text import plain

    async def main() -> list[dict[str, Any]]:
        async with _tools(server) as found:
            return [tool.to_schema()["function"] for tool in found]

    found = asyncio.run(main())
    if as_json:
        print_json(found)
        return
    for tool in found:
        line = plain(tool["description"]).strip().partition("\n")[0]
        names = ", ".join(tool["parameters"].get("properties", {}))
        sys.stdout.write(f"{tool['name']}({names})  {line}".rstrip() + "\n")


@app.command()
@ends
def call(
    server: ServerName,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="As `tools` lists it.")],
    arguments: Annotated[
        str, typer.Argument(metavar="[JSON]", help="What to call it with.", show_default=False)
    ] = "{}",
    as_json: AsJson = False,
) -> int:
    """Call a tool and print what it answers."""
    import asyncio

    from orbiter.cli.ui.terminal import print_json
    from orbiter.types import OrbiterError, ToolExecutionError

    try:
        parsed = json.loads(arguments)
    except ValueError as error:
        raise UsageError(f"{arguments!r} is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise UsageError(f"{arguments!r} is no JSON object")

    async def main() -> str:
        async with _tools(server) as found:
            chosen = {one.name: one for one in found}.get(tool)
            if chosen is None:
                known = ", ".join(one.name for one in found) or "none"
                raise UsageError(f"there is no tool '{tool}'; tools: {known}")
            return str(await chosen.execute(**parsed))

    try:
        answer = asyncio.run(main())
    except ToolExecutionError as error:
        if as_json:
            print_json({"output": None, "error": str(error.cause)})
            return ExitCode.FAILED
        raise OrbiterError(str(error)) from error
    if as_json:
        print_json({"output": answer, "error": None})
    else:
        sys.stdout.write(answer + "\n")
    return ExitCode.OK


@app.command()
@ends
def serve(
    agents: Annotated[list[str], typer.Argument(metavar="AGENT...", help="What to serve.")],
    http: Annotated[
        bool, typer.Option("--http", help="Serve HTTP instead of standard input and output.")
    ] = False,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", help="Port.", min=0, max=65535)] = 8000,
    model: Model = None,
    as_json: AsJson = False,
) -> None:
    """Serve agents as tools, for any MCP client. ORBITER_MCP_TOKEN is what HTTP clients send."""
    import asyncio
    import os
    from contextlib import AsyncExitStack

    from orbiter.cli.agent.loading import load_agent
    from orbiter.cli.ui.terminal import print_json
    from orbiter.mcp import MCPServer

    loaded = [load_agent(one, model=model) for one in agents]

    def on_listening(url: str) -> None:
        if as_json:
            print_json({"url": url})
        else:
            sys.stderr.write(f"serving {', '.join(agents)} at {url}\n")

    async def main() -> None:
        async with AsyncExitStack() as stack:
            targets = [await stack.enter_async_context(one) for one in loaded]
            server = MCPServer(targets)
            if not http:
                await server.serve_stdio()
                return
            token = os.environ.get("ORBITER_MCP_TOKEN") or None
            with usage():
                await server.serve_http(
                    host=host, port=port, token=token, on_listening=on_listening
                )

    asyncio.run(main())


def _tools(server: str) -> Any:
    from orbiter.mcp import mcp_tools

    with usage():
        return mcp_tools(Path(server) if server.endswith(".json") else server)
