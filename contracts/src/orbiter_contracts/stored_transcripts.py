"""Whole transcripts in a store, of which Redis has the end: what the objects are called.

A worker writes what it has appended to the stream in parts, one for a pod of an attempt or for a
turn of a session, each named after the sequence of its first event. `transcript_parts` reads them.
"""

import re
from typing import Annotated, Final

from pydantic import StringConstraints

from orbiter_contracts.bounds import Count, Name, Text
from orbiter_contracts.message_base import Message
from orbiter_contracts.object_store import StoreAddress

MAX_PART_BYTES: Final = 64 * 1024 * 1024
"""The longest part, as JSON; what is more is said in its last event."""
MAX_PARTS: Final = 1000
"""How many parts a reader looks at: the latest."""
_DIGITS: Final = 16
_PART: Final = re.compile(rf"^([0-9]{{{_DIGITS}}})\.jsonl\.gz$")

_NAME: Final = "[A-Za-z0-9_-][A-Za-z0-9._-]*"
PartsHead = Annotated[str, StringConstraints(pattern=rf"^{_NAME}(/{_NAME})*$", max_length=1000)]
"""How the names of a transcript's parts begin, without the slash behind it."""


class TranscriptReport(Message):
    """What a worker's output says of its attempt's transcript in the store.

    Attributes:
        reason: One CamelCase word: `Stored`, or why it was not.
        message: The same for people.
        events: How many were stored by this pod.
        size_bytes: How large they are, compressed.
        store: Where they are.
    """

    reason: Name = "Stored"
    message: Text = ""
    events: Count = 0
    size_bytes: Count = 0
    store: StoreAddress | None = None

    @property
    def complete(self) -> bool:
        """Whether it is there."""
        return self.reason == "Stored"


def part_name(first: int) -> str:
    """The name of the part that begins with an event of this sequence; names sort as these do."""
    return f"{first:0{_DIGITS}d}.jsonl.gz"


def part_first(name: str) -> int | None:
    """The sequence that a part begins with; None for a name that is none of a part."""
    found = _PART.fullmatch(name)
    return int(found[1]) if found else None
