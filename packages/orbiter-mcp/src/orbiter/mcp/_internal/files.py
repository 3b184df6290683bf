"""Images and documents of a server's answer, as far as models take them; and the way back.

What a server says of its files is not believed: their first bytes tell what they are.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any

from orbiter.mcp.results import Attachment
from orbiter.parts import DocumentPart, ImagePart, ResultPart, TextPart

_MOST = 20
_MOST_BYTES = 5 << 20
_LONGEST_NAME = 200
_KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
}


def parts_of(attachments: Iterable[Attachment]) -> list[ResultPart]:
    """Return what a model can be shown; all else is a line of the text and no more.

    It is at most 20 files of at most 5 MiB together: more than that no vendor takes.
    """
    found: list[ResultPart] = []
    left = _MOST_BYTES
    for attachment in attachments:
        data = _decoded(attachment.data, left)
        kind = _kind(data)
        if not kind or len(found) == _MOST:
            continue
        left -= len(data)
        if kind.startswith("image/"):
            found.append(ImagePart(data=data, media_type=kind))
        else:
            # a vendor is told the name, and it is the server's word
            name = attachment.uri.rpartition("/")[2][:_LONGEST_NAME] or None
            found.append(DocumentPart(data=data, media_type=kind, name=name))
    return found


def _decoded(text: str, most: int) -> bytes:
    if len(text) > most * 4 // 3 + 4:
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _kind(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _KINDS.items() if data.startswith(start)), "")


def split(value: Any) -> tuple[list[Any], list[ResultPart]]:
    """Part what a tool gave, which has parts: what can be said in words, and what has bytes."""
    items = value if isinstance(value, list | tuple) else (value,)
    files = [i for i in items if isinstance(i, ImagePart | DocumentPart) and i.data is not None]
    return [_words(item) for item in items if item not in files], files


def _words(item: Any) -> Any:
    if isinstance(item, TextPart):
        return item.text
    return item.url if isinstance(item, ImagePart | DocumentPart) else item


def blocks(files: Iterable[ResultPart]) -> Iterator[Any]:
    """Write files as the SDK's content blocks."""
    import mcp_types as types

    for number, file in enumerate(files, 1):
        kind = file.media_type or ""
        if isinstance(file, ImagePart):
            yield types.ImageContent(type="image", data=file.base64, mime_type=kind)
            continue
        uri = f"file:///{file.name or f'document-{number}'}"
        resource = types.BlobResourceContents(uri=uri, mime_type=kind, blob=file.base64)
        yield types.EmbeddedResource(type="resource", resource=resource)
