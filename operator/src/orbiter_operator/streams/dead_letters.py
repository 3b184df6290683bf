"""Put aside what nobody can use: a copy with its reason, acknowledged, counted.

And take off what nobody wants any more: the entries of tasks that were deleted unseen.
"""

import time
from collections.abc import Callable
from typing import Any

import structlog
from redis.asyncio import Redis

from orbiter_contracts import InvalidMessageError, excerpt
from orbiter_contracts.bounds import DEAD_LETTERS_KEPT
from orbiter_contracts.dead_letters import dead_letter_fields
from orbiter_contracts.queues import DEVELOPER_GROUP, Keys, dead_letter
from orbiter_contracts.stream_names import is_entry_id
from orbiter_operator.streams.reader import Entry

log = structlog.get_logger(__name__)


_TAKE_OFF = """
if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('XACK', KEYS[1], ARGV[2], ARGV[1])
redis.pcall('XADD', KEYS[2], 'MAXLEN', ARGV[3], '*', unpack(ARGV, 4))
return 1
"""
"""Take an entry off its stream for a dead letter; nothing when somebody was faster.

KEYS: stream, dead letters. ARGV: id, group, how many letters are kept, the letter's fields.
"""


class DeadLetters:
    """The dead letters of the streams that the operator reads.

    Args:
        redis: A client whose texts carry any bytes (`client`).
        count: Called with the stream for each of them.
    """

    def __init__(self, redis: Redis, count: Callable[[str], None]) -> None:
        self._redis = redis
        self._count = count
        self._take_off = redis.register_script(_TAKE_OFF)

    async def add(
        self, stream: str, group: str, entry: Entry, error: Exception, *, remove: bool
    ) -> None:
        """Keep an entry with the reason why it cannot be used, and acknowledge it.

        Of two who take the same entry off, one writes its letter.

        Args:
            stream: Where it was read.
            group: In which group.
            entry: The entry.
            error: What came of reading it.
            remove: Whether to take it off the stream. One too large always goes.
        """
        reason = why(error)
        fields: dict[Any, Any] = {**dead_letter_fields(entry.fields, reason)}
        letters = dead_letter(stream)
        if remove or not entry.whole:
            flat = [text for pair in fields.items() for text in pair]
            args = [entry.id, group, DEAD_LETTERS_KEPT, *flat]
            if not await self._take_off(keys=[stream, letters], args=args):
                return
        else:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.xadd(letters, fields, maxlen=DEAD_LETTERS_KEPT, approximate=False)
                pipe.xack(stream, group, entry.id)
                await pipe.execute()
        self._count(stream)
        log.warning("dead letter", stream=stream, entry=entry.id, reason=reason)


def why(error: Exception) -> str:
    """Why an entry cannot be used, in one printable line."""
    if isinstance(error, InvalidMessageError):
        return str(error)
    return f"it could not be handled: {type(error).__name__}: {excerpt(str(error))}"


SETTLED_SECONDS = 60
"""After how long a task that was made of an entry is known here, if it is there at all."""
_LONGEST_TIME = 12
"""Digits of a time in seconds."""


async def note_adopted(redis: Redis, keys: Keys, entry: str, task: str) -> None:
    """An entry from outside has become a task: should that one be deleted, it becomes none again.

    Args:
        redis: A client for short commands.
        keys: Whose stream the entry is in.
        entry: Its id.
        task: The task, as namespace/name.
    """
    await redis.hset(keys.adopted, entry, f"{task} {int(time.time())}")


async def forget_adopted(
    redis: Redis, keys: Keys, phase: Callable[[str], str | None], consumer: str
) -> int:
    """Take entries off the queue whose task was deleted while no operator looked.

    Args:
        redis: A client for short commands.
        keys: Whose stream.
        phase: Asked about each task, as namespace/name: "over", "goes on", None for none.
        consumer: The operator's own name as a reader of the stream.

    Returns:
        How many were taken off. One that another worker has by now is left to that.
    """
    taken = 0
    for entry, said in (await redis.hgetall(keys.adopted)).items():
        task, _, since = str(said).partition(" ")
        found = phase(task)
        if found == "goes on" or (found is None and _is_young(since)):
            continue
        if found is None and is_entry_id(str(entry)):
            queue = keys.developer_input
            held = await redis.xpending_range(queue, DEVELOPER_GROUP, min=entry, max=entry, count=1)
            holder = str(held[0]["consumer"]) if held else ""
            if holder == consumer or holder.startswith(f"{task.replace('/', '.', 1)}-"):
                await redis.xack(queue, DEVELOPER_GROUP, entry)
                taken += int(await redis.xdel(queue, entry))
        await redis.hdel(keys.adopted, entry)
    return taken


def _is_young(since: str) -> bool:
    known = since.isascii() and since.isdecimal() and len(since) <= _LONGEST_TIME
    return known and time.time() - int(since) < SETTLED_SECONDS
