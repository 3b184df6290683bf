"""Now and then: take orphaned entries off the queue, cut the streams to length, repair ids.

An entry is orphaned when its AgentTask was deleted or ended while no operator was there to withdraw
it. The answers of a week are kept for outside readers, the lifecycle of a day.

Whoever may write to a stream may name the id of an entry. After one with the largest id there is
none left, and nobody can add anything for ever; after one of the year 2286 all later ids are of
that year too, and nothing is ever old enough to be trimmed. The stream is therefore made anew, in
one script, with its groups, its other entries and who holds them as they were. (XSETID is of no
use: Valkey lets no id come back behind one that was deleted.)

An id from the future is in nobody's way, so those entries are dealt with first, like any other.
Where ids have run out there is no time for that: each becomes a dead letter with its reason.
"""

from collections.abc import Callable, Iterable

import structlog
from redis.asyncio import Redis

from orbiter_contracts import InvalidMessageError, read_route
from orbiter_contracts.dead_letters import ADD_DEAD_LETTER
from orbiter_contracts.queues import (
    BARE,
    DEVELOPER_GROUP,
    TASK_FIELD,
    Keys,
    dead_letter,
)
from orbiter_contracts.scripts import ATTEMPT_TTL_SECONDS
from orbiter_operator.streams.dead_letters import DeadLetters
from orbiter_operator.streams.reader import LAST_ID, read_entry, read_routes
from orbiter_operator.streams.tenants import of_another_stream

Unfinished = Callable[[str, str], str | None]
"""The uid of the AgentTask of this namespace and name; None when it is over or not there."""
_BATCH = 500
_DAY_SECONDS = 24 * 60 * 60


async def trim_streams(
    redis: Redis,
    unfinished: Unfinished,
    now_ms: Callable[[], int],
    keys: Keys = BARE,
    dead: Callable[[str], None] = lambda stream: None,
) -> int:
    """Tidy the streams of some keys once. Returns how many orphaned entries were taken off.

    Args:
        redis: A client whose texts carry any bytes (`client`).
        unfinished: Asked about the AgentTask an entry is bound to; knows all of them.
        now_ms: Wall clock in milliseconds, as in the ids of entries.
        keys: Whose streams.
        dead: Called with the stream for every entry that names no attempt of this stream.
    """
    taken, position, queue = 0, "-", keys.developer_input
    while True:
        entries = await read_routes(redis, queue, position, _BATCH)
        for entry, fields in entries:
            try:
                if await _is_orphan(redis, unfinished, keys, entry, fields):
                    await redis.xack(queue, DEVELOPER_GROUP, entry)
                    taken += int(await redis.xdel(queue, entry))
            except InvalidMessageError as error:
                # No Job can come for it, and the intake may be full or not there: it would stay.
                if found := await read_entry(redis, queue, entry):
                    letters = DeadLetters(redis, dead)
                    await letters.add(queue, DEVELOPER_GROUP, found, error, remove=True)
        if len(entries) < _BATCH or entries[-1][0] == LAST_ID:
            break
        position = f"({entries[-1][0]}"
    kept = ((keys.developer_output, ATTEMPT_TTL_SECONDS), (keys.lifecycle, _DAY_SECONDS))
    for stream, seconds in kept:
        await redis.xtrim(stream, minid=str(now_ms() - seconds * 1000), approximate=True)
    return taken


async def _is_orphan(
    redis: Redis, unfinished: Unfinished, keys: Keys, entry: str, fields: dict[str, str]
) -> bool:
    route = read_route(fields)
    if route is None:
        return TASK_FIELD in fields
    if keys.namespace not in ("", route.namespace):
        raise of_another_stream(keys, route)  # who reads it first must make no difference
    uid = unfinished(route.namespace, route.name)
    if uid is None:
        return True
    return bool(await redis.hget(keys.attempt_record(uid, route.attempt), "entry") != entry)


log = structlog.get_logger(__name__)
AHEAD_SECONDS = 24 * 60 * 60
"""How far an id may be ahead of Redis' clock, which may have been set back."""
_MOST_BATCHES = 200
_AT_ONCE = 50
_MOST_TEXTS = 4000
"""Names and values of one entry that a script can add again."""
MOST_ENTRIES = 50_000
"""Entries of a stream, and of what a group holds, that are added again in one step: a third of a
second, in which Redis serves nobody. Three million of 15 bytes took twenty. The oldest go."""
_REASON = (
    "the id of the entry is out of range: it is days ahead of Redis' clock, and no more entries "
    "could be added behind it; add entries with the id *"
)
REPAIR = f"""{ADD_DEAD_LETTER}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local limit = now + tonumber(ARGV[1])
local first = string.format('%.0f', limit + 1)
local function odd(id) return tonumber(string.match(id, '^%d+')) > limit end
local function named(flat)
  local found = {{}}
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
  return found
end
local flat = redis.pcall('XINFO', 'STREAM', KEYS[1])
if flat.err then return {{'fine', 0}} end
local stream = named(flat)
local last = stream['last-generated-id']
if not odd(last) then return {{'fine', 0}} end
local groups = {{}}
for i, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do groups[i] = named(group) end
local function held(group, count)
  return redis.call('XPENDING', KEYS[1], group['name'], first, '+', count)
end
local function exists(id) return #redis.call('XRANGE', KEYS[1], id, id) > 0 end
local function unread(group)
  local newest = redis.call('XREVRANGE', KEYS[1], '+', first, 'COUNT', 1)[1]
  local delivered = group['last-delivered-id']
  if not newest or newest[1] == delivered then return false end
  if not odd(delivered) then return true end
  return delivered ~= '{LAST_ID}'
    and #redis.call('XRANGE', KEYS[1], '(' .. delivered, '+', 'COUNT', 1) > 0
end
if string.match(last, '^%d+') ~= '18446744073709551615' then
  if #groups == 0 then return {{'waits', 0}} end
  for _, group in ipairs(groups) do
    if unread(group) then return {{'waits', 0}} end
    for _, entry in ipairs(held(group, {_BATCH})) do
      if exists(entry[1]) then return {{'waits', 0}} end
    end
  end
end
local function done(id)
  for _, group in ipairs(groups) do
    local read = redis.call('XRANGE', KEYS[1], id, group['last-delivered-id'], 'COUNT', 1)
    if #read == 0 then return false end
    if #redis.call('XPENDING', KEYS[1], group['name'], id, id, 1) > 0 then return false end
  end
  return #groups > 0
end
local moved, letters = 0, 0
local function discard(entry, given_up)
  if given_up and KEYS[2] then add_dead_letter(KEYS[2], entry[2], ARGV[2]) end
  if given_up then letters = letters + 1 end
  redis.call('XDEL', KEYS[1], entry[1])
  moved = moved + 1
end
while moved < {_BATCH} do
  local entry = redis.call('XRANGE', KEYS[1], first, '+', 'COUNT', 1)[1]
  if not entry then break end
  discard(entry, not done(entry[1]))
end
if moved >= {_BATCH} then return {{'more', letters}} end
local cut = redis.call('XTRIM', KEYS[1], 'MAXLEN', ARGV[3])
if cut > 0 then return {{'more', letters, cut}} end
for _, group in ipairs(groups) do
  local entries, surplus = held(group, {_BATCH}), group['pending'] - tonumber(ARGV[3])
  if #entries == 0 and surplus > 0 then
    entries = redis.call('XPENDING', KEYS[1], group['name'], '-', '+', math.min(surplus, {_BATCH}))
  end
  for _, pending in ipairs(entries) do
    local entry = redis.call('XRANGE', KEYS[1], pending[1], pending[1])[1]
    if entry then discard(entry, true) end
    redis.call('XACK', KEYS[1], group['name'], pending[1])
  end
  if #entries > 0 then moved = {_BATCH} end
end
if moved >= {_BATCH} then return {{'more', letters}} end
local fresh, after, newest = KEYS[1] .. ':mended', '-', string.format('%.0f-0', now)
redis.call('EXPIRE', fresh, 0)
while true do
  local entry = redis.call('XRANGE', KEYS[1], after, '+', 'COUNT', 1)[1]
  if not entry then break end
  if #entry[2] > {_MOST_TEXTS} then
    discard(entry, true)
  else
    redis.call('XADD', fresh, entry[1], unpack(entry[2]))
    if tonumber(string.match(entry[1], '^%d+')) >= now then newest = entry[1] end
  end
  after = '(' .. entry[1]
end
if newest == string.format('%.0f-0', now) and not exists(newest) then
  redis.call('XADD', fresh, newest, 'a', 'b')
  redis.call('XDEL', fresh, newest)
end
for _, group in ipairs(groups) do
  local name, delivered, start = group['name'], group['last-delivered-id'], '-'
  if odd(delivered) then delivered = newest end
  redis.call('XGROUP', 'CREATE', fresh, name, delivered)
  while true do
    local some = redis.call('XPENDING', KEYS[1], name, start, '+', {_BATCH})
    for _, entry in ipairs(some) do
      redis.call('XCLAIM', fresh, name, entry[2], 0, entry[1], 'IDLE', entry[3],
        'RETRYCOUNT', entry[4], 'FORCE', 'JUSTID')
      start = '(' .. entry[1]
    end
    if #some < {_BATCH} then break end
  end
end
redis.call('RENAME', fresh, KEYS[1])
return {{'repaired', letters, last, newest}}
"""
"""KEYS: stream[, its dead letters]. ARGV: milliseconds an id may be ahead, reason of dead letters,
how many entries are added again at most. Returns `fine`, `waits` (for entries that are being dealt
with), `more` (to do) or `repaired`, how many entries were given up, then of `more` how many old
ones had to go, of `repaired` the newest id before and after.
"""


_ODD = """
local limit = redis.call('TIME')[1] * 1000 + tonumber(ARGV[1])
local found = {}
for number, stream in ipairs(KEYS) do
  local flat = redis.pcall('XINFO', 'STREAM', stream)
  for i = 1, flat.err and 0 or #flat, 2 do
    if flat[i] == 'last-generated-id' and tonumber(string.match(flat[i + 1], '^%d+')) > limit then
      found[#found + 1] = number
    end
  end
end
return found
"""
"""Which streams' newest ids are ahead of the clock, by their places from 1. KEYS: streams. ARGV:
milliseconds an id may be ahead.
"""


def shared(keys: Keys) -> tuple[str, ...]:
    """The streams that the workers of a namespace share."""
    return keys.developer_input, keys.developer_output, keys.lifecycle


def is_ahead(entry: str, now: float) -> bool:
    """Whether an id may be one that has to be repaired, by a clock of ours in seconds."""
    milliseconds = entry.partition("-")[0]
    return milliseconds.isdecimal() and int(milliseconds) > (now + AHEAD_SECONDS) * 1000


class StreamRepair:
    """Sets streams back to the present.

    Args:
        redis: A client for short commands.
        dead: Called with the stream for each entry that became a dead letter.
    """

    def __init__(self, redis: Redis, dead: Callable[[str], None] = lambda stream: None) -> None:
        self._script = redis.register_script(REPAIR)
        self._odd = redis.register_script(_ODD)
        self._dead = dead

    async def repair(self, stream: str) -> bool:
        """Repair a stream, and its dead letters first. Returns whether it was repaired now."""
        dead = dead_letter(stream)
        await self._repair(dead)
        return await self._repair(stream, dead)

    async def repair_shared(self, keys: Iterable[Keys] = (BARE,)) -> None:
        """Repair the streams that workers share, where they need it: one look at many of them."""
        streams = [stream for some in keys for stream in shared(some)]
        for start in range(0, len(streams), _AT_ONCE):
            looked = streams[start : start + _AT_ONCE]
            names = [name for stream in looked for name in (stream, dead_letter(stream))]
            found = await self._odd(keys=names, args=[AHEAD_SECONDS * 1000])
            for place in sorted({(int(number) - 1) // 2 for number in found}):
                await self.repair(looked[place])

    async def _repair(self, *keys: str) -> bool:
        given_up = 0
        for _ in range(_MOST_BATCHES):
            verdict, count, *ids = await self._script(
                keys=list(keys), args=[AHEAD_SECONDS * 1000, _REASON, MOST_ENTRIES]
            )
            given_up += count
            for _ in range(count):
                self._dead(keys[0])
            if verdict == "repaired":
                log.warning(
                    "a stream's newest id was out of range and is set back",
                    **{"stream": keys[0], "was": ids[0], "now": ids[1], "dead_letters": given_up},
                )
            if verdict == "more" and ids:
                log.warning("a stream too long to be repaired lost its oldest", gone=ids[0])
            if verdict != "more":
                return bool(verdict == "repaired")
        return False
