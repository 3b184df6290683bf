"""What a namespace's Redis may answer to the server: small, whoever it belongs to.

The address comes from a Secret of the tenant's namespace, and so perhaps from a tenant. What is
kept of a reply has a bound as a whole: many parts that are each small enough are too much, too.
"""

from typing import Any

from redis.exceptions import InvalidResponse

from orbiter_contracts import transcript
from orbiter_contracts.bounds import FIELD_OVERHEAD_BYTES, MAX_ENTRY_BYTES
from orbiter_contracts.redis_replies import HEAD_BYTES, BoundedParser, Cut

MOST_PARTS = 4096
ENTRIES_AT_ONCE = 4
"""How many are asked for at most, each of which may be as large as the largest message."""
_PART_BYTES = FIELD_OVERHEAD_BYTES // 2
"""What a part costs beside its text, as in the size of an entry."""
_FIELDS_DEPTH = 5
"""Lists so deep hold an entry's fields, which have a bound together."""


class BriefParser(BoundedParser):
    """The parser of strangers' transcripts, with a bound on everything else, too.

    Two hundred of them are read at a time.

    Attributes:
        most_bytes: What is kept of a reply.
    """

    entry_bytes = 2 * transcript.MAX_ENTRY_BYTES
    most_bytes: int = ENTRIES_AT_ONCE * (entry_bytes + HEAD_BYTES)

    async def read_response(self, disable_decoding: bool = False) -> Any:
        """Read one reply."""
        self._kept = 0
        return await super().read_response(disable_decoding)

    async def _reply(self, raw: bool, depth: int) -> Any:
        part = await super()._reply(raw, depth)
        # what is cut a list keeps once, and what is a list was counted part by part
        if not isinstance(part, Cut | list):
            self._keep(part)
        return part

    async def _list(self, length: int, raw: bool, depth: int) -> list[Any] | None:
        if depth < _FIELDS_DEPTH and length > MOST_PARTS:
            raise InvalidResponse(f"a list of {length} parts")
        if depth > _FIELDS_DEPTH:
            raise InvalidResponse(f"lists {depth} deep")
        kept = await super()._list(length, raw, depth)
        self._keep(kept[-1] if kept and isinstance(kept[-1], Cut) else None)
        return kept

    async def _text(self, length: int) -> bytes | None:
        if length > self.entry_bytes:
            raise InvalidResponse(f"a text of {length} bytes")
        return await super()._text(length)

    def _keep(self, part: Any) -> None:
        text = part if isinstance(part, bytes | str) else str(part)
        self._kept += len(text) + _PART_BYTES
        if self._kept > self.most_bytes:
            raise InvalidResponse(f"a reply of more than {self.most_bytes} bytes")


class OutputParser(BriefParser):
    """The parser of strangers' outputs, which are as large as messages: of all together, one is."""

    entry_bytes = MAX_ENTRY_BYTES
    most_bytes = MAX_ENTRY_BYTES + ENTRIES_AT_ONCE * HEAD_BYTES
