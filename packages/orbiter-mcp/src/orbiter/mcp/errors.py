"""What can go wrong before a tool is called; what goes wrong in a call is a ToolResult."""

from orbiter.types import OrbiterError


class MCPConfigError(OrbiterError):
    """A server's configuration cannot be used; the text names the server, the key and its value."""


class MCPConnectionError(OrbiterError):
    """A server could not be reached, or ended while it was asked something.

    Attributes:
        server: Name of the server.
    """

    def __init__(self, server: str, problem: str) -> None:
        self.server = server
        super().__init__(f"MCP server '{server}': {problem}")
