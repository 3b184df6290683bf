"""`orbiter exec --mcp-config`: MCP servers beside the agent's own."""

import json
import sys

import pytest
from typer.testing import CliRunner

from orbiter.cli.main import app

PROGRAM = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        error = {"code": -32000, "message": "told " + os.environ["GIVEN"]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
"""


def run(*words):
    environ = {"ANTHROPIC_API_KEY": "key", "A_SECRET": "open sesame"}
    return CliRunner().invoke(app, ["exec", *words], input="hi", env=environ)


@pytest.mark.parametrize("config", ["{", "[]", "7", '{"mcpServers": []}', "{}"])
def test_what_is_no_configuration_is_refused(config):
    done = run("--mcp-config", config)
    assert done.exit_code == 2
    assert "--mcp-config has to be JSON" in done.output


def test_a_server_is_started_with_the_variables_that_its_entry_names():
    entry = {"command": sys.executable, "args": ["-c", PROGRAM], "env": {"GIVEN": "${A_SECRET}"}}
    done = run("--mcp-config", json.dumps({"mcpServers": {"mine": entry}}))
    assert done.exit_code != 0
    assert "MCP server 'mine'" in done.output
    assert "told open sesame" in done.output
