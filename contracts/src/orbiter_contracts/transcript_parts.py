"""A part of a transcript as it is in a store: events as lines of JSON, with gzip. Pure and total.

Whoever may write there could have written anything: a line that is no event counts as missing, and
a part that cannot be unpacked ends where that is so.
"""

import zlib
from collections.abc import Iterable, Iterator

from pydantic import TypeAdapter, ValidationError

from orbiter_contracts.stored_transcripts import MAX_PART_BYTES
from orbiter_contracts.transcript import MAX_EVENT_BYTES, AnyEvent, TranscriptEvent

_GZIP = 16 + zlib.MAX_WBITS
_AT_ONCE = 64 * 1024
_LONGEST_LINE = 2 * MAX_EVENT_BYTES
"""Of an event that is as large as may be, and its figures."""
_event: TypeAdapter[AnyEvent] = TypeAdapter(TranscriptEvent)


def part_line(event: AnyEvent) -> bytes:
    """An event as a part has it."""
    return event.model_dump_json(exclude_none=True).encode() + b"\n"


def read_part(chunks: Iterable[bytes]) -> Iterator[AnyEvent]:
    """The events of a part, in the order of their sequence; what is none is left out.

    Args:
        chunks: Its bytes. No more of them are taken than hold `MAX_PART_BYTES` of JSON.
    """
    before = -1
    for line in _lines(chunks):
        try:
            event = _event.validate_json(line)
        except ValidationError:
            continue
        if event.sequence > before:
            before = event.sequence
            yield event


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for data in _unpacked(chunks):
        *lines, rest = (rest + data).split(b"\n")
        yield from (line for line in lines if 0 < len(line) <= _LONGEST_LINE)
        rest = rest[: _LONGEST_LINE + 1]  # Already too long to be one, and it may go on for ever.


def _unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    unpacker, left = zlib.decompressobj(_GZIP), MAX_PART_BYTES
    for chunk in chunks:
        packed = chunk
        while packed and left > 0:
            try:
                data = unpacker.decompress(packed, min(_AT_ONCE, left))
            except zlib.error:
                return
            left -= len(data)
            packed = unpacker.unconsumed_tail
            yield data
        if left <= 0 or unpacker.eof:
            return
