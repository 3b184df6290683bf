"""Now and then: take orphaned entries off the queue and cut the streams to a useful length.

An entry is orphaned when its AgentTask was deleted or ended while no operator was there to withdraw
it. The answers of a week are kept for outside readers, the lifecycle of a day.
"""

from collections.abc import Callable

from redis.asyncio import Redis

from orbiter_contracts import InvalidMessageError, read_route
from orbiter_contracts.queues import (
    DEVELOPER_GROUP,
    DEVELOPER_INPUT,
    DEVELOPER_OUTPUT,
    LIFECYCLE,
    OPERATOR_GROUP,
    TASK_FIELD,
    attempt_record,
)
from orbiter_contracts.scripts import ATTEMPT_TTL_SECONDS
from orbiter_operator.streams.reader import LAST_ID, read_routes

Unfinished = Callable[[str, str], str | None]
"""The uid of the AgentTask of this namespace and name; None when it is over or not there."""
_BATCH = 500
_DAY_SECONDS = 24 * 60 * 60


async def trim_streams(redis: Redis, unfinished: Unfinished, now_ms: Callable[[], int]) -> int:
    """Tidy the streams once. Returns how many orphaned entries were taken off the queue.

    Args:
        redis: A client that reads replies as text.
        unfinished: Asked about the AgentTask an entry is bound to; knows all of them.
        now_ms: Wall clock in milliseconds, as in the ids of entries.
    """
    taken = 0
    position = "-"
    while True:
        entries = await read_routes(redis, DEVELOPER_INPUT, position, _BATCH)
        for entry, fields in entries:
            if await _is_orphan(redis, unfinished, entry, fields):
                await redis.xack(DEVELOPER_INPUT, DEVELOPER_GROUP, entry)
                taken += int(await redis.xdel(DEVELOPER_INPUT, entry))
        if len(entries) < _BATCH or entries[-1][0] == LAST_ID:
            break
        position = f"({entries[-1][0]}"
    for stream, seconds in ((DEVELOPER_OUTPUT, ATTEMPT_TTL_SECONDS), (LIFECYCLE, _DAY_SECONDS)):
        await redis.xtrim(stream, minid=str(now_ms() - seconds * 1000), approximate=True)
    return taken


async def _is_orphan(
    redis: Redis, unfinished: Unfinished, entry: str, fields: dict[str, str]
) -> bool:
    try:
        route = read_route(fields)
    except InvalidMessageError:
        # No Job can come for it, and other workers leave it alone. The intake makes a dead letter
        # of it; without one it would stay for ever.
        return True
    if route is None:
        return TASK_FIELD in fields
    uid = unfinished(route.namespace, route.name)
    if uid is None:
        return True
    record = attempt_record(uid, route.attempt)
    return bool(await redis.hget(record, "entry") != entry)


async def lag(redis: Redis) -> int:
    """Outputs and lifecycle events that the operator's group has not been handed yet."""
    unread = 0
    for stream in (DEVELOPER_OUTPUT, LIFECYCLE):
        for group in await redis.xinfo_groups(stream):
            if group["name"] == OPERATOR_GROUP:
                # Redis answers nil when it cannot tell, after deletions for instance.
                unread += int(group.get("lag") or 0)
    return unread
