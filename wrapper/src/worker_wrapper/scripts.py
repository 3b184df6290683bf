"""What the wrapper asks Redis to do in one step: keep a claim, and settle an entry, exactly once.

A script rather than MULTI/EXEC because both have to look first: a worker that was frozen may find
its entry with another worker, and one whose connection broke may have published already. claims.py
runs them. The scripts for attempts of an AgentTask are part of the contracts.
"""

from typing import Final

from orbiter_contracts.dead_letters import BURY

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

RENEW: Final = (
    _STATE
    + """
local where = state(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
if where == 'held' or (where == 'taken' and ARGV[4] == '1') then
  redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'FORCE', 'JUSTID')
  return 'held'
end
return where
"""
)
"""Say where a claim stands and renew it when it is still ours.

KEYS: input stream. ARGV: group, consumer, entry id, '1' to take it back from whoever has it.
Returns held, taken (another consumer has it), gone (settled or withdrawn) or lost.
"""

# Redis does not undo what a script has done before an error. So the output comes first, and nothing
# after it may fail: the rest is tried (pcall), and a key of the wrong kind costs only itself.
PUBLISH: Final = (
    _STATE
    + BURY
    + """
local where, entry = state(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
if where == 'gone' or (where == 'taken' and ARGV[4] ~= '1') then return 0 end
if ARGV[5] ~= '' then redis.call('XADD', KEYS[2], '*', 'data', ARGV[5], unpack(routing)) end
if ARGV[6] ~= '' then redis.pcall('XADD', KEYS[3], '*', 'data', ARGV[6], unpack(routing)) end
if entry then
  if ARGV[7] ~= '' then bury(KEYS[4], entry[2], ARGV[7]) end
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
  redis.call('XDEL', KEYS[1], ARGV[3])
end
"""
)
"""The body of SETTLE, for scripts that do more in the same step."""

SETTLE: Final = f"""
local routing = {{}}
for i = 8, #ARGV do routing[#routing + 1] = ARGV[i] end
{PUBLISH}
return 1
"""
"""Publish what came of an entry and take it off the queue, unless that is no longer ours to do.

KEYS: input, output, lifecycle and dead-letter stream. ARGV: group, consumer, entry id, '1' to
settle it whoever has it, the output's JSON and the lifecycle event's ('' for none), the reason for
a dead letter ('' for none), then routing fields and values. Returns 1, or 0 when nothing was
done because the entry was settled or withdrawn already or belongs to another consumer by now.
"""
