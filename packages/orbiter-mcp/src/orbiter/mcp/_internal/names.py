"""Which tools are used, and what they are called."""

import hashlib
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from orbiter.mcp.errors import MCPConfigError

LONGEST = 64
_WRONG = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST = 8


class Named(Protocol):
    """What has the model's name and the server's."""

    name: str
    server_name: str


T = TypeVar("T", bound=Named)


def full_name(prefix: str, name: str) -> str:
    """Return a name that every model provider takes: 64 letters, digits, `_` and `-`.

    A name that had to be cut ends in a digest of the whole one, so that two stay two.
    """
    whole = prefix + name
    fitting = _WRONG.sub("_", whole)
    if len(fitting) <= LONGEST:
        return fitting
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]
    return f"{fitting[: LONGEST - _DIGEST - 1]}_{digest}"


def server_prefix(server: str) -> str:
    """Return what precedes the tools of a server where there are several."""
    return f"{_WRONG.sub('_', server)}_"


def chosen(tools: list[T], allow: Sequence[str] | None, deny: Sequence[str]) -> list[T]:
    """Return the tools that are allowed and not denied, by either of their names.

    Raises:
        MCPConfigError: Something in `allow` fits no tool.
    """
    for pattern in allow or ():
        if not any(_fits(tool, pattern) for tool in tools):
            raise MCPConfigError(
                f"there is no MCP tool '{pattern}' to allow; the tools are: "
                + (", ".join(tool.name for tool in tools) or "none")
            )
    return [
        tool
        for tool in tools
        if (allow is None or any(_fits(tool, pattern) for pattern in allow))
        and not any(_fits(tool, pattern) for pattern in deny)
    ]


def _fits(tool: Named, pattern: str) -> bool:
    return fnmatchcase(tool.name, pattern) or fnmatchcase(tool.server_name, pattern)
