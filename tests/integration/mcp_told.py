"""An MCP server that tells what it was told: its arguments and a variable; by stdio or HTTP."""

import asyncio
import os
import sys
from pathlib import Path

from orbiter import tool
from orbiter.mcp import MCPServer


@tool
def told() -> dict:
    """Tell what this server was told."""
    given = os.environ.get("GIVEN", "")
    return {"arguments": sys.argv[1:], "given": given[::-1]}


server = MCPServer([told], name="told", instructions="Tells what it was told.")

if __name__ == "__main__":
    if token := os.environ.get("TOKEN"):
        asyncio.run(server.serve_http(port=int(sys.argv[1]), token=token))
    else:
        Path(sys.argv[2]).touch()
        asyncio.run(server.serve_stdio())
