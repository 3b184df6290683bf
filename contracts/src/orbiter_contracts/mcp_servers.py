"""MCP servers of an agent: what `agent.mcpServers` says of them, and how its worker is told. Pure.

A spec refers to Secrets; a worker's variable AGENT_MCP_SERVERS has the same list as JSON, in which
each of these references is the name of a variable that the pod has from that Secret. So what is
secret is in no argument, file or object, and the one list says for every agent what it is given.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orbiter_contracts.bounds import MAX_LINE_CHARACTERS, one_line
from orbiter_contracts.json_text import decode
from orbiter_contracts.spec_errors import spec_problem

VARIABLE: Final = "AGENT_MCP_SERVERS"
SECRETS: Final = "AGENT_MCP_SECRET_"
"""How the variables begin that hold a header or a variable of a server from a Secret."""
MAX_SERVERS: Final = 20
MAX_VALUES: Final = 50
"""Headers of a server, or its variables, or its arguments."""
MAX_TEXT: Final = 4096
MAX_BYTES: Final = 64 * 1024
"""Of a list as JSON, and of what comes from Secrets: Linux has 128 KiB for one variable."""
_NAME: Final = r"^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$"
"""Agents make names of tools with it, of 64 characters in all."""
_URL: Final = r"^https?://[^\s/?#@\\]{1,255}([/?#][!-~]*)?$"
_HEADER: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"
"""RFC 9110, section 5.6.2."""
_VARIABLE_NAME: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
_OURS: Final = re.compile(r"REDIS_URL|(AGENT|WORKER|TASK)_.*")
HEADER_VALUE: Final = re.compile(r"[!-~]([ -~\t]*[!-~])?")
"""RFC 9110, section 5.5, in ASCII."""
_TEXT: Final = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"
_SHOWN: Final = 60

Text = Annotated[str, Field(max_length=MAX_TEXT, pattern=_TEXT)]


class _Part(BaseModel):
    """Written as Kubernetes' fields are; what it does not know it ignores."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class SecretKey(_Part):
    """A key of a Secret in the namespace of the worker."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    key: Annotated[str, Field(min_length=1, max_length=253)]


class Source(_Part):
    """Where a value is: in a Secret, or for a worker in a variable of its own."""

    secret_key_ref: SecretKey | None = Field(None, alias="secretKeyRef")
    variable: Annotated[str, Field(pattern=rf"^{SECRETS}[0-9]{{1,4}}$")] | None = None


class Value(_Part):
    """A header or a variable: `value`, or where it is."""

    name: str
    value: Text | None = None
    value_from: Source | None = Field(None, alias="valueFrom")

    @model_validator(mode="after")
    def _one(self) -> Self:
        source = self.value_from
        if source and (source.secret_key_ref is None) == (source.variable is None):
            raise ValueError("valueFrom names no Secret; write secretKeyRef")
        if (self.value is None) == (source is None):
            raise ValueError("write value or valueFrom, one of them")
        return self


class Header(Value):
    """A header that every request to a server has."""

    name: Annotated[str, Field(pattern=_HEADER)]

    @model_validator(mode="after")
    def _sendable(self) -> Self:
        if self.value is not None and not HEADER_VALUE.fullmatch(self.value):
            raise ValueError("is no header's value; write ASCII, with no space around it")
        return self


class Variable(Value):
    """A variable that a server's program gets."""

    name: Annotated[str, Field(pattern=_VARIABLE_NAME)]

    @model_validator(mode="after")
    def _not_ours(self) -> Self:
        if _OURS.fullmatch(self.name):
            raise ValueError("is a name of Orbiter's own; choose another")
        return self


class McpServer(_Part):
    """One server: behind a `url` (streamable HTTP), or a `command` that the agent runs (stdio)."""

    name: Annotated[str, Field(pattern=_NAME)]
    url: Annotated[str, Field(max_length=MAX_LINE_CHARACTERS, pattern=_URL)] | None = None
    headers: Annotated[tuple[Header, ...], Field(max_length=MAX_VALUES)] = ()
    command: Annotated[Text, Field(min_length=1)] | None = None
    args: Annotated[tuple[Text, ...], Field(max_length=MAX_VALUES)] = ()
    env: Annotated[tuple[Variable, ...], Field(max_length=MAX_VALUES)] = ()

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.url is None) == (self.command is None):
            raise ValueError("write url or command, one of them")
        if self.url is None and self.headers:
            raise ValueError("headers are for a url; a command has env")
        if self.command is None and (self.args or self.env):
            raise ValueError("args and env are for a command; a url has headers")
        for kind, names in (
            ("headers", [item.name.lower() for item in self.headers]),
            ("env", [item.name for item in self.env]),
        ):
            if twice := _twice(names):
                raise ValueError(f"{kind}: {twice} is there twice; leave one out")
        return self


class _List(_Part):
    mcp_servers: Annotated[tuple[McpServer, ...], Field(max_length=MAX_SERVERS)] = Field(
        (), alias="mcpServers"
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if twice := _twice([server.name for server in self.mcp_servers]):
            raise ValueError(f"mcpServers: {twice} is there twice; leave one out")
        return self


class Told(NamedTuple):
    """What a worker is told of servers.

    Attributes:
        environment: AGENT_MCP_SERVERS, or nothing where there are none.
        secrets: The other variables it needs, and the key of a Secret for each.
    """

    environment: dict[str, str]
    secrets: dict[str, SecretKey]


def read_mcp_servers(servers: Any) -> tuple[McpServer, ...]:
    """Read the list of a spec, or that of a worker.

    Args:
        servers: A value of JSON, whoever has written it.

    Raises:
        ValueError: It is none; the text says where, and shows no value.
    """
    try:
        return _List.model_validate({"mcpServers": servers}).mcp_servers
    except ValidationError as error:
        raise ValueError(spec_problem(error, _EXPECTED)) from None


def decode_mcp_servers(text: str) -> tuple[McpServer, ...]:
    """Read a worker's AGENT_MCP_SERVERS.

    Raises:
        ValueError: It is no list of servers.
    """
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise ValueError(f"mcpServers: more than {MAX_BYTES} bytes as JSON; write less")
    return read_mcp_servers(decode(text.encode("utf-8", "replace")))


def mcp_problem(servers: Any) -> str | None:
    """Why no agent can be given a spec's servers; None when it can.

    Args:
        servers: The list, whoever has written it.
    """
    try:
        read = read_mcp_servers(servers)
    except ValueError as error:
        return str(error)
    for server in read:
        for value in (*server.headers, *server.env):
            if value.value_from and value.value_from.variable is not None:
                return f"mcpServers: {server.name}: valueFrom names no Secret; write secretKeyRef"
    text = _written(read)[0].get(VARIABLE, "")
    if len(text.encode()) > MAX_BYTES:
        return f"mcpServers: more than {MAX_BYTES} bytes as JSON; write less"
    return None


def secrets_of(servers: Any) -> Iterator[tuple[str, Any]]:
    """The Secrets that a list names, each with where it does; of any value of JSON.

    What is no reference is left out: `mcp_problem` tells of it.
    """
    for server in servers if isinstance(servers, list | tuple) else ():
        for kind in ("headers", "env"):
            values = server.get(kind) if isinstance(server, Mapping) else None
            for value in values if isinstance(values, list | tuple) else ():
                reference = _inner(_inner(value, "valueFrom"), "secretKeyRef")
                if isinstance(reference, Mapping) and "name" in reference:
                    of, name = (one_line(str(each.get("name")), _SHOWN) for each in (server, value))
                    yield (
                        f"mcpServers[{of}].{kind}[{name}].valueFrom.secretKeyRef.name",
                        reference["name"],
                    )


def told_of_mcp_servers(servers: Any) -> Told:
    """What a worker is told of a spec's servers.

    Args:
        servers: A list without an `mcp_problem`.
    """
    return _written(read_mcp_servers(servers))


def _written(servers: Iterable[McpServer]) -> Told:
    secrets: dict[str, SecretKey] = {}
    items = []
    for server in servers:
        item = server.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
        for kind in ("headers", "env"):
            for value, written in zip(getattr(server, kind), item.get(kind, ()), strict=True):
                if value.value_from and value.value_from.secret_key_ref:
                    variable = f"{SECRETS}{len(secrets) + 1}"
                    secrets[variable] = value.value_from.secret_key_ref
                    written["valueFrom"] = {"variable": variable}
        items.append(item)
    if not items:
        return Told({}, {})
    # Kubernetes puts the value of a variable in the place of `$(NAME)`.
    text = json.dumps(items, ensure_ascii=False).replace("$", "\\u0024")
    return Told({VARIABLE: text}, secrets)


def _inner(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _twice(names: list[str]) -> str | None:
    return next((name for name in names if names.count(name) > 1), None)


_EXPECTED: Final = {
    _NAME: "is no name of a server; write at most 32 lower-case letters, digits and -",
    _URL: "is no http(s) URL, or has a password; write that as a header",
    _HEADER: "is no name of a header",
    _VARIABLE_NAME: "is no name of a variable",
    _TEXT: "has a control character",
}
