"""Events of a transcript as viewers are given them: (`seq`, JSON), in batches."""

import sys
from typing import Final

MOST_AT_ONCE: Final = 64 * 1024
"""Characters of one batch, unless it is a single event: a viewer who reads slowly holds no more."""
_BESIDE_TEXT: Final = 100
"""Bytes of an event's number, and of the pair that the two are."""
Batch = list[tuple[int, str]]


def begin_of(batch: Batch) -> Batch:
    """Return as many of the events as are given at once."""
    size = 0
    for place, (_, text) in enumerate(batch):
        size += len(text)
        if size > MOST_AT_ONCE:
            return batch[: max(place, 1)]
    return batch


def size_of(text: str) -> int:
    """Return what an event takes: of a text one odd character makes four bytes of each."""
    return sys.getsizeof(text) + _BESIDE_TEXT


def cut_between(after: int, first: int) -> str:
    """Return the event that stands for those between two `seq`."""
    return f'{{"seq":{first - 1},"type":"cut","events":{first - 1 - after},"bytes":0}}'
