"""How many bytes each namespace has in Redis, and what who has too many may not do any more.

Redis refuses the writes of all once its memory is full, so no namespace may fill it. Beyond the
quota, front ends and producers lose the rights to add: they hand in work, and what is refused they
still have. Beyond twice the quota workers lose them, too: a worker that cannot publish waits and
publishes later, so that nothing that was paid for is lost. All may go on to read, acknowledge and
delete, and get their rights back below nine tenths of what they have gone beyond.

All keys are counted, in steps, because a namespace's users may make keys of names of their own.
Each is counted whole (SAMPLES 0): where the first pieces of a key stand for all, an attacker makes
those small. But for a hash with very many fields, which would keep Redis for a second: none of ours
has more than some dozen, so that counts as more than any quota.

Measured on two busy cores with Redis 7.0: 100 namespaces of 10 keys take 4 to 6 ms, half of it in
Redis; a million keys of 100 bytes take 4 to 13 s, in steps of a millisecond between which Redis
serves others. The pause after a pass is four times as long at least, and who goes beyond its quota
is found in the middle of one. Once a second Redis is asked for its memory alone: as long as that
has not grown by a part of a quota, nobody can have added so much, and a pass can wait a little. At
rest, with what 2,000 ended tasks leave, the operator took 1.1 % of a CPU for a pass each second.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping

import structlog
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from orbiter_contracts.redis_users import (
    COUNTS_BYTES,
    Rules,
    is_client,
    namespace_of,
    without_adding,
)
from orbiter_contracts.stream_names import owner_of_key
from orbiter_operator.settings import Settings
from orbiter_operator.streams.users import RedisUsers

log = structlog.get_logger(__name__)
HARD_LIMIT = 2
"""How many quotas the hard limit is, beyond which workers may not add either; one is the soft."""
_CHECK_SECONDS = 1.0
_LONGEST_SECONDS = 3.0
"""Between two passes, also when Redis holds no more than before: one may go and another come."""
_GROWTH = 16
"""By which part of a quota Redis may have grown without a pass before that."""
_PAUSE_FACTOR = 4
"""How many times as long as a pass the pause after it is: counting takes a fifth at most."""
_HYSTERESIS = 0.9
"""Below which part of what it has gone beyond a namespace has its rights back."""
_AT_ONCE = 200
MAX_FIELDS = 1000
_LONGEST_NAME = 256
_MAY_NOT = (
    "namespaces have no quota: Redis does not let the operator count their keys; give the "
    f"operator's user {' '.join(COUNTS_BYTES)}, or set ORBITER_REDIS_QUOTA_BYTES=0"
)
_REFUSED = "can't run this command"
"""In what Redis says to a script of who may not do something, whatever the keys."""
COUNT_PAGE = f"""
local page = redis.call('SCAN', ARGV[1], 'COUNT', {_AT_ONCE})
local held, names, answer = {{}}, {{}}, {{page[1]}}
for _, key in ipairs(page[2]) do
  local bytes = redis.pcall('TYPE', key)
  if bytes.ok == 'hash' and redis.call('HLEN', key) > {MAX_FIELDS} then bytes = tonumber(ARGV[2])
  elseif bytes.ok then bytes = redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', 0) end
  if type(bytes) == 'number' then
    local name = string.match(key, '^{{[^{{}}]*}}:') or key
    name = string.sub(name, 1, {_LONGEST_NAME})
    if not held[name] then names[#names + 1] = name end
    held[name] = (held[name] or 0) + bytes
  elseif type(bytes) == 'table' and string.find(bytes.err, "{_REFUSED}", 1, true) then
    return bytes
  end
end
for _, name in ipairs(names) do
  answer[#answer + 1] = name
  answer[#answer + 1] = held[name]
end
return answer
"""
"""ARGV: a cursor, the bytes of a hash with very many fields. Returns the next cursor, then in turn
how keys begin (of one without a prefix, the key) and how many bytes they have. A key that the
operator may not touch is none of ours.
"""

USED_MEMORY = r"""
return tonumber(string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)'))
"""
"""Returns how many bytes Redis has allocated for whatever."""

Listener = Callable[[str], None]
Measured = Callable[[Mapping[str, int], Mapping[str, int]], None]


def level(before: int, held: int, limit: int) -> int:
    """How many quotas a namespace counts as having gone beyond: 0, 1 or `HARD_LIMIT`.

    Args:
        before: What it counted as last.
        held: Its bytes.
        limit: The quota.
    """
    for step in range(HARD_LIMIT, 0, -1):
        if held > limit * step * (_HYSTERESIS if before >= step else 1):
            return step
    return 0


class Quotas:
    """The namespaces' bytes in one Redis, and the rights of who has too many.

    Args:
        redis: A client for short commands, whose user may SCAN and MEMORY USAGE.
        users: The managed users, who have their rights from here.
        settings: How many bytes a namespace may have, and whose the keys without a prefix are.
        measured: Called with the bytes and the levels of all namespaces.
    """

    def __init__(
        self,
        redis: Redis,
        users: RedisUsers,
        settings: Settings,
        measured: Measured = lambda held, levels: None,
    ) -> None:
        self._page = redis.register_script(COUNT_PAGE)
        self._used_memory = redis.register_script(USED_MEMORY)
        self._users = users
        self._limit = settings.redis_quota_bytes
        self._shared = settings.adopt_namespace if settings.key_prefixes else ""
        self._measured = measured
        self._listeners: list[Listener] = []
        self._levels: dict[str, int] = {}
        self._counted_first = self._logged = ""
        self._used_before, self._count_again_at = 0, -math.inf
        if self._limit:
            users.effective_rules = self.effective_rules
            users.before_users = self.count_first

    def subscribe(self, listener: Listener) -> None:
        """Call this with each namespace that has lost or gets back rights."""
        self._listeners.append(listener)

    def effective_rules(self, user: str, rules: Rules) -> Rules:
        """What of a user's rights its namespace has left it."""
        beyond = self._levels.get(namespace_of(user), 0)
        return without_adding(rules) if beyond >= (1 if is_client(user) else HARD_LIMIT) else rules

    def why(self, namespace: str, least: int = 1) -> str | None:
        """Why a namespace may not add; None when it may, or has gone beyond fewer quotas."""
        beyond = self._levels.get(namespace, 0)
        if beyond < least:
            return None
        held, who = f"more than {self._limit} bytes", "front ends and producers"
        if beyond >= HARD_LIMIT:
            held, who = f"more than twice {self._limit} bytes", "workers and all others"
        return (
            f"namespace {namespace} holds {held} in Redis, its quota: {who} may add nothing there "
            "until it is less; let the work be done, or delete sessions and entries"
        )

    async def run(self) -> None:
        """Count again and again, for ever."""
        while self._limit and self._users.managed:
            began = time.monotonic()
            try:
                if await self._may_have_changed(began):
                    await self.check()
                self._logged = ""
            except (RedisError, OSError) as error:
                self._log_once(f"{type(error).__name__}: {error}")
            await asyncio.sleep(max(_CHECK_SECONDS, (time.monotonic() - began) * _PAUSE_FACTOR))

    async def _may_have_changed(self, now: float) -> bool:
        """Whether a pass is due: somebody is beyond its quota, or may be since the one before."""
        used = int(await self._used_memory())
        grown = used - self._used_before > self._limit // _GROWTH
        if not (self._levels or grown or now >= self._count_again_at):
            return False
        self._used_before, self._count_again_at = used, now + _LONGEST_SECONDS
        return True

    async def count_first(self, run_id: str) -> None:
        """Count once, before anybody is let into a Redis that is not known yet.

        Raises:
            RedisError: It did not answer.
        """
        if run_id != self._counted_first:
            try:
                async for held, whole in self._counted():
                    self._judge(held, whole=whole)
            except ResponseError as error:  # users are let in all the same
                self._log_once(str(error))
            self._counted_first = run_id

    async def check(self) -> None:
        """Count once; take rights, and give them back.

        Raises:
            RedisError: Redis did not answer, or does not let the operator do that.
        """
        async for held, whole in self._counted():
            if self._judge(held, whole=whole):
                await self._users.restore(anew=True)

    async def _counted(self) -> AsyncIterator[tuple[Mapping[str, int], bool]]:
        """The bytes of namespaces as far as they are counted, and whether that is all.

        A key that Redis moves meanwhile may be counted twice, for one pass.
        """
        held, cursor = Counter[str](), "0"
        while True:
            try:
                cursor, *found = await self._page(args=[cursor, self._limit * HARD_LIMIT + 1])
            except ResponseError as error:
                if _REFUSED in str(error) or isinstance(error, NoPermissionError):
                    raise NoPermissionError(_MAY_NOT) from error
                raise
            for name, size in zip(found[::2], found[1::2], strict=True):
                owner = owner_of_key(name)
                if owner is not None and (owner := owner or self._shared):
                    held[owner] += int(size)
            whole = cursor == "0"
            yield held, whole
            if whole:
                return

    def _judge(self, held: Mapping[str, int], *, whole: bool) -> bool:
        """Set the levels anew; returns whether any has changed. A part of the count only raises."""
        changed = False
        for namespace in {*held, *self._levels} if whole else held:
            before, size = self._levels.get(namespace, 0), held.get(namespace, 0)
            now = level(before, size, self._limit)
            if now == before or (now < before and not whole):
                continue
            changed, self._levels[namespace] = True, now
            self._log_change(namespace, size, now, before)
            for listener in self._listeners:
                listener(namespace)
        if whole:
            self._levels = {name: beyond for name, beyond in self._levels.items() if beyond}
            self._measured(held, self._levels)
        return changed

    def _log_change(self, namespace: str, held: int, now: int, before: int) -> None:
        figures = {"namespace": namespace, "bytes": held, "quota": self._limit}
        if now < before:
            log.info("rights to add given back", **figures, beyond=now)
        else:
            log.warning("quota exceeded; rights to add taken", **figures, beyond=now)

    def _log_once(self, text: str) -> None:
        if text != self._logged:
            log.warning("bytes in Redis not counted", error=text)
        self._logged = text
