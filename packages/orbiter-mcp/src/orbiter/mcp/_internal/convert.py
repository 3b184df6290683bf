"""From the SDK's answers to Orbiter's."""

from typing import Any

from pydantic_core import to_json

from orbiter.mcp.results import Attachment, MCPResult


def from_wire(result: Any, tool_call_id: str, tool_name: str) -> MCPResult:
    """Convert the SDK's CallToolResult."""
    lines: list[str] = []
    attachments: list[Attachment] = []
    for block in result.content:
        piece = _piece(block)
        lines.append(str(piece))
        if isinstance(piece, Attachment):
            attachments.append(piece)
    structured = result.structured_content
    if not lines and structured is not None:
        lines = [to_json(structured).decode()]
    text = "\n".join(lines)
    failed = bool(result.is_error)
    return MCPResult(
        tool_call_id=tool_call_id,
        tool_name=tool_name,
        content="" if failed else text,
        error=(text or "the tool failed and did not say why") if failed else None,
        structured_content=structured,
        attachments=tuple(attachments),
    )


def _piece(block: Any) -> str | Attachment:
    if block.type == "text":
        return str(block.text)
    if block.type in ("image", "audio"):
        return Attachment(kind=block.type, mime_type=block.mime_type, data=block.data)
    if block.type == "resource_link":
        return Attachment(kind="link", mime_type=block.mime_type or "", uri=str(block.uri))
    resource = block.resource
    text = getattr(resource, "text", None)
    if text is not None:
        return str(text)
    return Attachment(
        kind="resource",
        mime_type=resource.mime_type or "",
        data=resource.blob,
        uri=str(resource.uri),
    )
