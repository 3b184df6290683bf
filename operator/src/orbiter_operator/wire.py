"""Lines of a watch, from bytes to dicts, without decoding what nobody reads. Used by `kube`."""

from typing import Any

import orjson


def decode_event(line: bytes, *, built_in: bool) -> dict[str, Any]:
    """Decode a watch event; one of a built-in kind without its `metadata.managedFields`.

    They are half of a Pod's bytes and most of its dicts. In built-in kinds they come last in the
    metadata, and no text in them can look like their end, because quotes in texts are escaped.
    Custom kinds have their fields in another order and are decoded as they are.
    """
    begin = line.find(b',"managedFields":[') if built_in else -1
    end = line.find(b']},"spec":{', begin)
    if 0 <= begin < end:
        line = line[:begin] + line[end + 1 :]
    event: dict[str, Any] = orjson.loads(line)
    return event
