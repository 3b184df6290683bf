"""An MCP server that tells what it was told: its arguments and a variable; by stdio or HTTP.

By stdio it speaks the protocol by itself: it has begun before an agent loses its patience.
"""

import json
import os
import sys
from pathlib import Path


def told() -> dict:
    """Tell what this server was told."""
    given = os.environ.get("GIVEN", "")
    return {"arguments": sys.argv[1:], "given": given[::-1]}


def answer(asked: dict) -> dict:
    match asked["method"]:
        case "initialize":
            return {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "told", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object", "properties": {}}
            return {"tools": [{"name": "told", "description": "Tells.", "inputSchema": schema}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": json.dumps(told())}]}
    return {}


def speak() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            said = {"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked)}
            print(json.dumps(said), flush=True)


def serve(port: int, token: str) -> None:
    import asyncio

    from orbiter import tool
    from orbiter.mcp import MCPServer

    server = MCPServer([tool(told)], name="told", instructions="Tells what it was told.")
    asyncio.run(server.serve_http(port=port, token=token))


if __name__ == "__main__":
    if secret := os.environ.get("TOKEN"):
        serve(int(sys.argv[1]), secret)
    else:
        Path(sys.argv[2]).touch()
        speak()
