"""What a request costs at Anthropic, whose cache is one of prefixes that end at breakpoints.

Writes cost 1.25 of an input token, reads 0.1. A prefix of less than the minimum is not kept, and
one is found at most twenty blocks before a breakpoint.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

MINIMUM = 1024
LOOKBACK = 20
BREAKPOINTS = 4


@dataclass(frozen=True)
class Bill:
    """The input tokens of one request."""

    read: int
    written: int
    rest: int

    @property
    def tokens(self) -> int:
        """All that was sent."""
        return self.read + self.written + self.rest

    @property
    def cost(self) -> float:
        """In input tokens without a cache."""
        return 0.1 * self.read + 1.25 * self.written + self.rest


class Cache:
    """Bills requests one after the other."""

    def __init__(self) -> None:
        self._kept: set[tuple[str, ...]] = set()

    def bill(self, body: dict[str, Any]) -> Bill:
        """Bill a request and keep what it asks to keep."""
        blocks = list(_blocks(body))
        texts = [text for text, _ in blocks]
        upto = list(accumulate(_tokens(text) for text in texts))
        marks = [n for n, (_, marked) in enumerate(blocks) if marked]
        assert len(marks) <= BREAKPOINTS, f"{len(marks)} blocks with cache_control, 4 are allowed"
        known = (
            upto[n]
            for mark in marks
            for n in range(mark, max(mark - LOOKBACK, -1), -1)
            if tuple(texts[: n + 1]) in self._kept
        )
        read = max(known, default=0)
        end = read
        for mark in marks:
            if upto[mark] >= MINIMUM:
                self._kept.add(tuple(texts[: mark + 1]))
                end = max(end, upto[mark])
        return Bill(read, end - read, upto[-1] - end)


def _blocks(body: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Give tools, system and messages in the order of the prefix, and which ends one."""
    system = body.get("system", [])
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    groups = [("tools", body.get("tools", [])), ("system", system)]
    groups += [(message["role"], message["content"]) for message in body["messages"]]
    for role, group in groups:
        for block in group:
            bare = {name: value for name, value in block.items() if name != "cache_control"}
            yield role + json.dumps(bare), "cache_control" in block


def _tokens(text: str) -> int:
    return len(text) // 4
