"""What the wrapper asks Redis to do in one step, so that it is done whole, and exactly once.

A script rather than MULTI/EXEC because both have to look first: a worker that was frozen may find
its entry with another worker, and one whose connection broke may have published already. The
wrapper's queue/claims.py runs them; `functions` makes functions of the same texts.

Changes of a state travel as field, value, field, value…: `+name` adds, `?name` sets what is not
set yet, an empty value removes the field. No change can fail halfway through a script: a sum that
is no number begins anew, and a key of the wrong kind is left as it is.
"""

from typing import Final

from orbiter_contracts.dead_letters import ADD_DEAD_LETTER
from orbiter_contracts.scripts import READ_ONLY, WITHOUT_MEMORY, Script

_STATE: Final = """
local function state(stream, group, consumer, id)
  local pending = redis.pcall('XPENDING', stream, group, id, id, 1)
  if pending.err then return 'lost' end
  local entry = redis.call('XRANGE', stream, id, id)[1]
  if entry then
    if pending[1] and pending[1][2] ~= consumer then return 'taken', entry end
    return 'held', entry
  end
  for _, known in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
    if known[2] == consumer then return 'gone' end
  end
  return 'lost'
end
"""
# 'lost' means that Redis lost its data: a group that never heard of us cannot have given us an
# entry, so nobody took it off the queue and nobody else will answer it.

RENEW: Final = Script(
    "renew_claim",
    _STATE
    + """
local where = state(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
if where == 'held' or (where == 'taken' and ARGV[4] == '1') then
  redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'FORCE', 'JUSTID')
  return 'held'
end
return where
""",
    WITHOUT_MEMORY,
)
"""Say where a claim stands and renew it when it is still ours.

KEYS: input stream. ARGV: group, consumer, entry id, '1' to take it back from whoever has it.
Returns held, taken (another consumer has it), gone (settled or withdrawn) or lost.
"""

# Redis does not undo what a script has done before an error. So the output comes first, and nothing
# after it may fail: the rest is tried (pcall), and a key of the wrong kind costs only itself.
PUBLISH: Final = (
    _STATE
    + ADD_DEAD_LETTER
    + """
local where, entry = state(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
if where == 'gone' or (where == 'taken' and ARGV[4] ~= '1') then return 0 end
if ARGV[5] ~= '' then redis.call('XADD', KEYS[2], '*', 'data', ARGV[5], unpack(routing)) end
if ARGV[6] ~= '' then redis.pcall('XADD', KEYS[3], '*', 'data', ARGV[6], unpack(routing)) end
if entry then
  if ARGV[7] ~= '' then add_dead_letter(KEYS[4], entry[2], ARGV[7]) end
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
  redis.call('XDEL', KEYS[1], ARGV[3])
end
"""
)
"""The body of SETTLE, for scripts that do more in the same step."""

SETTLE: Final = Script(
    "settle",
    f"""
local routing = {{}}
for i = 8, #ARGV do routing[#routing + 1] = ARGV[i] end
{PUBLISH}
return 1
""",
)
"""Publish what came of an entry and take it off the queue, unless that is no longer ours to do.

KEYS: input, output, lifecycle and dead-letter stream. ARGV: group, consumer, entry id, '1' to
settle it whoever has it, the output's JSON and the lifecycle event's ('' for none), the reason for
a dead letter ('' for none), then routing fields and values. Returns 1, or 0 when nothing was
done because the entry was settled or withdrawn already or belongs to another consumer by now.
"""


_APPLY: Final = """
local function apply(key, from)
  for i = from, #ARGV, 2 do
    local name, value, how = ARGV[i], ARGV[i + 1], string.sub(ARGV[i], 1, 1)
    if how == '+' then
      local field = string.sub(name, 2)
      local sum = redis.pcall('HINCRBYFLOAT', key, field, value)
      if type(sum) == 'table' then redis.pcall('HSET', key, field, value) end
    elseif how == '?' then redis.pcall('HSETNX', key, string.sub(name, 2), value)
    elseif value == '' then redis.pcall('HDEL', key, name)
    else redis.pcall('HSET', key, name, value) end
  end
end
"""

READ_RECORD: Final = Script(
    "read_session_record",
    """
local there, limit = redis.pcall('GET', KEYS[1]), tonumber(ARGV[1])
if not there then return {'none'} end
if type(there) == 'string' then
  if #there > limit then return {'other'} end
  return {'string', there}
end
local fields = redis.pcall('HMGET', KEYS[1], unpack(ARGV, 2))
if fields.err then return {'other'} end
for _, value in ipairs(fields) do if value and #value > limit then return {'other'} end end
table.insert(fields, 1, 'hash')
return fields
""",
    READ_ONLY,
)
"""Look at a session record, whatever it is.

KEYS: the record. ARGV: how many bytes of it are read at most, then its fields. Returns `none`;
`string` and the text; `hash` and the fields' values; or `other`: too large, or of another type.
"""

_REMEMBER: Final = """
local function remember(key, ttl, before, whole, own)
  local there = redis.pcall('GET', key)
  if not there then
    redis.call('SET', key, own, 'EX', ttl)
  elseif there == before and whole == own then
    redis.call('SET', key, own, 'EX', ttl)
  elseif there == before then
    redis.call('SET', key, whole, 'KEEPTTL')
    redis.call('EXPIRE', key, ttl, 'GT')
  elseif type(there) == 'table' and (redis.pcall('HGET', key, 'session_id') or '') == before then
    for name, value in pairs(cjson.decode(own)) do redis.call('HSET', key, name, value) end
    redis.call('EXPIRE', key, ttl, 'GT')
  end
end
"""
# A record with fields of a front end's own may hold what it needs for longer than we do: its
# lifetime is made longer and never shorter, and one without an end keeps none.

WRITE_RECORD: Final = Script(
    "write_session_record",
    _REMEMBER
    + """
remember(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
return 1
""",
)
"""Put a session record in the place of the one that was read, in its form, unless it has changed.

KEYS: the record. ARGV: its lifetime in seconds, the JSON that was read (of a hash its session_id,
'' for neither), the JSON with all fields, the JSON of ours alone.
"""

TELL: Final = Script(
    "tell",
    _APPLY
    + _REMEMBER
    + """
redis.call('XADD', KEYS[1], '*', 'data', ARGV[1])
if KEYS[3] then remember(KEYS[3], ARGV[2], ARGV[3], ARGV[4], ARGV[5]) end
apply(KEYS[2], 6)
return 1
""",
)
"""Publish a lifecycle event and what it means for the state.

KEYS: lifecycle stream, state[, session record]. ARGV: the event's JSON, then as WRITE_RECORD has
them, then changes. Run twice it does no harm, as long as nothing in it adds.
"""

PIECE: Final = Script(
    "publish_piece",
    """
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'data', ARGV[1])
redis.pcall('HSETNX', KEYS[2], 'first_output_at', ARGV[3])
return 1
""",
)
"""Publish a piece of an answer. Pieces are what makes an output stream long, so it is trimmed here.

KEYS: output stream, state. ARGV: the output's JSON, about how many outputs are kept, the time.
"""

OUTPUTS_KEPT: Final = 10_000

SETTLE_TURN: Final = Script(
    "settle_turn",
    _APPLY
    + "local routing = {}"
    + PUBLISH
    + """
apply(KEYS[5], 11)
if ARGV[8] ~= '' then
  redis.pcall('RPUSH', KEYS[6], ARGV[8])
  redis.pcall('LTRIM', KEYS[6], -tonumber(ARGV[9]), -1)
end
if KEYS[7] then redis.pcall('SET', KEYS[7], ARGV[10]) end
return 1
""",
)
"""`SETTLE` and, in the same step, the state, the turn and the agent's memory after it.

KEYS: input, output, lifecycle and dead-letter stream, state, turns[, snapshot]. ARGV: as SETTLE has
them up to 7, the turn's JSON ('' for none), how many turns are kept, the snapshot, then changes.
"""

KEEP_TURN: Final = Script(
    "keep_turn",
    _STATE
    + """
if state(KEYS[1], ARGV[1], ARGV[2], ARGV[3]) ~= 'held' then return 0 end
redis.call('HSET', KEYS[2], ARGV[4], ARGV[5])
if KEYS[3] then redis.call('SET', KEYS[3], ARGV[6]) end
return 1
""",
)
"""Keep a turn that is cut off, with the agent's memory in the middle of it; its entry stays.

KEYS: input stream, state[, snapshot]. ARGV: group, consumer, entry id, the state's field, what it
says of the turn[, the snapshot]. Returns 1, or 0 when the entry is not ours to go on with any more.
"""
