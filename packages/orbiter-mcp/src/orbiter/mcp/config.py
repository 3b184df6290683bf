"""Where servers are: the `mcpServers` file that users of MCP clients have already.

The format has no owner and every client adds keys of its own, so unknown keys are ignored. Values
may name environment variables: `${TOKEN}`, `${env:TOKEN}`, or `${TOKEN:-what else}`.
"""

import json
import os
import re
import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    Field,
    InstanceOf,
    ValidationError,
    field_validator,
    model_validator,
)

from orbiter.mcp.errors import MCPConfigError
from orbiter.mcp.oauth import OAuth

_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_HTTP_TYPES = (None, "http", "streamable-http", "streamableHttp", "streamable_http")


class StdioServer(BaseModel):
    """A server that is a program, spoken to through its stdin and stdout.

    Attributes:
        command: The program.
        args: Its arguments.
        env: Its environment beside HOME, LOGNAME, PATH, SHELL, TERM and USER; nothing else of
            this process's environment is passed on.
        cwd: Where it runs, by default here.
    """

    model_config = {"frozen": True}

    command: str = Field(min_length=1)
    args: list[str] = []
    env: dict[str, str] = Field(default={}, repr=False)
    cwd: Path | None = None

    @property
    def default_name(self) -> str:
        """What to call it when nobody gave it a name."""
        return Path(self.command).name


class _Allowed(BaseModel):
    """What a file says of OAuth."""

    model_config = {"extra": "forbid"}

    client_id: str | None = Field(default=None, alias="clientId")
    client_secret: str | None = Field(default=None, alias="clientSecret", repr=False)
    scope: str | None = None
    port: int | None = Field(default=None, alias="callbackPort", ge=1, le=65535)

    @model_validator(mode="before")
    @classmethod
    def _switched_on(cls, value: Any) -> Any:
        return {} if value is True else value

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of OAuth."""
        return {name: value for name, value in self if value is not None}


class HttpServer(BaseModel):
    """A server behind a URL (streamable HTTP).

    Attributes:
        url: Its endpoint, for example `http://127.0.0.1:8000/mcp`.
        headers: Sent with every request, for example `Authorization`.
        oauth: How to sign in, where the server wants that.
    """

    model_config = {"frozen": True}

    url: str = Field(pattern=r"^https?://", repr=False)
    headers: dict[str, str] = Field(default={}, repr=False)
    oauth: InstanceOf[OAuth] | None = None

    @field_validator("oauth", mode="before")
    @classmethod
    def _of_a_file(cls, value: Any) -> Any:
        if not isinstance(value, bool | Mapping):
            return value
        return OAuth(**_Allowed.model_validate(value).given) if value is not False else None

    @property
    def default_name(self) -> str:
        """What to call it when nobody gave it a name."""
        return urlsplit(self.url).hostname or "server"


ServerConfig = StdioServer | HttpServer


def parse_server(text: str) -> ServerConfig:
    """Read a URL, or a command line as a shell would split it.

    Raises:
        MCPConfigError: It is empty, has an open quotation mark, or is the name of a config file.
    """
    if re.match(r"https?://", text):
        return HttpServer(url=text)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise MCPConfigError(f"the MCP server's command line {text!r}: {error}") from error
    if not words:
        raise MCPConfigError("an empty MCP server: give a URL, a command line or a config file")
    if len(words) == 1 and text.endswith(".json"):
        raise MCPConfigError(
            f"{text!r} is no command line but looks like a config file: give "
            f"mcp_tools(Path({text!r}))"
        )
    return StdioServer(command=words[0], args=words[1:])


def load_config(
    source: Path | Mapping[str, Any], *, environ: Mapping[str, str] | None = None
) -> dict[str, ServerConfig]:
    """Read the servers of a config file, or of its content.

    Args:
        source: Path of a JSON file with an object `mcpServers`, or that object's parsed form.
        environ: Where variables are looked up, by default this process's environment.

    Returns:
        The servers that are not `disabled`, by name, in the file's order.

    Raises:
        MCPConfigError: The file cannot be read, or an entry is wrong or names an unset variable.
    """
    where = str(source) if isinstance(source, Path) else "the MCP config"
    content = _read(source) if isinstance(source, Path) else source
    entries = content.get("mcpServers") if isinstance(content, Mapping) else None
    if not isinstance(entries, Mapping):
        given = content if isinstance(content, Mapping) else ()
        near = get_close_matches("mcpServers", map(str, given), 1, _NEAR)
        hint = f'did you mean it by "{near[0]}"? ' if near and near != ["mcpServers"] else ""
        raise MCPConfigError(
            f'{where}: there is no object "mcpServers"; {hint}its form is {_EXAMPLE}'
        )
    environ = os.environ if environ is None else environ
    return {
        name: _server(f"{where}, server '{name}'", entry, environ)
        for name, entry in entries.items()
        if not (isinstance(entry, Mapping) and entry.get("disabled"))
    }


_KEYS = (*StdioServer.model_fields, *HttpServer.model_fields)
_NEAR = 0.8
"""So alike two words are when one is a typo of the other."""
_EXAMPLE = '{"mcpServers": {"files": {"command": "npx", "args": ["..."]}}}'


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise MCPConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise MCPConfigError(f"{path}: is not JSON: {error}") from error


def _server(where: str, entry: Any, environ: Mapping[str, str]) -> ServerConfig:
    if not isinstance(entry, Mapping):
        raise MCPConfigError(f"{where}: is {entry!r}, but has to be an object")
    _check_keys(where, entry)
    kind = entry.get("type") or entry.get("transport")
    expanded = {key: _expand(f"{where}, {key}", value, environ) for key, value in entry.items()}
    try:
        if "command" in expanded and kind in (None, "stdio"):
            return StdioServer.model_validate(expanded)
        if "url" in expanded and kind in _HTTP_TYPES:
            return HttpServer.model_validate(expanded)
    except ValidationError as error:
        # the values are left out of the text: they may be secrets
        what = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        raise MCPConfigError(f"{where}: {what}") from None
    if kind == "sse":
        raise MCPConfigError(
            f"{where}: type 'sse' is MCP's former transport; give the server's streamable HTTP "
            'endpoint (often /mcp in place of /sse) and "type": "http"'
        )
    of = f"type {kind!r}" if kind else "it"
    raise MCPConfigError(f"{where}: {of} needs `command` (stdio) or `url` (http)")


def _check_keys(where: str, entry: Mapping[str, Any]) -> None:
    """Refuse a key that is nearly one of ours: it would be taken for another client's."""
    for key in entry:
        meant = get_close_matches(str(key), _KEYS, 1, _NEAR)
        if key not in _KEYS and meant and meant[0] not in entry:
            raise MCPConfigError(f"{where}: there is no key `{key}`; did you mean `{meant[0]}`?")


def _expand(where: str, value: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_expand(where, item, environ) for item in value]
    if isinstance(value, Mapping):
        return {key: _expand(f"{where}.{key}", item, environ) for key, item in value.items()}
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if found := environ.get(name):
            return found
        if default is not None:
            return default
        if name in environ:
            return ""
        raise MCPConfigError(
            f"{where}: the environment variable {name} is not set; set it, or write "
            f"${{{name}:-a default}}"
        )

    return _VARIABLE.sub(replace, value)
