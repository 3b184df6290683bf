"""MCPTool: a tool of an MCP server, as an Orbiter tool."""

from collections.abc import Mapping
from typing import Any, Protocol

from orbiter.approval import PersonNeeded
from orbiter.mcp._internal.files import parts_of
from orbiter.parts import ResultPart, TextPart
from orbiter.tool import Tool
from orbiter.types import OrbiterError, ToolExecutionError, ToolResult


class Caller(Protocol):
    """What a tool needs of its server's client; `MCPClient` is one."""

    name: str

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, tool_call_id: str = ""
    ) -> ToolResult:
        """Call a tool by the name the server knows."""
        ...


class MCPTool(Tool):
    """Made by `mcp_tools` and `MCPClient.list_tools`; the server checks the arguments.

    Attributes:
        client: The server's client.
        server_name: What the server calls it; `name`, what the model calls it, may have a prefix.
        output_schema: JSON schema of the structured content, if the server promises any.
    """

    description = "A tool of an MCP server."

    def __init__(
        self, client: Caller, server_name: str, name: str, definition: Any, *, files: bool = True
    ) -> None:
        """Wrap a tool that the server listed.

        Args:
            client: Calls it.
            server_name: What the server calls it.
            name: What the model calls it.
            definition: The SDK's Tool.
            files: Whether models are shown its images and documents, beside a line for each.
        """
        self._files = files
        self.client = client
        self.server_name = server_name
        self.name = name
        self.description = definition.description or definition.title or ""
        self.parameters = {"properties": {}, **definition.input_schema}
        self.output_schema: dict[str, Any] | None = definition.output_schema

    async def execute(self, /, **arguments: Any) -> str | list[TextPart | ResultPart]:
        """Call it on the server.

        Returns:
            The answer as text, see MCPResult; in a list with the images and documents it has.

        Raises:
            PersonNeeded: The server asks a person; with the answer it is called again.
            ToolExecutionError: The tool answered with an error, or the server did not answer.
        """
        result = await self.client.call_tool(self.server_name, arguments)
        question = getattr(result, "question", None)
        if question is not None:
            raise PersonNeeded(question)
        if result.error is not None:
            raise ToolExecutionError(self.name, OrbiterError(result.error))
        files = parts_of(getattr(result, "attachments", ())) if self._files else []
        return [TextPart(text=result.content), *files] if files else result.content
