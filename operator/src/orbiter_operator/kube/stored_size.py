"""How large something is where the API server keeps it. Pure."""

from typing import Any

import orjson

LARGEST_SPEC = 1024 * 1024
"""The database takes 1.5 MiB of an object: the rest is for its status, metadata and history."""
_ESCAPED = {b"<": 5, b">": 5, b"&": 5, b"\\b": 4, b"\\f": 4, b"\xe2\x80\xa8": 3, b"\xe2\x80\xa9": 3}
"""What the API server writes as six bytes, and how many more than ours those are."""


def stored_bytes(value: Any) -> int:
    """The bytes of a JSON value as the API server stores it; 0 for what cannot be written."""
    try:
        text = orjson.dumps(value)
    except TypeError:
        return 0  # nested too deep, which others say better
    return len(text) + sum(more * text.count(part) for part, more in _ESCAPED.items())


def size_error(spec: Any) -> str | None:
    """Why a spec is too large to be run; None when it is not."""
    size = stored_bytes(spec)
    if size <= LARGEST_SPEC:
        return None
    return (
        f"spec is {size} bytes where the API server stores it (<, > and & are six each), more than "
        f"{LARGEST_SPEC}: its status would find no room; write the prompt to a ConfigMap and name "
        "that in promptFrom"
    )
