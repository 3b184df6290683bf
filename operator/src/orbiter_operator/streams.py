"""Reads of Redis streams with the one reply type that a text client on protocol 2 gives.

The client's own annotations allow for every protocol and encoding at once; here they are narrowed
in one place instead of at every call.
"""

from collections.abc import Mapping
from typing import Any, cast

from redis.asyncio import Redis

Entry = tuple[str, dict[str, str]]
"""An entry's id and its fields; no fields when the entry was deleted after it was handed out."""


async def read_group(
    redis: Redis,
    group: str,
    consumer: str,
    streams: Mapping[str, str],
    *,
    count: int,
    block: int | None = None,
) -> list[tuple[str, list[Entry]]]:
    """XREADGROUP: entries by stream; none when `block` milliseconds have passed."""
    found = await redis.xreadgroup(
        group, consumer, dict[Any, Any](streams), count=count, block=block
    )
    return cast("list[tuple[str, list[Entry]]]", found or [])


async def read_pending(
    redis: Redis, group: str, consumer: str, stream: str, after: str, count: int
) -> list[Entry]:
    """What the consumer was handed and has not acknowledged, after the id `after`."""
    found = await read_group(redis, group, consumer, {stream: after}, count=count)
    return found[0][1] if found else []


async def read_range(redis: Redis, stream: str, low: str, high: str, count: int) -> list[Entry]:
    """XRANGE: the entries from `low` to `high`."""
    found = await redis.xrange(stream, min=low, max=high, count=count)
    return cast("list[Entry]", found or [])
