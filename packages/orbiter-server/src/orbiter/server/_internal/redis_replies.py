"""What a namespace's Redis may answer to the server: small, whoever it belongs to.

The address comes from a Secret of the tenant's namespace, and so perhaps from a tenant.
"""

from typing import Any

from redis.exceptions import InvalidResponse

from orbiter_contracts.bounds import MAX_ENTRY_BYTES
from orbiter_contracts.redis_replies import BoundedParser

MOST_PARTS = 4096
_FIELDS_DEPTH = 5
"""Lists so deep hold an entry's fields, which have a bound together."""


class BriefParser(BoundedParser):
    """The parser of strangers' entries, with a bound on everything else, too."""

    async def _list(self, length: int, raw: bool, depth: int) -> list[Any] | None:
        if depth < _FIELDS_DEPTH and length > MOST_PARTS:
            raise InvalidResponse(f"a list of {length} parts")
        if depth > _FIELDS_DEPTH:
            raise InvalidResponse(f"lists {depth} deep")
        return await super()._list(length, raw, depth)

    async def _text(self, length: int) -> bytes | None:
        if length > MAX_ENTRY_BYTES:
            raise InvalidResponse(f"a text of {length} bytes")
        return await super()._text(length)
