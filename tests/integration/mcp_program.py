"""An MCP server as users write it: tools and an agent with a scripted model, by stdio or HTTP."""

import asyncio
import os
import sys

from orbiter import Agent, tool
from orbiter.mcp import MCPServer
from orbiter.models import ScriptedModel, call


@tool
def pid() -> int:
    """Tell the process's id."""
    return os.getpid()


@tool
def add(a: int, b: int) -> dict:
    """Add two numbers."""
    return {"sum": a + b}


@tool
def die() -> str:
    """End the server in the middle of the call."""
    os._exit(3)


calculator = Agent(name="calculator", instructions="Calculates.", tools=[add])
server = MCPServer(
    [pid, add, die, calculator],
    name="program",
    instructions="Calculates.",
    provider=ScriptedModel(call("add", a=20, b=22), "It is 42."),
)

if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(server.serve_http(port=int(sys.argv[1]), token=os.environ.get("TOKEN")))
    else:
        asyncio.run(server.serve_stdio())
