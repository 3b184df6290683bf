"""An MCP server of one tool, `told`, which tells what it was given; for agents in pods."""

from typing import Any

PROGRAM = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    version = asked.get("params", {}).get("protocolVersion")
    about = {"name": "mini", "version": "1"}
    token = os.environ["TOKEN"]
    said = [{"type": "text", "text": f"told {token}, {len(token)} long"}]
    answers = {
        "initialize": {
            "protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about,
        },
        "tools/list": {"tools": [{"name": "told", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": said},
    }
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}
        print(json.dumps(answer), flush=True)
"""


def mini_server(secret: str, key: str = "token") -> dict[str, Any]:
    """The server as a spec names it; it is given a Secret's key as TOKEN."""
    reference = {"secretKeyRef": {"name": secret, "key": key}}
    return {
        "name": "mini",
        "command": "python3",
        "args": ["-c", PROGRAM],
        "env": [{"name": "TOKEN", "valueFrom": reference}],
    }
