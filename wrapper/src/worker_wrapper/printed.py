"""Finds the JSON objects among what a CLI printed, however much noise is around them.

The adapters (agents/) use it. Nothing here holds more than a few megabytes: lines are found by
position, and the long strings of a huge object are cut to their end, where agents put the result.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from worker_wrapper.spill import Spill
from worker_wrapper.spoken import loads

KEPT_BYTES = 1024 * 1024
"""What is kept of a string in an object that is too large to be read whole: as much as an output
may have."""
_KEPT_OF_MANY_BYTES = 256 * 1024
"""The same, when the object has so many long strings that it would be too large even so."""
_WHOLE_BYTES = 4 * 1024 * 1024
_SHORTENED_BYTES = 8 * 1024 * 1024
_CANDIDATES = 4096
"""Lines that are looked at, from the end, for the last object."""


def objects(spill: Spill) -> Iterator[dict[str, Any]]:
    """All lines that are JSON objects, first to last."""
    for start, end in _object_lines(spill):
        value = _load(spill, start, end)
        if value is not None:
            yield value


def last_object(spill: Spill, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    """The last JSON object that is wanted: on a line of its own, or as all that was printed."""
    lines = deque(_object_lines(spill), maxlen=_CANDIDATES)
    for start, end in [*reversed(lines), (0, spill.size)]:
        value = _load(spill, start, end)
        if value is not None and wanted(value):
            return value
    return None


def _object_lines(spill: Spill) -> Iterator[tuple[int, int]]:
    """Positions of the lines that begin with a brace."""
    opened: int | None = None
    position, at_line_start = 0, True
    for chunk in spill.chunks():
        if at_line_start and chunk.startswith(b"{"):
            opened = position
        at_line_start = chunk.endswith(b"\n")
        here = 0
        while True:
            if opened is not None:
                end = chunk.find(b"\n", here)
                if end < 0:
                    break
                yield opened, position + end
                opened, here = None, end
            # From a newline on, so that a line right behind the last one is found too.
            found = chunk.find(b"\n{", here)
            if found < 0:
                break
            opened, here = position + found + 1, found + 1
        position += len(chunk)
    if opened is not None:
        yield opened, position


def _load(spill: Spill, start: int, end: int) -> dict[str, Any] | None:
    if end - start <= _WHOLE_BYTES:
        data: bytes | None = spill.read(start, end - start)
    else:
        data = shortened(spill.chunks(start, end)) or shortened(
            spill.chunks(start, end), keep=_KEPT_OF_MANY_BYTES
        )
    try:
        value = loads(data) if data else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def shortened(chunks: Iterable[bytes], *, keep: int = KEPT_BYTES) -> bytes | None:
    """Copy JSON, but of each string only the last `keep` bytes or so.

    Args:
        chunks: The JSON, in pieces of any size.
        keep: What may stay of a string.

    Returns:
        JSON again; or None when even that is too large.
    """
    copy, string, cut, inside = bytearray(), bytearray(), 0, False
    for chunk in chunks:
        here = 0
        while here < len(chunk):
            if not inside:
                quote = chunk.find(b'"', here)
                copy += chunk[here : quote + 1] if quote >= 0 else chunk[here:]
                here = quote + 1 if quote >= 0 else len(chunk)
                inside = quote >= 0
                continue
            quote = _closing_quote(string, chunk, here)
            string += chunk[here : quote if quote >= 0 else len(chunk)]
            here = quote if quote >= 0 else len(chunk)
            if len(string) > 2 * keep or (quote >= 0 and len(string) > keep):
                excess = len(string) - keep
                excess += _escaped(string, excess)
                cut += excess
                del string[:excess]
            if quote >= 0:
                copy += b"[%d bytes left out] " % cut if cut else b""
                copy += string + b'"'
                string.clear()
                cut, inside, here = 0, False, quote + 1
        if len(copy) > _SHORTENED_BYTES:
            return None
    return bytes(copy)


def _closing_quote(string: bytearray, chunk: bytes, start: int) -> int:
    """Where in `chunk` the string ends, or -1; `string` is what of it came before."""
    at = chunk.find(b'"', start)
    while at >= 0:
        first = at
        while first > start and chunk[first - 1] == 0x5C:
            first -= 1
        before = _escaped(string, len(string)) if first == start else 0
        if (at - first + before) % 2 == 0:
            return at
        at = chunk.find(b'"', at + 1)
    return -1


def _escaped(string: bytearray, at: int) -> bool:
    """Whether an odd number of backslashes stands right before a position."""
    first = at
    while first > 0 and string[first - 1] == 0x5C:
        first -= 1
    return (at - first) % 2 == 1
