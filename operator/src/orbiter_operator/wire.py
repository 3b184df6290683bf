"""Lines of a watch, from bytes to dicts, without decoding what nobody reads. Used by `kube`."""

from typing import Any

import orjson

_ENDS = (b']},"spec":{', b'],"name":"')
"""What follows `managedFields`: in built-in kinds they come last in the metadata, in custom ones,
whose fields are sorted, the name is next."""


def decode_event(line: bytes) -> dict[str, Any]:
    """Decode a watch event without its object's `metadata.managedFields`, where they can be told.

    They are half of a Pod's bytes and most of its dicts. No text in them can look like their end,
    because quotes in texts are escaped; what a user calls so comes after the metadata.
    """
    begin = line.find(b',"managedFields":[')
    if 0 <= begin < line.find(b'},"spec":{'):
        ends = [end for mark in _ENDS if (end := line.find(mark, begin)) > 0]
        if ends:
            line = line[:begin] + line[min(ends) + 1 :]
    event: dict[str, Any] = orjson.loads(line)
    return event
