"""Whether a failed call lost its server, and whether it may be made again."""

from __future__ import annotations

from typing import Any

from orbiter.mcp._internal.connection import Connection
from orbiter.mcp.errors import MCPConnectionError


class LostError(MCPConnectionError):
    """The connection ended during a call; `unheard` when the server cannot have begun it."""

    unheard = False


def is_loss(error: Exception) -> bool:
    """Whether the error means that the connection has ended."""
    from mcp_types import CONNECTION_CLOSED

    from mcp import MCPError

    return isinstance(error, MCPError) and (error.code == CONNECTION_CLOSED or _forgotten(error))


def lost(error: Exception, connection: Connection) -> LostError:
    """Say what ended the connection, now that it is closed."""
    found = LostError(connection.name, f"ended during the call ({connection.reason()})")
    refused = type(connection.failure).__name__ == "ConnectError"
    found.unheard = refused or _forgotten(error)
    return found


def _forgotten(error: Any) -> bool:
    # a restarted server does not know the session any more and says so before it does anything
    return str(error) == "Session terminated"


def is_repeatable(tool: Any) -> bool:
    """Whether the server says that calling the tool twice does not do a thing twice."""
    hints = tool.annotations
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
