"""The sessions' keys in Redis: one observed at once, many counted at once, wiped at the end.

Each method is one Lua script, so what it reads is of one moment and what it changes is all or
nothing. Whether a message is undelivered is seen in the stream itself: Redis' own lag is NULL after
deletions and for groups created in the middle of a stream.

The operator keeps a registry of the sessions whose keys it has made, a hash by uid. Nothing that is
not in there is ever deleted, so other installations and workers without a session keep theirs. It
is one for all namespaces: of a namespace without any object nobody would look for its own.

A session whose namespace has got keys of its own is moved to them (`migration`).
"""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import structlog
from pydantic import TypeAdapter
from redis.asyncio import Redis

from orbiter_contracts import POState, excerpt
from orbiter_contracts.queues import BARE, PO_GROUP, Keys, dead_letter
from orbiter_operator.sessions.models import QueueState
from orbiter_operator.streams.retention import AHEAD_SECONDS, StreamRepair, is_ahead

_LONGEST_TIME = 14
"""Digits of a time in milliseconds until the year 5138; a date can have few more."""
log = structlog.get_logger(__name__)
_AT_ONCE = 100
_STATE = tuple(POState.model_fields)
_STATE_BYTES = 4096
"""How long a field of a session's state may be; the longest are a rotation and a snapshot."""
ALLOWED = "turns_allowed"
"""The field of a session's state that is the operator's."""
_ANOTHERS = "-"
"""No reason to hold a worker is written so; see OBSERVE."""
_GROUP = """
local function group(stream)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if groups.err then return nil end
  for _, flat in ipairs(groups) do
    local found = {}
    for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
    if found['name'] == ARGV[1] then return found end
  end
end
local function undelivered(stream, found)
  if found['last-delivered-id'] == '18446744073709551615-18446744073709551615' then return 0 end
  local after = '(' .. found['last-delivered-id']
  if #redis.call('XRANGE', stream, after, '+', 'COUNT', 1) == 0 then return 0 end
  if found['lag'] and found['lag'] > 0 then return found['lag'] end
  return #redis.call('XRANGE', stream, after, '+', 'COUNT', 1000)
end
local function pending(stream, found)
  if found['pending'] == 0 then return 0 end
  local held = 0
  for _, entry in ipairs(redis.call('XPENDING', stream, ARGV[1], '-', '+', 1000)) do
    if #redis.call('XRANGE', stream, entry[1], entry[1]) > 0 then held = held + 1 end
  end
  return held
end
"""
# An entry that was deleted while it was pending stays on the group's list and is no work for
# anybody, so pending ones are looked for in the stream too.

OBSERVE = (
    _GROUP
    + """
if redis.call('HGET', KEYS[5], ARGV[2]) ~= ARGV[3] then
  redis.call('HSET', KEYS[5], ARGV[2], ARGV[3])
end
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[6], 'reason')
elseif ARGV[4] ~= '-' then
  redis.call('HSET', KEYS[6], 'reason', ARGV[4])
end
local function joined(stream)
  local found = group(stream)
  if found then return found end
  redis.call('XGROUP', 'CREATE', stream, ARGV[1], '0', 'MKSTREAM')
  return group(stream)
end
local function newest(stream)
  local flat = redis.call('XINFO', 'STREAM', stream)
  for i = 1, #flat, 2 do
    if flat[i] == 'last-generated-id' then return flat[i + 1] end
  end
end
local state = {}
for i = 6, #ARGV do
  local value = redis.call('HGET', KEYS[3], ARGV[i])
  if value and #value <= tonumber(ARGV[5]) then
    state[#state + 1] = ARGV[i]
    state[#state + 1] = value
  end
end
local found = joined(KEYS[1])
joined(KEYS[2])
return {newest(KEYS[1]), undelivered(KEYS[1], found), pending(KEYS[1], found), newest(KEYS[2]),
  redis.call('XLEN', KEYS[4]), state}
"""
)
"""Observe one session; make its streams and its place in the registry first, where missing.

KEYS: input, output, state, dead letters of the input, the registry, hold. ARGV: group, uid, record,
why the worker shall take no new message (an empty text: it may; `-`: that is for another session
to say), how long a field of the state may be, the fields of the state that are known. Others may
be of any number and size.
"""

_COUNT = (
    _GROUP
    + """
local limit = redis.call('TIME')[1] * 1000 + tonumber(ARGV[2])
local function count(stream)
  local found = group(stream)
  if not found or tonumber(string.match(found['last-delivered-id'], '^%d+')) > limit then
    return -1
  end
  return undelivered(stream, found) + pending(stream, found)
end
local counts = {}
for i, stream in ipairs(KEYS) do
  local ok, found = pcall(count, stream)
  counts[i] = ok and found or -1
end
return counts
"""
)
"""How many messages wait in each stream; -1 for one that has to be observed: its group is missing,
its ids are out of range, or it is no stream. KEYS: inputs. ARGV: group, milliseconds that an id may
be ahead of the clock.
"""

_WIPE = """
redis.call('HDEL', KEYS[1], ARGV[1])
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
return #KEYS - 1
"""
"""Take a session out of the registry and delete its keys. KEYS: registry, keys. ARGV: uid."""


class Record(NamedTuple):
    """What the registry says about a session."""

    uid: str
    namespace: str
    name: str
    worker_id: str
    retain: bool
    prefix: str = ""

    @property
    def keys(self) -> Keys:
        """The keys of the session."""
        return Keys(self.prefix)

    def text(self) -> str:
        """As it is stored."""
        return json.dumps(self._asdict(), sort_keys=True)

    @staticmethod
    def read(text: bytes | str) -> "Record | None":
        """From what is stored; None when it is no record."""
        try:
            found = _RECORD.validate_json(text)
            return found if found.keys.namespace in ("", found.namespace) else None
        except ValueError:
            return None


_RECORD = TypeAdapter(Record)


class SessionQueues:
    """The sessions' streams, states and registry.

    Args:
        redis: A client that reads replies as text.
        registry: Key of this installation's registry.
    """

    def __init__(self, redis: Redis, registry: str) -> None:
        self._redis = redis
        self._registry = registry
        self._observe = redis.register_script(OBSERVE)
        self._count = redis.register_script(_COUNT)
        self._repair = StreamRepair(redis)
        self._wipe = redis.register_script(_WIPE)

    async def observe(self, record: Record, *, hold: str | None = "") -> QueueState:
        """Everything about one session's streams; they exist afterwards.

        Args:
            record: The session.
            hold: Why its worker is to take no new message; empty when it may, None when that is
                not this session's to say.

        Raises:
            RedisError: Redis did not answer, or one of the keys is no stream.
        """
        own, worker = record.keys, record.worker_id
        stream, output = own.po_input(worker), own.po_output(worker)
        keys = [stream, output, own.po_state(worker), dead_letter(stream)]
        args: list[Any] = [PO_GROUP, record.uid, record.text()]
        args += [_ANOTHERS if hold is None else hold, _STATE_BYTES, *_STATE]

        async def run() -> list[Any]:
            return cast(
                "list[Any]",
                await self._observe(keys=[*keys, self._registry, own.po_hold(worker)], args=args),
            )

        found = await run()
        newest = {stream: found[0], output: found[3]}
        odd = [name for name, entry in newest.items() if is_ahead(entry, time.time())]
        if any([await self._repair.repair(name) for name in odd]):
            found = await run()
        return queue_state(found)

    async def allow(self, keys: Keys, worker_id: str, turns: int | None) -> None:
        """Say how many turns a worker may begin; None for any number."""
        state = keys.po_state(worker_id)
        if turns is None:
            await self._redis.hdel(state, ALLOWED)
        else:
            await self._redis.hset(state, ALLOWED, str(turns))

    async def waiting(self, streams: Sequence[str]) -> dict[str, int]:
        """How many messages wait in each stream or are held by its worker; -1: observe it."""
        found: dict[str, int] = {}
        for start in range(0, len(streams), _AT_ONCE):
            some = streams[start : start + _AT_ONCE]
            counts = await self._count(keys=some, args=[PO_GROUP, AHEAD_SECONDS * 1000])
            found.update(zip(some, counts, strict=True))
        return found

    async def records(self) -> list[Record]:
        """Every session whose keys this installation has made and not deleted."""
        stored = await self._redis.hgetall(self._registry)
        found = {uid: Record.read(text) for uid, text in stored.items()}
        if wrong := [excerpt(uid) for uid, record in found.items() if record is None]:
            log.warning("unreadable records of sessions", key=self._registry, fields=wrong[:5])
        return [record for record in found.values() if record is not None]

    async def wipe(self, record: Record, *others: Keys, shared: bool) -> None:
        """Forget a session and delete its keys, unless they are retained or also another's.

        Args:
            record: The session.
            others: Keys that it may have been under before.
            shared: Whether another session has the same worker id.
        """
        names: list[str] = []
        for keys in () if shared else dict.fromkeys((record.keys, *others)):
            worker = record.worker_id
            names += [keys.po_hold(worker)] if record.retain else keys.po_keys(worker)
        await self._wipe(keys=[self._registry, *names], args=[record.uid])


def registry_key(namespace: str, lease: str) -> str:
    """Key of the registry of one installation, which its Lease names."""
    return BARE.session_registry(namespace, lease)


def queue_state(reply: Sequence[Any]) -> QueueState:
    """Read the answer of the script that observes a session's streams."""
    last_message, undelivered, pending, last_answer, dead_letters, flat = reply
    return QueueState(
        undelivered=int(undelivered),
        pending=int(pending),
        last_message=last_message,
        message_at=entry_time(last_message),
        answered_at=entry_time(last_answer),
        dead_letters=int(dead_letters),
        state=POState.of(dict(zip(flat[::2], flat[1::2], strict=True))),
    )


def entry_time(entry: str) -> datetime | None:
    """When a stream entry was added, by its id; None for the id before the first.

    Who adds an entry may choose its id, so the time may be one that is still to come, and None also
    when the number is no time at all.
    """
    milliseconds = entry.partition("-")[0]
    if not milliseconds.isdecimal() or len(milliseconds) > _LONGEST_TIME or not int(milliseconds):
        return None
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
