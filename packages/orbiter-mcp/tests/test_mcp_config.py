import json
from pathlib import Path

import pytest

from orbiter.mcp import HttpServer, MCPConfigError, StdioServer, load_config


def entry(**fields):
    return {"mcpServers": {"files": fields}}


def test_a_config_file_of_other_clients_is_read(tmp_path):
    path = tmp_path / "mcp.json"
    servers = {
        "files": {"command": "npx", "args": ["-y", "server"], "type": "stdio", "autoApprove": []},
        "web": {"type": "http", "url": "https://example.test/mcp", "headers": {"X-Key": "k"}},
        "cursor-style": {"url": "http://127.0.0.1:1/mcp"},
        "off": {"command": "never", "disabled": True},
    }
    path.write_text(json.dumps({"mcpServers": servers, "other": 1}))
    assert load_config(path) == {
        "files": StdioServer(command="npx", args=["-y", "server"]),
        "web": HttpServer(url="https://example.test/mcp", headers={"X-Key": "k"}),
        "cursor-style": HttpServer(url="http://127.0.0.1:1/mcp"),
    }


def test_variables_are_expanded_everywhere():
    found = load_config(
        entry(
            command="${BIN:-node}",
            args=["${HOME}/files", "plain $HOME"],
            env={"TOKEN": "${env:SECRET}", "EMPTY": "${NONE}"},
            cwd="${HOME}",
        ),
        environ={"HOME": "/home/ada", "SECRET": "s3", "NONE": ""},
    )
    assert found["files"] == StdioServer(
        command="node",
        args=["/home/ada/files", "plain $HOME"],
        env={"TOKEN": "s3", "EMPTY": ""},
        cwd=Path("/home/ada"),
    )


def test_secrets_are_not_shown():
    text = repr(load_config(entry(command="x", env={"TOKEN": "s3cret"})))
    text += repr(load_config(entry(url="http://u:s3cret@h/?k=s3cret", headers={"A": "s3cret"})))
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, 'there is no object "mcpServers"'),
        (entry(command="${NOT_SET}"), "server 'files', command: the environment variable NOT_SET"),
        (entry(command="x", args="y"), "server 'files': args: Input should be a valid list"),
        (entry(type="sse", url="http://h/sse"), "streamable HTTP endpoint"),
        (entry(type="ws", url="http://h"), "type 'ws' needs `command` (stdio) or `url` (http)"),
        (entry(url="ftp://secret@h"), "server 'files': url: String should match pattern"),
        (entry(comand="npx"), "server 'files': there is no key `comand`; did you mean `command`?"),
        (entry(command="npx", arg=["-y"]), "there is no key `arg`; did you mean `args`?"),
        (entry(url="http://h", header={"A": "secret"}), "no key `header`; did you mean `headers`?"),
        (entry(), "server 'files': it needs `command` (stdio) or `url` (http)"),
        ({"mcpserver": {}}, 'there is no object "mcpServers"; did you mean it by "mcpserver"?'),
        ({"mcpServers": {"files": "npx"}}, "is 'npx', but has to be an object"),
    ],
)
def test_a_wrong_config_says_what_is_wrong(content, message):
    with pytest.raises(MCPConfigError) as caught:
        load_config(content, environ={})
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(MCPConfigError, match=r"none\.json: cannot be read: No such file"):
        load_config(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(MCPConfigError, match=r"bad\.json: is not JSON"):
        load_config(tmp_path / "bad.json")
