"""Keeps the transcripts of all agents within a tenth of Redis, and lets them lapse.

A transcript is of use to people and to nothing else: it gives way to everything. All of them
together have at most `SHARE_OF_MEMORY` of `maxmemory`, those of a namespace as much of its quota,
and none at all stays where Redis is nearly full. The oldest give way first: of one the end stays, a
single entry, from which a reader sees how much is missing; if that is not enough, nothing of it.

A worker's user may append and neither delete nor expire, so it is here that a transcript lapses,
`TRANSCRIPT_SECONDS` after it has last grown. How long it has left tells how old it is, too.

All keys are gone through, in steps of some hundred, without looking into any: 10,000 transcripts
among 100,000 keys are one pass of a second or so, and the pause is four times as long at least.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import NamedTuple

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter_contracts.queues import TRANSCRIPT_SUFFIX
from orbiter_contracts.redis_users import BOUNDS_TRANSCRIPTS
from orbiter_contracts.stream_names import owner_of_key
from orbiter_contracts.transcript import SHARE_OF_MEMORY, TRANSCRIPT_SECONDS
from orbiter_operator.settings import Settings

log = structlog.get_logger(__name__)
_CHECK_SECONDS = 5.0
_PAUSE_FACTOR = 4
_AT_ONCE = 500
_RENEW_SECONDS = 60 * 60
"""How exact the 7 days are: a transcript that grows has its time renewed as often."""
NEARLY_FULL = 0.95
"""Of `maxmemory`: beyond it transcripts go, before anybody's work is refused."""
_ROOM = 0.9
"""To which part of the bound is trimmed, so that the next event does not go beyond it again."""
_LACKING = (
    "transcripts are not bounded, and do not lapse: Redis does not let the operator count them; "
    f"give its user {' '.join(BOUNDS_TRANSCRIPTS)}"
)
_LONGEST_NAME = 1024
"""Of a key. Whoever may append may choose names, and the operator holds all that are counted."""
COUNT_TRANSCRIPTS = f"""
local page = redis.call('SCAN', ARGV[1], 'MATCH', '*{TRANSCRIPT_SUFFIX}', 'COUNT', {_AT_ONCE})
local answer = {{page[1]}}
for _, key in ipairs(page[2]) do
  local left, length = redis.pcall('TTL', key), redis.pcall('XLEN', key)
  if type(left) == 'number' and type(length) == 'number' then
    if length == 0 or #key > {_LONGEST_NAME} then
      if left < 0 then redis.pcall('EXPIRE', key, {TRANSCRIPT_SECONDS}) end
    else
      local bytes = redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', 0)
      for _, word in ipairs(type(bytes) == 'number' and {{key, bytes, left, length}} or {{}}) do
        answer[#answer + 1] = word
      end
    end
  end
end
return answer
"""
"""ARGV: a cursor. Returns the next one, then in turn keys of transcripts, how many bytes each has,
for how many seconds it stays (-1: for ever), and its entries. What is no stream is none of ours.
One without entries has nothing to give (a million of them take a worker a minute), and none of ours
has so long a name: these lapse, and nobody holds them.
"""


class Held(NamedTuple):
    """What a transcript holds of Redis.

    Attributes:
        key: Its key.
        size: Bytes.
        left: Seconds until it lapses; -1: it does not yet.
        entries: How many it has.
    """

    key: str
    size: int
    left: int
    entries: int


def in_the_way(found: Iterable[Held], most: int, most_of_one: int, excess: int = 0) -> list[Held]:
    """Which transcripts have to give way, the oldest first. Pure.

    Args:
        found: All there are.
        most: How many bytes all may have; 0: as many as they like.
        most_of_one: The same of one namespace.
        excess: How many bytes have to go in any case.
    """
    oldest = sorted((one for one in found if one.entries), key=_age)
    total, held = sum(one.size for one in oldest), Counter[str]()
    for one in oldest:
        held[owner_of_key(one.key) or ""] += one.size
    target = int(most * _ROOM) if most and total > most else total
    target = min(target, max(total - excess, 0))
    full = {owner for owner, size in held.items() if owner and 0 < most_of_one < size}
    chosen = list[Held]()
    for one in oldest:
        owner = owner_of_key(one.key) or ""
        if total > target or (owner in full and held[owner] > most_of_one * _ROOM):
            chosen.append(one)
            total -= one.size
            held[owner] -= one.size
    return chosen


class Transcripts:
    """Those of one Redis.

    Args:
        redis: A client for short commands, whose user may SCAN and MEMORY USAGE.
        settings: How many bytes a namespace may have.
    """

    def __init__(self, redis: Redis, settings: Settings) -> None:
        self._redis = redis
        self._page = redis.register_script(COUNT_TRANSCRIPTS)
        self._most_of_one = int(settings.redis_quota_bytes * SHARE_OF_MEMORY)
        self._sizes: Mapping[str, int] = {}
        self._logged = ""

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            began = time.monotonic()
            try:
                await self.check()
                self._logged = ""
            except (RedisError, OSError) as error:
                if self._logged != (text := f"{type(error).__name__}: {error}"):
                    log.warning("transcripts not bounded", error=text, hint=_LACKING)
                self._logged = text
            await asyncio.sleep(max(_CHECK_SECONDS, (time.monotonic() - began) * _PAUSE_FACTOR))

    async def check(self) -> int:
        """Look once. Returns how many transcripts had to give way.

        Raises:
            RedisError: Redis did not answer, or does not let the operator do that.
        """
        found = [one async for page in self._pages() for one in page]
        memory = await self._redis.info("memory")
        whole, used = int(memory["maxmemory"]), int(memory["used_memory"])
        excess = max(used - int(whole * NEARLY_FULL), 0) if whole else 0
        chosen = in_the_way(found, int(whole * SHARE_OF_MEMORY), self._most_of_one, excess)
        for start in range(0, len(chosen), _AT_ONCE):
            async with self._redis.pipeline(transaction=False) as pipeline:
                for one in chosen[start : start + _AT_ONCE]:
                    # Of one that has given way before, nothing can stay.
                    keep = 1 if one.entries > 1 else 0
                    pipeline.xtrim(one.key, maxlen=keep, approximate=False)
                await pipeline.execute()
        if chosen:
            log.info("transcripts cut", transcripts=len(chosen), bytes=sum(o.size for o in chosen))
        await self._let_lapse(found)
        return len(chosen)

    async def _pages(self) -> AsyncIterator[list[Held]]:
        cursor = "0"
        while True:
            cursor, *words = await self._page(args=[cursor])
            fours = zip(*(iter(words),) * 4, strict=True)
            yield [Held(str(key), *map(int, figures)) for key, *figures in fours]
            if cursor == "0":
                return

    async def _let_lapse(self, found: Iterable[Held]) -> None:
        """Give those that have grown their time anew, and those that have none."""
        before, self._sizes = self._sizes, {one.key: one.size for one in found}
        fresh = TRANSCRIPT_SECONDS - _RENEW_SECONDS
        grown = [
            one.key
            for one in found
            if one.left < 0 or (one.left < fresh and before.get(one.key, one.size) != one.size)
        ]
        for start in range(0, len(grown), _AT_ONCE):
            async with self._redis.pipeline(transaction=False) as pipeline:
                for key in grown[start : start + _AT_ONCE]:
                    pipeline.expire(key, TRANSCRIPT_SECONDS)
                await pipeline.execute()


def _age(one: Held) -> int:
    """What sorts the oldest first; one that does not lapse yet has just begun."""
    return one.left if one.left >= 0 else TRANSCRIPT_SECONDS + 1
