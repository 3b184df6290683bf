"""How a checkpoint is written: its parts and the attempt's record change in one step, or not."""

from typing import Final

from orbiter_contracts.checkpoints import (
    CHECKPOINT_FIELD,
    MAX_CHECKPOINT_JSON_BYTES,
    MAX_GENERATION,
    MAX_PARTS_BYTES,
)
from orbiter_contracts.scripts import READ_ONLY, Script

SESSION_PART: Final = "session"
WORKSPACE_PART: Final = "workspace"
RECORD_PART: Final = "checkpoint"
"""Parts of a checkpoint, each the field `GENERATION:PART` of one hash."""


def part(generation: int, name: str) -> str:
    """The field that holds a part of a checkpoint."""
    return f"{generation}:{name}"


SAVE_CHECKPOINT: Final = f"""
local held = redis.pcall('XPENDING', KEYS[3], ARGV[3], ARGV[2], ARGV[2], 1)
if #redis.call('XRANGE', KEYS[3], ARGV[2], ARGV[2]) == 0 then return 'gone' end
if redis.call('HEXISTS', KEYS[1], 'output') == 1 then return 'gone' end
if held.err or not held[1] or held[1][2] ~= ARGV[4] then return 'taken' end
local token = redis.pcall('HGET', KEYS[5], 'token')
if type(token) == 'string' and token ~= ARGV[5] then return 'taken' end
local text = redis.call('HGET', KEYS[1], '{CHECKPOINT_FIELD}')
if not text or #text > {MAX_CHECKPOINT_JSON_BYTES} then text = 'null' end
local readable, known = pcall(cjson.decode, text)
if readable and type(known) == 'table' and type(known.generation) == 'number'
  and known.generation >= tonumber(ARGV[6]) and known.generation < {MAX_GENERATION}
  then return 'stale' end
if redis.call('TYPE', KEYS[2]).ok ~= 'hash' then redis.call('EXPIRE', KEYS[2], 0) end
redis.call('HSET', KEYS[2], ARGV[6] .. ':{RECORD_PART}', ARGV[8],
  ARGV[6] .. ':{SESSION_PART}', ARGV[12], ARGV[6] .. ':{WORKSPACE_PART}', ARGV[13])
redis.call('HSET', KEYS[1], '{CHECKPOINT_FIELD}', ARGV[8])
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
  local generation = string.match(field, '^%d+')
  if generation ~= ARGV[6] and generation ~= ARGV[7] then redis.pcall('HDEL', KEYS[2], field) end
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[1])
redis.pcall('XADD', KEYS[4], '*', 'data', ARGV[9], 'agenttask', ARGV[10], 'attempt', ARGV[11])
return 'saved'
"""
"""Keep a checkpoint of an attempt, with the one before it, unless the attempt is not ours.

KEYS: the attempt's record, the parts (`queues.checkpoint_of`), input stream, lifecycle stream, the
writer's lease. ARGV: the record's lifetime in seconds, entry id, group, consumer, token of the
lease, generation, the generation to keep beside it, the checkpoint's JSON, the lifecycle event's
JSON, `<namespace>/<name>`, attempt, the session, the workspace ('' for a part that is not there).
Returns `saved`; `gone` when the attempt was answered or withdrawn; `taken` when another process has
its entry or its name; `stale` when there is a checkpoint of that generation or a later one.

One of the last generation is none in the way: the count begins anew behind it.
A lease that has lapsed is nobody's, so the consumer alone decides then.
"""

SAVE: Final = Script("save_checkpoint", SAVE_CHECKPOINT)
"""SAVE_CHECKPOINT as what a worker runs, which may have to call a function instead."""

READ_CHECKPOINT: Final = """
local value = redis.pcall('HGET', KEYS[1], ARGV[1])
if type(value) == 'table' then return {-1, ''} end
if not value then return {0, ''} end
if #value > tonumber(ARGV[2]) then return {#value, ''} end
return {#value, value}
"""
"""Read a field of a record, or a part, of no more than so many bytes.

KEYS: the hash. ARGV: the field, the most bytes. Returns the size and the value: size 0 when there
is none, -1 when the key is of another kind; nothing of a value that is too large.
"""

READ: Final = Script("read_checkpoint", READ_CHECKPOINT, READ_ONLY)
"""READ_CHECKPOINT as what a worker runs, which may have to call a function instead."""

COPY_CHECKPOINT: Final = f"""
if redis.call('HEXISTS', KEYS[2], '{CHECKPOINT_FIELD}') == 1 then return 'there' end
local parts, size = {{}}, 0
for at = 3, 4 do
  local value = redis.pcall('HGET', KEYS[1], ARGV[at])
  if type(value) == 'table' then return 'is damaged' end
  if not value then return 'is gone' end
  size = size + #value
  if size > {MAX_PARTS_BYTES} then return 'is larger than {MAX_PARTS_BYTES} bytes' end
  parts[at] = value
end
redis.call('HSET', KEYS[3], ARGV[3], parts[3], ARGV[4], parts[4])
redis.call('HSET', KEYS[2], '{CHECKPOINT_FIELD}', ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[1])
redis.call('EXPIRE', KEYS[3], ARGV[1])
return 'there'
"""
"""Copy a checkpoint to an attempt that has none: its own two parts, within the bounds of one.

KEYS: the parts of the one, the record and the parts of the other. ARGV: the lifetime in seconds,
the checkpoint's JSON, the fields of its parts. Returns `there`, or what is the matter with it.
"""
