"""What calling a tool of a server gives, in Orbiter's words."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from orbiter.types import ToolResult


class Progress(BaseModel):
    """How far a call has come.

    Attributes:
        server: Name of the server.
        tool: Name of the tool, as the server calls it.
        progress: How much is done, in a unit of the server's own.
        total: How much there is to do, if the server knows.
        message: What it does now.
    """

    model_config = {"frozen": True}

    server: str
    tool: str
    progress: float
    total: float | None = None
    message: str | None = None

    def __str__(self) -> str:
        total = "" if self.total is None else f"/{self.total:g}"
        return f"{self.progress:g}{total}" + (f" {self.message}" if self.message else "")


class Attachment(BaseModel):
    """What a tool answered beside text.

    Attributes:
        kind: What it is.
        mime_type: Its media type, if the server told.
        data: Its content as base64; empty for a link.
        uri: Where it is from, for a resource or a link to one.
    """

    model_config = {"frozen": True}

    kind: Literal["image", "audio", "resource", "link"]
    mime_type: str = ""
    data: str = Field(default="", repr=False)
    uri: str = ""

    def __str__(self) -> str:
        size = f", {len(self.data) * 3 // 4} bytes" if self.data else ""
        about = " ".join(filter(None, [self.kind, self.mime_type, self.uri]))
        return f"[{about}{size}]"


class MCPResult(ToolResult):
    """A ToolResult with what MCP knows beyond text.

    `content` is what a model reads: the server's text and a line for every attachment; the
    structured content as JSON when there was no text.

    Attributes:
        structured_content: The answer as data, if the server gave it so.
        attachments: Images, audio and files.
        question: What the server asks a person; the call can be made again with the answer.
    """

    structured_content: Any = None
    attachments: tuple[Attachment, ...] = ()
    question: str | None = None
