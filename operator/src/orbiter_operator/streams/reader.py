"""Reads of the three shared streams, bounded: how large an entry is, is asked before it is read.

Anyone who may write to a stream may write an entry of any size, up to 512 MiB, and one or two of
those end a process of 512. A blocking read cannot be bounded, so it only says what has come
(`headlines`); a script then reads it on the server, one entry after the other, and goes on until
there are enough entries or bytes. Of an entry that is too large it returns the size and the
beginnings of its fields.

That is one round trip more for each wake-up, a fraction of a millisecond, and no write more: what
the blocking read has handed out is only looked up. A limited reader of the protocol could save it,
and would have to know what an entry is, because one may also have a million small fields. The
bundled Redis' own limit of a text (proto-max-bulk-len) would be none for an external Redis, and
snapshots of sessions are larger than any message.
"""

from typing import Any, NamedTuple, cast

from redis.asyncio import Redis

from orbiter_contracts import InvalidMessageError
from orbiter_contracts.bounds import FIELD_OVERHEAD_BYTES, MAX_ENTRY_BYTES
from orbiter_contracts.queues import ATTEMPT_FIELD, TASK_FIELD

BATCH_BYTES = 4 * 1024 * 1024
"""When a batch has this much, no further entry is added to it."""
_SHOWN_FIELDS, _SHOWN_BYTES = 16, 2048
LAST_ID = "18446744073709551615-18446744073709551615"
"""No id is larger, and none is after it: Redis refuses `(` before it."""

_READ = f"""
local function read(entry)
  local flat = entry[2] or {{}}
  local size = #flat / 2 * {FIELD_OVERHEAD_BYTES}
  for i = 1, #flat do size = size + #flat[i] end
  if size <= {MAX_ENTRY_BYTES} then return {{entry[1], size, 1, flat}}, size end
  local shown = {{}}
  for i = 1, math.min(#flat, {_SHOWN_FIELDS * 2}) do
    shown[i] = string.sub(flat[i], 1, {_SHOWN_BYTES})
  end
  return {{entry[1], size, 0, shown}}, 0
end
"""
_TAKE = (
    _READ
    + f"""
local after, left, bytes, taken = ARGV[3], tonumber(ARGV[4]), 0, {{}}
local function add(entry)
  local size
  taken[#taken + 1], size = read(entry)
  left, bytes = left - 1, bytes + size
end
if ARGV[5] ~= '' then
  local woken = redis.call('XRANGE', KEYS[1], ARGV[5], ARGV[5])
  if #woken > 0 then add(woken[1]) end
end
while left > 0 and bytes < {BATCH_BYTES} do
  local found = redis.pcall('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', 1,
    'STREAMS', KEYS[1], after)
  if found and found.err and #taken == 0 then return found end
  local entry = found and not found.err and found[1][2][1]
  if not entry then return {{0, taken}} end
  add(entry)
  if after ~= '>' then after = entry[1] end
  if after == '{LAST_ID}' then return {{0, taken}} end
end
return {{1, taken}}
"""
)
"""XREADGROUP in bounds. KEYS: stream. ARGV: group, consumer, `>` or the id after which to read what
the consumer holds, how many at most, an entry the consumer was handed already or nothing. Returns
whether there may be more, and the entries: id, size, whether whole, fields.
"""
_ONE = (
    _READ
    + """
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
if #found == 0 then return false end
return (read(found[1]))
"""
)
"""One entry, in bounds. KEYS: stream. ARGV: its id."""
_ROUTES = f"""
local position, routes = ARGV[1], {{}}
for _ = 1, tonumber(ARGV[2]) do
  local entry = redis.call('XRANGE', KEYS[1], position, '+', 'COUNT', 1)[1]
  if not entry then break end
  local route = {{entry[1]}}
  for i = 1, #entry[2], 2 do
    local name = entry[2][i]
    if name == '{TASK_FIELD}' or name == '{ATTEMPT_FIELD}' then
      route[#route + 1] = name
      route[#route + 1] = string.sub(entry[2][i + 1], 1, {_SHOWN_BYTES})
    end
  end
  routes[#routes + 1] = route
  if entry[1] == '{LAST_ID}' then break end
  position = '(' .. entry[1]
end
return routes
"""
"""The ids and routing fields of entries. KEYS: stream. ARGV: where to begin, how many at most."""


class Entry(NamedTuple):
    """An entry of a stream.

    Attributes:
        id: Its id.
        fields: Its fields; none when it was deleted after it was handed out.
        size: Its size in bytes, about.
        whole: Whether the fields are all there; of one too large they are not.
    """

    id: str
    fields: dict[str, str]
    size: int = 0
    whole: bool = True

    def check(self) -> None:
        """Refuse an entry that is too large to be read.

        Raises:
            InvalidMessageError: It is.
        """
        if not self.whole:
            raise InvalidMessageError(
                f"the entry has {self.size} bytes; it was not read, "
                f"an entry has at most {MAX_ENTRY_BYTES}"
            )


class Inbox:
    """One stream, read as the one consumer of a group.

    Args:
        redis: A client for short commands.
        reader: A client that blocks (`connect.blocking_client`).
        stream: The stream.
        group: The group; who reads from it creates it.
        consumer: Name of the consumer.
    """

    def __init__(self, redis: Redis, reader: Redis, stream: str, group: str, consumer: str) -> None:
        self.stream = stream
        self.group = group
        self._reader = reader
        self._consumer = consumer
        self._script = redis.register_script(_TAKE)
        self._more = True

    async def wait(self, count: int, block: int) -> list[Entry]:
        """New entries; none when nothing has come for `block` milliseconds.

        What was handed out and not returned, because Redis went away, is among what is `held`.

        Raises:
            ResponseError: The group is gone.
        """
        woken = ""
        if not self._more:
            found = await self._reader.xreadgroup(
                self.group, self._consumer, {self.stream: ">"}, count=1, block=block
            )
            if not found:
                return []
            woken = cast("list[tuple[str, list[tuple[str, Any]]]]", found)[0][1][0][0]
        self._more, entries = await self._take(">", count, woken)
        return entries

    async def held(self, after: str, count: int) -> list[Entry]:
        """What the consumer was handed and has not acknowledged, after the id `after`."""
        if after == LAST_ID:
            return []  # Redis would begin again with the first
        return (await self._take(after, count))[1]

    async def _take(self, after: str, count: int, woken: str = "") -> tuple[bool, list[Entry]]:
        more, taken = await self._script(
            keys=[self.stream], args=[self.group, self._consumer, after, count, woken]
        )
        return bool(more), [_entry(item) for item in taken]


async def read_entry(redis: Redis, stream: str, entry: str) -> Entry | None:
    """One entry of a stream, or None when there is none with this id."""
    found = await redis.register_script(_ONE)(keys=[stream], args=[entry])
    return None if found is None else _entry(found)


async def read_routes(
    redis: Redis, stream: str, position: str, count: int
) -> list[tuple[str, dict[str, str]]]:
    """Ids and routing fields of the entries from a position on, whatever else is in them."""
    found = await redis.register_script(_ROUTES)(keys=[stream], args=[position, count])
    return [(route[0], _pairs(route[1:])) for route in found]


def _entry(item: list[Any]) -> Entry:
    identifier, size, whole, flat = item
    return Entry(identifier, _pairs(flat), int(size), bool(whole))


def _pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
