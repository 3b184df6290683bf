"""The files of a conversation: shown by what they are and where, and handed out one at a time."""

from collections.abc import Iterable, Sequence
from typing import Any

from orbiter.parts import DocumentPart, ImagePart
from orbiter.server._internal.errors import unknown
from orbiter.server.models import Conversation
from orbiter.types import Message

File = ImagePart | DocumentPart
_DIGITS = 6


def files_of(messages: Iterable[Message]) -> list[File]:
    """Return the files of a run's messages that are kept here, in their order."""
    return [part for message in messages for part in getattr(message, "parts", ()) if _kept(part)]


def nth(files: Sequence[File], number: str, kind: str) -> File:
    """Return one of several files; they count from 0.

    Raises:
        RequestError: There is none.
    """
    at = int(number) if number.isdecimal() and len(number) < _DIGITS else len(files)
    if at >= len(files):
        raise unknown(kind, number)
    return files[at]


def shown(run_id: str, messages: Conversation) -> list[dict[str, Any]]:
    """Return messages as JSON, in which `path` and `size` stand for the bytes of a file.

    A conversation has any number of files of megabytes, and who reads it wants few of them.

    Args:
        run_id: The run that they are of, all of them.
        messages: What it has added.
    """
    number = 0
    told = []
    for message in messages:
        parts: list[dict[str, Any]] = []
        for part in getattr(message, "parts", ()):
            if _kept(part):
                path = f"/v1/runs/{run_id}/files/{number}"
                told_part = part.model_dump(mode="json", exclude={"data", "url"})
                parts.append({**told_part, "size": len(part.data), "path": path})
                number += 1
            else:
                parts.append(part.model_dump(mode="json"))
        one = message.model_dump(mode="json", exclude={"parts"})
        told.append({**one, "parts": parts} if parts else one)
    return told


def _kept(part: object) -> bool:
    return isinstance(part, ImagePart | DocumentPart) and part.data is not None
