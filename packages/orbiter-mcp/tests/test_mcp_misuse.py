"""What is given in place of an MCP server is named before anything is started."""

from pathlib import Path

import pytest

from orbiter import Agent
from orbiter.mcp import MCPClient, MCPConfigError, MCPServer, mcp_tools


@pytest.mark.parametrize("name", ["nope.json", "~/.config/mcp.json"])
@pytest.mark.parametrize("use", [mcp_tools, MCPClient])
def test_the_name_of_a_config_file_as_text_is_told_from_a_command_line(use, name):
    with pytest.raises(MCPConfigError, match=r"is no command line.*\(Path\(") as refused:
        use(name)
    assert repr(name) in str(refused.value)


def test_a_program_may_be_given_a_json_file():
    assert MCPClient("serve --config mcp.json").name == "serve"


@pytest.mark.parametrize("given", [5, None, b"npx", Agent(name="a"), MCPServer, [[]]], ids=repr)
def test_what_is_no_server_is_named_with_what_one_is(given):
    with pytest.raises(MCPConfigError, match="is no MCP server: give a URL, a command line") as no:
        mcp_tools(given)
    assert str(getattr(given, "__name__", given if given != [[]] else "[]")) in str(no.value)


def test_a_path_to_one_connection_is_told_to_be_a_file_of_several():
    with pytest.raises(MCPConfigError, match="mcp_tools"):
        MCPClient(Path("mcp.json"))
