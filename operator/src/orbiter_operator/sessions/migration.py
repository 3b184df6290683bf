"""Move a session to the keys of its namespace, which has not always had any of its own.

A session that is awake stays under the names its worker was started with; where its next worker is
to be another one, it is put to sleep between two turns (`plan`). Once it sleeps, all that it has
goes to its own keys in one step, before anything else is asked of it; its status names the new
streams, and the next worker is started with them. Nothing of this has to be remembered: a crash in
between does the step once more, and it finds nothing to do.
"""

from collections.abc import Sequence
from typing import Any

import structlog
from redis.asyncio import Redis

from orbiter_contracts.dead_letters import ADD_DEAD_LETTER
from orbiter_contracts.queues import BARE, Keys, dead_letter
from orbiter_contracts.stream_names import read_stream_name
from orbiter_operator.pods.state import PodState
from orbiter_operator.sessions.models import DeploymentState

log = structlog.get_logger(__name__)
Object = dict[str, Any]
_AT_ONCE = 100

MOVE = (
    ADD_DEAD_LETTER
    + f"local dead = '{dead_letter('')}'"
    + """
local function used(stream)
  local flat = redis.pcall('XINFO', 'STREAM', stream)
  if flat.err then return true end
  for i = 1, #flat, 2 do
    if flat[i] == 'last-generated-id' then return flat[i + 1] ~= '0-0' end
  end
end
local function append(old, new)
  local entries = redis.pcall('XRANGE', old, '-', '+', 'COUNT', ARGV[1])
  if entries.err or type(redis.pcall('XLEN', new)) ~= 'number' then
    redis.call('EXPIRE', old, 0)
    return 0
  end
  for _, entry in ipairs(entries) do
    if #entry[2] > 4000 then add_dead_letter(new .. dead, entry[2], 'it has too many fields')
    else redis.call('XADD', new, '*', unpack(entry[2])) end
    redis.call('XDEL', old, entry[1])
  end
  if redis.call('XLEN', old) == 0 then redis.call('EXPIRE', old, 0) end
  return #entries
end
local moved = 0
for i = 1, #KEYS, 2 do
  local old, new = KEYS[i], KEYS[i + 1]
  if redis.call('EXISTS', old) == 1 then
    if redis.call('EXISTS', new) == 0 or not used(new) then
      redis.pcall('RENAME', old, new)
    else
      moved = moved + append(old, new)
    end
  end
end
return moved
"""
)
"""Move keys to their new names: all in one step, and nothing when they were moved before.

What is said under an old name afterwards, by who has not been told of the new one, comes behind
what is there; only streams can have that. KEYS: old and new names in turn. ARGV: how many entries
of a stream at most. Returns how many there were.
"""

MOVE_RECORD = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local kind, named = redis.pcall('TYPE', KEYS[1]).ok, nil
if kind == 'hash' then
  named = redis.pcall('HGET', KEYS[1], 'session_id')
elseif kind == 'string' then
  local text = redis.pcall('GETRANGE', KEYS[1], 0, 65535)
  if type(text) == 'string' then
    local good, fields = pcall(cjson.decode, text)
    if good and type(fields) == 'table' then named = fields['session_id'] end
  end
end
if type(named) ~= 'string' or named == '' then return 0 end
for i = 3, 4 do
  if redis.pcall('HGET', KEYS[i], 'session_id') == named then
    redis.call('RENAME', KEYS[1], KEYS[2])
    return 1
  end
end
return 0
"""
"""Move a user's record that no namespace is in the name of, if it names this very session.

In the first version users were counted over all namespaces; today such a record is of the one
namespace whose keys have no prefix. KEYS: the record, its new name, and the old and the new name of
what the session's worker has said of itself.
"""

_LEFT = """
local found = {}
for i, stream in ipairs(KEYS) do
  local length = redis.pcall('XLEN', stream)
  if type(length) == 'number' and length > 0 then found[#found + 1] = i end
end
return found
"""
"""Which streams have entries, by their places from 1. KEYS: streams."""


def keys_in_use(
    own: Keys, obj: Object, deployment: DeploymentState | None, pods: Sequence[PodState]
) -> Keys:
    """The keys under which a session's conversation is, or is to be moved to.

    A session that is awake stays where its worker is, until it sleeps.

    Args:
        own: The keys of its namespace.
        obj: The session.
        deployment: Its Deployment.
        pods: Its pods.
    """
    if own == BARE or (not (deployment and deployment.replicas) and all(pod.over for pod in pods)):
        return own
    if deployment is not None:
        return own if deployment.prefix == own.prefix else BARE
    return BARE if stream_keys(obj) == BARE else own


def stream_keys(obj: Object) -> Keys | None:
    """The keys that a session's status says it is under; None when it does not say."""
    stream = (obj.get("status") or {}).get("inputStream")
    name = read_stream_name(stream) if isinstance(stream, str) else None
    return name.keys if name else None


def keys_to_wipe(obj: Object, own: Keys) -> tuple[Keys, ...]:
    """All keys a session may have something under, its own first.

    Where its status names its own stream, it has nothing else; else it may be on its way.
    """
    return (own,) if own in (BARE, stream_keys(obj)) else (own, BARE)


class Migration:
    """Moves keys.

    Args:
        redis: A client that reads replies as text.
    """

    def __init__(self, redis: Redis) -> None:
        self._move = redis.register_script(MOVE)
        self._move_record = redis.register_script(MOVE_RECORD)
        self._left = redis.register_script(_LEFT)

    async def move(self, worker_id: str, user_id: object, keys: Keys) -> None:
        """Move what a session has under the names without a prefix to the keys of its namespace.

        Args:
            worker_id: The session's worker id.
            user_id: Whose record goes with it.
            keys: The keys.
        """
        names = list(zip(BARE.po_keys(worker_id), keys.po_keys(worker_id), strict=True))
        old_record = f"{BARE.session_records(keys.namespace)}{user_id}"
        names.append((old_record, keys.session_record(str(user_id))))
        flat = [name for pair in names for name in pair]
        states = [places.po_state(worker_id) for places in (BARE, keys)]
        released, own = (places.session_record(str(user_id)) for places in (BARE, keys))
        while await self._move(keys=flat, args=[_AT_ONCE]) >= _AT_ONCE:
            log.info("more to move", worker=worker_id)
        await self._move_record(keys=[released, own, *states])

    async def left_behind(self, worker_ids: Sequence[str]) -> list[str]:
        """The workers for whom there are messages under the names without a prefix."""
        found: list[str] = []
        for start in range(0, len(worker_ids), _AT_ONCE):
            some = worker_ids[start : start + _AT_ONCE]
            places = await self._left(keys=[BARE.po_input(name) for name in some])
            found += [some[int(place) - 1] for place in places]
        return found
