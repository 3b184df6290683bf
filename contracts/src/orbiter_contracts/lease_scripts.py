"""How the lease of a worker's name is taken and given back, each in one step."""

from typing import Final

from orbiter_contracts.scripts import WITHOUT_MEMORY, Script

TAKE: Final = Script(
    "take_lease",
    """
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then redis.call('EXPIRE', KEYS[1], 0) end
local token = redis.call('HGET', KEYS[1], 'token')
if token and token ~= ARGV[1] and token ~= ARGV[2] then
  local seconds = redis.call('TTL', KEYS[1])
  if seconds < 0 or seconds > tonumber(ARGV[6]) then redis.call('EXPIRE', KEYS[1], ARGV[6]) end
  local held = {token}
  for i, name in ipairs({'beat', 'place', 'host'}) do
    held[i + 1] = redis.call('HGET', KEYS[1], name) or ''
  end
  return held
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'beat', ARGV[3], 'place', ARGV[4], 'host', ARGV[5])
redis.call('EXPIRE', KEYS[1], ARGV[6])
return {}
""",
)
"""Take a lease, or renew it. KEYS: the lease. ARGV: our token, a holder that is known to be dead
('' for none), how often we renewed it, our place, our host, seconds. Returns who else holds it.

Whatever else is in the place of a lease goes. One that was to live longer than a lease does, or for
ever, lapses like any other once somebody asks, unless its holder renews it.
"""

RELEASE: Final = Script(
    "release_lease",
    """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
return redis.call('EXPIRE', KEYS[1], 0)
""",
    WITHOUT_MEMORY,
)
"""Give a lease back unless somebody else has it by now. KEYS: the lease. ARGV: our token."""
