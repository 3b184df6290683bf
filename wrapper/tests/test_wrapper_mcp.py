"""MCP servers in each CLI's own words; the real CLIs read them in test_wrapper_real_mcp.py."""

import json
from pathlib import Path
from typing import Any

import pytest

from orbiter_contracts.mcp_servers import told_of_mcp_servers
from worker_wrapper.agents import load_agent
from worker_wrapper.agents.base import AgentOptions, Turn
from worker_wrapper.agents.mcp import with_values
from worker_wrapper.process.command import Command
from worker_wrapper.redact import Redactor
from worker_wrapper.settings import SettingsError, load

SECRET = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
TOLD = told_of_mcp_servers(
    [
        {
            "name": "docs",
            "url": "https://a.example/mcp?$x",
            "headers": [{"name": "Authorization", **SECRET}, {"name": "X-Team", "value": "a$b"}],
        },
        {
            "name": "files",
            "command": "npx",
            "args": ["{env:HOME}"],
            "env": [{"name": "TOKEN", **SECRET}],
        },
    ]
).environment
VALUES = {"AGENT_MCP_SECRET_1": "Bearer s3cr3t-word\n", "AGENT_MCP_SECRET_2": "it's $HOME"}
OURS = TOLD | VALUES
NEEDED = {
    "WORKER_ID": "w-1",
    "WORKER_TYPE": "developer",
    "REDIS_URL": "redis://localhost",
    "ANTHROPIC_API_KEY": "key",
}


def build(name: str, environ: dict[str, str] = OURS) -> Command:
    options = load(NEEDED | environ).options
    servers = with_values(options.mcp_servers, environ)
    turn = Turn("hi", 60, None, Path("/workspace"), AgentOptions(), NEEDED, mcp=servers)
    return load_agent(name).build(turn)


def configured(command: Command, flag: str) -> Any:
    return json.loads(command.argv[command.argv.index(flag) + 1])["mcpServers"]


@pytest.mark.parametrize(
    ("name", "flag"),
    [("claude", "--mcp-config"), ("orbiter", "--mcp-config"), ("factory", "mcp.json")],
)
def test_what_a_server_is_given_is_in_variables_that_the_configuration_names(
    name: str, flag: str
) -> None:
    command = build(name)
    assert configured(command, flag) == {
        "docs": {
            "type": "http",
            "url": "${AGENT_MCP_3}",
            "headers": {"Authorization": "${AGENT_MCP_1}", "X-Team": "${AGENT_MCP_2}"},
        },
        "files": {
            "type": "stdio",
            "command": "npx",
            "args": ["{env:HOME}"],
            "env": {"TOKEN": "${AGENT_MCP_4}"},
        },
    }
    given = {key: value for key, value in command.env.items() if key.startswith("AGENT_MCP_")}
    assert list(given.values()) == [
        "Bearer s3cr3t-word",
        "a$b",
        "https://a.example/mcp?$x",
        "it's $HOME",
    ]


def test_gemini_reads_them_in_its_settings_and_a_dollar_behind_a_backslash() -> None:
    command = build("gemini")
    servers = configured(command, "gemini")
    assert servers["docs"]["httpUrl"] == "${AGENT_MCP_3}"
    assert servers["docs"]["headers"]["X-Team"] == "${AGENT_MCP_2}"
    assert command.env["AGENT_MCP_2"] == "a\\$b"
    assert command.env["AGENT_MCP_4"] == "it's \\$HOME"


def test_codex_has_them_in_toml_and_a_shell_that_names_their_variables_anew() -> None:
    command = build("codex")
    flags = [word for word in command.argv if word.startswith("mcp_servers.")]
    assert flags == [
        'mcp_servers.docs={"required"=true,"startup_timeout_sec"=60,'
        '"url"="https://a.example/mcp?$x",'
        '"env_http_headers"={"Authorization"="AGENT_MCP_1","X-Team"="AGENT_MCP_2"}}',
        'mcp_servers.files={"required"=true,"startup_timeout_sec"=60,"command"="sh",'
        '"args"=["-c","export TOKEN=\\"$AGENT_MCP_3\\"; exec \\"$0\\" \\"$@\\"","npx",'
        '"{env:HOME}"],"env_vars"=["AGENT_MCP_3"]}',
    ]
    assert command.env["AGENT_MCP_3"] == "it's $HOME"


def test_opencode_has_them_in_a_variable_in_which_it_finds_nothing_to_expand() -> None:
    text = build("opencode").env["OPENCODE_CONFIG_CONTENT"]
    assert "{env:" not in text
    assert json.loads(text)["mcp"]["docs"]["headers"] == {
        "Authorization": "Bearer s3cr3t-word",
        "X-Team": "a$b",
    }
    assert json.loads(text)["mcp"]["files"]["command"] == ["npx", "{env:HOME}"]


@pytest.mark.parametrize("name", ["claude", "codex", "factory", "gemini", "opencode", "orbiter"])
def test_no_secret_is_an_argument_and_without_servers_nothing_is_said(name: str) -> None:
    assert "s3cr3t" not in str(build(name).argv)
    assert "mcp" not in str(build(name, {})).lower()


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"AGENT_MCP_SERVERS": "{"}, "AGENT_MCP_SERVERS"),
        ({"AGENT_MCP_SERVERS": '[{"name": "a", "url": "https://u:pass@a/"}]'}, "has a password"),
        (TOLD, "AGENT_MCP_SECRET_1 is missing"),
        (OURS | {"AGENT_MCP_SECRET_1": "a\nb"}, "AGENT_MCP_SECRET_1 is no value of the header"),
        (OURS | {"AGENT_MCP_SECRET_2": "x" * 65537}, "more than 65536 bytes"),
    ],
)
def test_what_cannot_be_given_is_said_at_once(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as told:
        load(NEEDED | environ)
    assert "u:pass" not in str(told.value)


def test_the_secrets_are_redacted_also_without_their_scheme() -> None:
    scrub = Redactor.of(OURS | {"AGENT_MCP_SECRET_3": 'with "marks" in it'}).scrub
    assert scrub("Bearer s3cr3t-word, s3cr3t-word") == "[redacted], [redacted]"
    assert scrub(r"{\"a\": \"with \\\"marks\\\" in it\"}").count("marks") == 1
    assert scrub('"with \\"marks\\" in it"') == '"[redacted]"'
