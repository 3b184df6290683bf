"""Answer the messages of a session that nobody pays for: each once, with an error that says why.

Only while it has no worker. What of a message says who asked is all that is read of it: a stranger
may have written it, and it may be of any size.
"""

from datetime import datetime
from uuid import NAMESPACE_URL, uuid5

import structlog
from redis.asyncio import Redis

from orbiter_contracts import POWorkerOutput, unreadable
from orbiter_contracts.queues import DATA_FIELD, PO_GROUP, Keys

log = structlog.get_logger(__name__)
_AT_ONCE = 50
_HEAD_BYTES = 256 * 1024
"""How much of a message is read: as much as a worker reads of one that it cannot use."""
_ENOUGH_BYTES = 512 * 1024

HEADS = """
local found, total = {}, 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[1])) do
  local head = ''
  for i = 1, #entry[2], 2 do
    if entry[2][i] == ARGV[3] then head = string.sub(entry[2][i + 1], 1, tonumber(ARGV[2])) end
  end
  found[#found + 1] = {entry[1], head}
  total = total + #head
  if total > tonumber(ARGV[4]) then break end
end
return found
"""
"""The first messages of a stream, of each how it begins.

KEYS: the input. ARGV: how many at most, how many bytes of each, the field that has the message,
after how many bytes of all to stop.
"""

REFUSE = """
if redis.call('XDEL', KEYS[1], ARGV[2]) == 0 then return 0 end
redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XADD', KEYS[2], '*', ARGV[4], ARGV[3])
return 1
"""
"""Take a message off the queue, and answer it, if it is still there.

KEYS: input, output. ARGV: group, entry id, the output's JSON, its field. Returns whether it was.
"""


class Refusals:
    """Answers.

    Args:
        redis: A client that reads replies as text.
    """

    def __init__(self, redis: Redis) -> None:
        self._heads = redis.register_script(HEADS)
        self._refuse = redis.register_script(REFUSE)

    async def answer(
        self, keys: Keys, worker_id: str, user_id: int, reason: str, why: str, now: datetime
    ) -> bool:
        """Answer the first messages of a session; whether there were any.

        Args:
            keys: The keys of its namespace.
            worker_id: Its worker id.
            user_id: Whose a message is that does not say it.
            reason: Why it is not answered otherwise, as one CamelCase word.
            why: The same as a sentence.
            now: The time.

        Raises:
            RedisError: Redis did not answer.
        """
        source, output = keys.po_input(worker_id), keys.po_output(worker_id)
        bounds: list[str | int] = [_AT_ONCE, _HEAD_BYTES, DATA_FIELD, _ENOUGH_BYTES]
        found = await self._heads(keys=[source], args=bounds)
        answered = 0
        for entry, head in found:
            fields = {DATA_FIELD: head}
            asked = unreadable.user_id(fields)
            text = POWorkerOutput(
                request_id=unreadable.request_id(fields)
                or str(uuid5(NAMESPACE_URL, f"orbiter:{worker_id}:{entry}")),
                user_id=user_id if asked is None else asked,
                text="",
                status="error",
                reason=reason,
                error=why,
                started_at=now,
                finished_at=now,
                duration_ms=0,
                timestamp=now,
            ).model_dump_json()
            args = [PO_GROUP, entry, text, DATA_FIELD]
            answered += await self._refuse(keys=[source, output], args=args)
        if answered:
            log.info("messages refused", worker=worker_id, count=answered, reason=reason)
        return answered > 0
