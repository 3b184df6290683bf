"""MCP servers for the adapters: what each CLI's configuration has in common. Pure.

A configuration is an argument or a file, which others can read. So what a server is given is in
variables of the agent's, of which the configuration has the names: every CLI but opencode, whose
whole configuration is a variable, puts their values there. The same holds of any text with a `$`,
which a CLI would take for a variable's.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orbiter_contracts.mcp_servers import HEADER_VALUE, MAX_BYTES, McpServer, Value

_MISSING = "a worker gets it from the Secret of an MCP server; set it"


@dataclass(frozen=True, slots=True)
class Server:
    """A server with what it is given; of `url` and `command` one is None."""

    name: str
    url: str | None
    command: str | None
    args: tuple[str, ...]
    headers: Mapping[str, str] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)


def with_values(servers: Iterable[McpServer], environ: Mapping[str, str]) -> tuple[Server, ...]:
    """The servers with the values that are in our environment.

    Args:
        servers: As the worker is told of them.
        environ: Our environment.

    Raises:
        ValueError: A variable is missing, or cannot be a header; the text names it.
    """
    found = tuple(
        Server(
            server.name,
            server.url,
            server.command,
            server.args,
            headers={value.name: _header(value, environ) for value in server.headers},
            env={value.name: _value(value, environ) for value in server.env},
        )
        for server in servers
    )
    given = (text for each in found for text in (*each.headers.values(), *each.env.values()))
    if sum(len(text.encode("utf-8", "replace")) for text in given) > MAX_BYTES:
        raise ValueError(f"MCP servers are given more than {MAX_BYTES} bytes from Secrets")
    return found


def _value(value: Value, environ: Mapping[str, str]) -> str:
    if value.value_from is None or value.value_from.variable is None:
        return value.value or ""
    if value.value_from.variable not in environ:
        raise ValueError(f"{value.value_from.variable} is missing: {_MISSING}")
    return environ[value.value_from.variable]


def _header(value: Value, environ: Mapping[str, str]) -> str:
    # A Secret made of a file often ends with a line break.
    text = _value(value, environ).strip()
    if not HEADER_VALUE.fullmatch(text):
        where = value.value_from.variable if value.value_from else value.name
        raise ValueError(f"{where} is no value of the header {value.name}: it must be ASCII text")
    return text


class Variables:
    """The variables that a configuration names.

    Attributes:
        env: They, for the agent.
    """

    def __init__(self) -> None:
        self.env: dict[str, str] = {}

    def name(self, value: str) -> str:
        """Name of a variable with this value."""
        name = f"AGENT_MCP_{len(self.env) + 1}"
        self.env[name] = value
        return name

    def given(self, value: str) -> str:
        """What a configuration says for this value."""
        return f"${{{self.name(value)}}}"

    def text(self, text: str) -> str:
        """The same for what is no secret."""
        return self.given(text) if "$" in text else text


def usual(
    servers: Iterable[Server],
    variables: Variables,
    *,
    url: str = "url",
    typed: bool = True,
    escape: Callable[[str], str] = str,
) -> dict[str, Any]:
    """The object `mcpServers` that most CLIs read.

    Args:
        servers: The servers.
        variables: Takes what they are given.
        url: The key of a server's address.
        typed: Whether each entry says of which type it is.
        escape: Applied to what is given.
    """
    entries: dict[str, Any] = {}
    for each in servers:
        kind = {"type": "stdio" if each.url is None else "http"} if typed else {}
        if each.url is not None:
            headers = {name: variables.given(escape(text)) for name, text in each.headers.items()}
            entries[each.name] = kind | {url: variables.text(each.url), "headers": headers}
        else:
            entries[each.name] = kind | {
                "command": variables.text(each.command or ""),
                "args": [variables.text(text) for text in each.args],
                "env": {name: variables.given(escape(text)) for name, text in each.env.items()},
            }
    return entries
