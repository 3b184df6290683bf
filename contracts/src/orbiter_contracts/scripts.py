"""What a script is, and the two that make an attempt of an AgentTask one entry and one output.

Both sides of the race run the same text, but for one condition: the worker that finished and the
operator that declares it crashed or cancelled. Redis runs a script alone, so one of them wins and
the other is told.
"""

from typing import Final, NamedTuple

from orbiter_contracts.queues import CHECKPOINT_SUFFIX

LIBRARY: Final = "orbiter"
"""What the library of functions is called (`functions`)."""
READ_ONLY: Final = "no-writes"
WITHOUT_MEMORY: Final = "allow-oom"
"""It needs no memory, so a Redis that has none left does it too, as it would for EVAL."""


class Script(NamedTuple):
    """What Redis does in one step.

    Attributes:
        name: What it is called; as a function (`functions`), with a prefix. One that takes other
            arguments than before gets another name: workers of two versions live at a time.
        text: The Lua, with KEYS and ARGV.
        flag: Of the function; "" for none.
    """

    name: str
    text: str
    flag: str = ""

    @property
    def function(self) -> str:
        """The name of the function that does the same."""
        return f"{LIBRARY}_{self.name}"


ADMIT_ATTEMPT: Final = """
local entry = redis.call('HGET', KEYS[1], 'entry')
if entry then return entry end
local fields = {}
for i = 2, #ARGV do fields[#fields + 1] = ARGV[i] end
entry = redis.call('XADD', KEYS[2], '*', unpack(fields))
redis.call('HSET', KEYS[1], 'entry', entry)
redis.call('EXPIRE', KEYS[1], ARGV[1])
return entry
"""
"""Put an attempt's entry on the queue, once.

KEYS: the attempt's record, the input stream. ARGV: the record's lifetime in seconds, then the
entry's fields and values in turn. Returns the entry's id, the same at every call.
"""

PUBLISH_ATTEMPT: Final = f"""
local known = redis.call('EXISTS', KEYS[1]) == 1
local entry = redis.call('XRANGE', KEYS[2], ARGV[2], ARGV[2])
if known and (#entry == 0 or redis.call('HEXISTS', KEYS[1], 'output') == 1) then return false end
local output = redis.call('XADD', KEYS[3], '*', 'data', ARGV[4],
  'agenttask', ARGV[6], 'attempt', ARGV[7])
redis.pcall('XADD', KEYS[4], '*', 'data', ARGV[5], 'agenttask', ARGV[6], 'attempt', ARGV[7])
redis.call('HSET', KEYS[1], 'entry', ARGV[2], 'output', output)
if KEYS[5] then redis.pcall('SET', KEYS[5], ARGV[8], 'EX', ARGV[1]) end
redis.call('EXPIRE', KEYS[1], ARGV[1])
local readable, event = pcall(cjson.decode, ARGV[5])
local failed = readable and type(event) == 'table' and event.event == 'failed'
redis.pcall('EXPIRE', KEYS[1] .. '{CHECKPOINT_SUFFIX}', failed and ARGV[1] or 0)
if #entry == 1 then
  redis.call('XACK', KEYS[2], ARGV[3], ARGV[2])
  redis.call('XDEL', KEYS[2], ARGV[2])
end
return output
"""
"""Publish an attempt's one output and take its entry off the queue, unless somebody already did.

KEYS: the attempt's record, input stream, output stream, lifecycle stream[, snapshot]. ARGV: the
record's lifetime in seconds, entry id, consumer group, the output's JSON, the lifecycle event's
JSON, `<namespace>/<name>`, attempt[, the agent's session, for a task that has a question]. Returns
the output's id, or nil when the attempt was already published or withdrawn (superseded). A record
that is missing altogether means that Redis lost its data: the output is published all the same,
because the work was done. Behind the output nothing can fail: Redis would not take it back.

The attempt's checkpoints go with it. Of one that failed they stay as long as the record, for
`kubectl orbiter retry --resume`. Their key is made of the record's: the arguments are those that
workers of earlier versions give.
"""

PUBLISH_IN_PLACE: Final = PUBLISH_ATTEMPT.replace("(#entry == 0 or ", "(", 1)
"""PUBLISH_ATTEMPT of the operator, for a worker that is gone: what it withdraws it knows itself.

An entry that somebody else took off the queue (XDEL, XTRIM) leaves a task that waits for its end.
"""

PUBLISH: Final = Script("publish_attempt", PUBLISH_ATTEMPT)
"""PUBLISH_ATTEMPT as what a worker runs, which may have to call a function instead."""

ATTEMPT_TTL_SECONDS: Final = 7 * 24 * 60 * 60
"""How long an attempt's record outlives its last change."""
