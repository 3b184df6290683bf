"""Bounded reads of each namespace's three streams: an entry's size is asked before it is read.

Anyone who may write to a stream may write an entry of any size, up to 512 MiB, and one or two of
those end a process of 512. A blocking read cannot be bounded on the server: its connection
(`client.BoundedParser`) takes in replies up to 1 MiB and lets the contents of a larger one go by
as they come off the socket. The entries of such a reply are read once more by a script on the
server, one after the other until there are enough bytes; of an entry that is too large it returns
the size and the beginnings of its fields.

So a wake-up is one round trip, and a second one only behind 1 MiB. The bundled Redis' own limit of
a text (proto-max-bulk-len) would be none for an external Redis, and snapshots of sessions are
larger than any message.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter_contracts import InvalidMessageError
from orbiter_contracts.bounds import FIELD_OVERHEAD_BYTES, MAX_ENTRY_BYTES
from orbiter_contracts.queues import ATTEMPT_FIELD, BARE, TASK_FIELD
from orbiter_contracts.stream_names import StreamKind, read_stream_name

log = structlog.get_logger(__name__)
BATCH_BYTES = 4 * 1024 * 1024
"""When a batch has this much, no further entry is added to it."""
_SHOWN_FIELDS, _SHOWN_BYTES = 16, 2048
_UNBLOCK_RETRY_SECONDS = 0.005
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
_HELD = (
    _READ
    + f"""
local after, left, bytes, taken = ARGV[3], tonumber(ARGV[4]), 0, {{}}
while left > 0 and bytes < {BATCH_BYTES} and after ~= '{LAST_ID}' do
  local found = redis.pcall('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', 1,
    'STREAMS', KEYS[1], after)
  if found and found.err and #taken == 0 then return found end
  local entry = found and not found.err and found[1][2][1]
  if not entry then break end
  local size
  taken[#taken + 1], size = read(entry)
  left, bytes, after = left - 1, bytes + size, entry[1]
end
return taken
"""
)
"""XREADGROUP in bounds. KEYS: stream. ARGV: group, consumer, the id after which to read what the
consumer holds, how many at most. Returns the entries: id, size, whether whole, fields.
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
  local route, found = {{entry[1]}}, {{}}
  for i = 1, #entry[2], 2 do
    local name = entry[2][i]
    if name == '{TASK_FIELD}' or name == '{ATTEMPT_FIELD}' then found[name] = entry[2][i + 1] end
  end
  for name, value in pairs(found) do
    route[#route + 1] = name
    route[#route + 1] = string.sub(value, 1, {_SHOWN_BYTES})
  end
  routes[#routes + 1] = route
  if entry[1] == '{LAST_ID}' then break end
  position = '(' .. entry[1]
end
return routes
"""
"""The ids and routing fields of entries, each field once however often an entry has it: the last,
as who reads the whole entry has it too. KEYS: stream. ARGV: where to begin, how many at most."""

_RENEW = """
local held = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], '+', 1000, ARGV[2])
if #held == 0 then return false end
local ids = {}
for i, entry in ipairs(held) do ids[i] = entry[1] end
ids[#ids + 1] = 'JUSTID'
redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, unpack(ids))
return held[#held][1]
"""
"""Renew a consumer's claims, in one step: what another takes in between stays that one's. KEYS:
stream. ARGV: group, consumer, where to begin. Returns the last id; nil when there was nothing.
"""


_New = list[tuple[str, dict[str, str]]]


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
    """One stream, read as the one consumer of a group: what comes of it (`tenants` waits for that).

    Args:
        redis: A client for short commands.
        stream: The stream.
        group: The group; who reads from it creates it.
        consumer: Name of the consumer.

    Attributes:
        keys: The keys it is one of.
        kind: What is in it; None when its name is none of ours.
    """

    def __init__(self, redis: Redis, stream: str, group: str, consumer: str) -> None:
        self.stream = stream
        self.group = group
        self._consumer = consumer
        self._script = redis.register_script(_HELD)
        self._let_by: tuple[str, str] | None = None
        name = read_stream_name(stream)
        self.keys = name.keys if name else BARE
        self.kind: StreamKind | None = name.kind if name else None

    @property
    def behind(self) -> bool:
        """Whether the contents of entries that it was handed were let go by, and not read since."""
        return self._let_by is not None

    def accept(self, new: _New) -> list[Entry]:
        """Take what a read of `client.blocking_client` has brought.

        Returns:
            The entries; none when their contents were let go by: then it is `behind`.
        """
        if all(fields for _, fields in new):
            return [_small_entry(name, fields) for name, fields in new]
        self._let_by = id_before(new[0][0]), new[-1][0]
        return []

    async def catch_up(self, count: int) -> list[Entry]:
        """Read of what was let by as much as goes into a batch."""
        if self._let_by is None:
            return []
        (after, last), self._let_by = self._let_by, None
        entries = await self.held(after, count)
        if entries and entries[-1].id != last:
            self._let_by = entries[-1].id, last
        return entries

    async def held(self, after: str, count: int) -> list[Entry]:
        """What the consumer was handed and has not acknowledged, after the id `after`."""
        if after == LAST_ID:
            return []  # Redis would begin again with the first
        taken = await self._script(
            keys=[self.stream], args=[self.group, self._consumer, after, count]
        )
        return [_entry(item) for item in taken]


@asynccontextmanager
async def own_connection(reader: Redis) -> AsyncIterator[tuple[Redis, int]]:
    """A connection of one's own for blocking reads, and the id by which `unblock` ends them."""
    # The client's own context leaves the connection open when it is cancelled twice.
    async with aclosing(reader.client()) as connection:
        await connection.initialize()
        yield connection, await connection.client_id()


async def unblock(redis: Redis, blocked: Callable[[], int | None]) -> None:
    """End a blocked read, because there is something else to read by now.

    Args:
        redis: A client for short commands.
        blocked: The id of the read's connection; None when it reads anew, or need not any more.
            Asked again and again, because a read that is about to block is not blocked yet.
    """
    while (client := blocked()) is not None:
        try:
            await redis.client_unblock(client)
        except (RedisError, OSError) as error:
            log.debug("not unblocked", error=str(error))
        await asyncio.sleep(_UNBLOCK_RETRY_SECONDS)


async def run_id(redis: Redis) -> str:
    """Which server answers: the id of its start.

    Raises:
        RedisError: Redis did not answer, its user may not ask, or it does not say.
    """
    if not (found := (await redis.info("server")).get("run_id")):
        raise RedisError("INFO does not say which run_id this server has")
    return str(found)


async def read_entry(redis: Redis, stream: str, entry: str) -> Entry | None:
    """One entry of a stream, or None when there is none with this id."""
    found = await redis.register_script(_ONE)(keys=[stream], args=[entry])
    return None if found is None else _entry(found)


async def renew_held(
    redis: Redis, stream: str, group: str, consumer: str, allowed: Callable[[], None]
) -> None:
    """Tell the others of a group that all a consumer holds is not a dead peer's.

    Raises:
        RedisError: Redis did not answer, or has no such group.
    """
    renew, begin = redis.register_script(_RENEW), "-"
    while begin != f"({LAST_ID}":
        allowed()
        last = await renew(keys=[stream], args=[group, consumer, begin])
        if last is None:
            return
        begin = f"({last}"


async def read_routes(
    redis: Redis, stream: str, position: str, count: int
) -> list[tuple[str, dict[str, str]]]:
    """Ids and routing fields of the entries from a position on, whatever else is in them."""
    found = await redis.register_script(_ROUTES)(keys=[stream], args=[position, count])
    return [(route[0], _pairs(route[1:])) for route in found]


def id_before(entry: str) -> str:
    """The id right before an entry's: what is read after it begins with the entry."""
    milliseconds, _, number = entry.partition("-")
    if int(number):
        return f"{milliseconds}-{int(number) - 1}"
    return f"{int(milliseconds) - 1}-{2**64 - 1}"


def _small_entry(name: str, fields: dict[str, str]) -> Entry:
    """An entry of a small reply, which may have many fields all the same."""
    texts = (
        len(text.encode("utf-8", "surrogateescape")) for pair in fields.items() for text in pair
    )
    size = len(fields) * FIELD_OVERHEAD_BYTES + sum(texts)
    return Entry(name, fields, size, size <= MAX_ENTRY_BYTES)


def _entry(item: list[Any]) -> Entry:
    identifier, size, whole, flat = item
    return Entry(identifier, _pairs(flat), int(size), bool(whole))


def _pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
