"""How a transcript is written: several events in one entry, and what is too much goes in front.

An entry has the fields `data` (`transcript_reading.read_entry`), `next` (the sequence behind its
last event) and `end` (how many bytes of `data` there were until here, its own with them): so what a
transcript holds is the difference of two figures, however long it is.
"""

from typing import Final

from orbiter_contracts.bounds import MAX_COUNT
from orbiter_contracts.queues import DATA_FIELD
from orbiter_contracts.scripts import Script
from orbiter_contracts.transcript import TRANSCRIPT_BYTES

NEXT_FIELD: Final = "next"
END_FIELD: Final = "end"
MOST_DROPPED: Final = 1000
"""Entries that one append looks at and drops. Whoever may append may add a million without figures,
and Redis serves nobody while a script goes through them."""

APPEND_TRANSCRIPT: Final = f"""
local function figure(text)
  local number = tonumber(text or '')
  return number and number >= 0 and number <= {MAX_COUNT} and number or 0
end
local function read(entry)
  local found = {{}}
  for i = 1, #entry[2] - 1, 2 do found[entry[2][i]] = entry[2][i + 1] end
  return figure(found['{NEXT_FIELD}']), figure(found['{END_FIELD}']), #(found['{DATA_FIELD}'] or '')
end
local first, total = tonumber(ARGV[2]), tonumber(ARGV[4])
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if last then
  local after, stop = read(last)
  if after > first then return {{'stale', string.format('%.0f', after)}} end
  total = math.max(total, stop)
end
total = total + #ARGV[1]
local kept, position, looked = false, '-', 0
repeat
  local oldest = redis.call('XRANGE', KEYS[1], position, '+', 'COUNT', 1)[1]
  if oldest then
    local _, stop, size = read(oldest)
    looked = looked + 1
    if stop > 0 and total - stop + size <= {TRANSCRIPT_BYTES} or looked > {MOST_DROPPED} then
      kept = oldest[1]
    end
    position = '(' .. oldest[1]
  end
until kept or not oldest
redis.call('XADD', KEYS[1], kept and 'MINID' or 'MAXLEN', '=', kept or 1, '*',
  '{DATA_FIELD}', ARGV[1], '{NEXT_FIELD}', string.format('%.0f', first + tonumber(ARGV[3])),
  '{END_FIELD}', string.format('%.0f', total))
if ARGV[5] ~= '' then redis.call('EXPIRE', KEYS[1], ARGV[5]) end
return {{'added', string.format('%.0f', total)}}
"""
"""Append an entry of some events, and drop from the front what is more than `TRANSCRIPT_BYTES`.

KEYS: the transcript. ARGV: the entry's JSON, the sequence of its first event, how many events it
has, how many bytes the writer knows to have been before, seconds until it expires ('' where the
operator sees to that: its caller may not). Returns `added` and how many bytes there were until now;
or `stale` and the sequence behind the last event, when that is beyond the first of these: another
process has written it, or this one, and its answer was lost.

No command in it deletes: what is too much goes with the XADD. An entry without figures, which no
worker of ours has written, is dropped like the oldest: `MOST_DROPPED` at once, the rest with the
next that is appended.
"""

APPEND: Final = Script("append_transcript", APPEND_TRANSCRIPT)
"""APPEND_TRANSCRIPT as what a worker runs, which may have to call a function instead."""
