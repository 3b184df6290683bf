"""What the workers of `fake_session_node` do: what the PO wrapper promises, and no agent.

What is pending comes first, one message at a time, answered in one step; the present turn ends
before they leave; held, they take no new message; they begin no turn that is not allowed; and they
keep a state. A message says how its turn goes: `sleep=SECONDS`, `crash` (the worker dies of it),
`rotate`, `cost=USD`, `unpriced` (nobody knows what it has cost).
"""

import asyncio
import contextlib
import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from orbiter_contracts import POWorkerInput, POWorkerOutput, WorkerLifecycleEvent, decode
from orbiter_contracts.queues import (
    BARE,
    PO_GROUP,
    Keys,
    dead_letter,
)

_SETTLE = """
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)
if pending.err or #pending == 0 or #redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2]) == 0 then
  return 0
end
redis.call('XADD', KEYS[2], '*', 'data', ARGV[3])
redis.call('XADD', KEYS[4], '*', 'data', ARGV[4])
if ARGV[6] ~= '' then redis.call('XADD', KEYS[5], '*', 'data', '{}', 'reason', ARGV[6]) end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[3], 'state', 'ready', 'request_id', '', 'last_activity', ARGV[5])
redis.call('HSETNX', KEYS[3], 'first_output_at', ARGV[5])
redis.call('HINCRBY', KEYS[3], 'turns', 1)
redis.call('HINCRBY', KEYS[3], 'input_tokens', 10)
redis.call('HSET', KEYS[3], 'settled', redis.call('HGET', KEYS[3], 'asked'))
if ARGV[7] == '' then redis.call('HINCRBY', KEYS[3], 'unpriced', 1)
elseif ARGV[7] ~= '0' then redis.call('HINCRBYFLOAT', KEYS[3], 'cost_usd', ARGV[7]) end
return 1
"""
POISONED_DELIVERIES = 3


class WorkerCrashError(Exception):
    """The worker's process dies."""


class FakeSessionWorkers:
    """All workers of one node, and what they did."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.answers: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()
        self.begun: Counter[str] = Counter()
        self.beside = 0
        self._working: Counter[str] = Counter()
        self._settle = redis.register_script(_SETTLE)

    async def work(self, worker: str, stop: asyncio.Event, keys: Keys = BARE) -> None:
        """Answer messages until told to stop."""
        self._working[worker] += 1
        self.beside = max(self.beside, self._working[worker])
        try:
            await self._converse(keys, worker, stop)
        finally:
            self._working[worker] -= 1

    async def _converse(self, keys: Keys, worker: str, stop: asyncio.Event) -> None:
        state, after = keys.po_state(worker), "0"
        await self._say(keys, worker, "started", {"state": "starting"})
        await self._patiently(lambda: self.redis.hdel(state, "ready_at", "first_output_at"))
        ready = {"state": "ready", "ready_at": datetime.now(UTC).isoformat()}
        await self._say(keys, worker, "ready", ready)
        while not stop.is_set():
            try:
                if not await self._may_begin(state):
                    await asyncio.sleep(0.02)
                    continue
                if after == ">" and await self.redis.exists(keys.po_hold(worker)):
                    await asyncio.sleep(0.02)
                    continue
                found = await self.redis.xreadgroup(
                    PO_GROUP, worker, {keys.po_input(worker): after}, count=1, block=30
                )
            except ResponseError:
                with contextlib.suppress(ResponseError, RedisError):
                    await self.redis.xgroup_create(
                        keys.po_input(worker), PO_GROUP, "0", mkstream=True
                    )
                continue
            except (RedisError, OSError):
                await asyncio.sleep(0.05)
                after = "0"
                continue
            entries = found[0][1] if found else []
            if entries:
                await self._turn(keys, worker, *entries[0])
            elif after == "0":
                after = ">"
        await self._say(keys, worker, "stopped", {"state": "stopped"})

    async def _may_begin(self, state: str) -> bool:
        """Whether another turn may begin; one that died is over first, at a cost nobody knows."""
        fields = await self.redis.hmget(state, ["asked", "settled", "turns_allowed"])
        asked, settled = (int(text or 0) for text in fields[:2])
        if asked > settled:
            async with self.redis.pipeline(transaction=True) as pipe:
                pipe.hset(state, "settled", str(asked))
                pipe.hincrby(state, "unpriced", 1)
                await pipe.execute()
        return fields[2] is None or asked < int(fields[2])

    async def _turn(self, keys: Keys, worker: str, entry: str, fields: dict[str, str]) -> None:
        message = decode(POWorkerInput, fields)
        words = message.prompt.split()
        self.runs[message.request_id] += 1
        begun = int(await self.redis.hget(keys.po_state(worker), "asked") or 0) + 1
        self.begun[worker] += 1
        said = {"state": "busy", "request_id": message.request_id, "asked": str(begun)}
        await self._say(keys, worker, "busy", said)
        for word in words:
            if word.startswith("sleep="):
                await asyncio.sleep(float(word[6:]))
        dead = ""
        if "crash" in words:
            pending = await self.redis.xpending_range(
                keys.po_input(worker), PO_GROUP, entry, entry, count=1
            )
            if pending[0]["times_delivered"] < POISONED_DELIVERIES:
                raise WorkerCrashError(message.request_id)
            dead = "delivered 3 times"
        if "rotate" in words:
            news = {
                "reason": "Command",
                "from": "one",
                "to": "two",
                "at": datetime.now(UTC).isoformat(),
            }
            fields = {"session_id": "two", "rotations": "1", "rotation": json.dumps(news)}
            await self.redis.hset(keys.po_state(worker), mapping=fields)
        output = POWorkerOutput(
            request_id=message.request_id,
            user_id=message.user_id,
            text=f"re: {message.prompt}",
            status="error" if dead else "success",
        )
        stream, now = keys.po_input(worker), datetime.now(UTC).isoformat()
        lifecycle = WorkerLifecycleEvent(worker_id=worker, event="completed")
        names = [stream, keys.po_output(worker), keys.po_state(worker)]
        names += [keys.lifecycle, dead_letter(stream)]
        cost = next((word[5:] for word in words if word.startswith("cost=")), "0")
        texts = [output.model_dump_json(), lifecycle.model_dump_json(), now, dead]
        texts.append("" if "unpriced" in words else cost)
        settled = await self._patiently(
            lambda: self._settle(keys=names, args=[PO_GROUP, entry, *texts])
        )
        if settled:
            self.answers[message.request_id] += 1

    async def _say(self, keys: Keys, worker: str, event: Any, state: dict[str, str]) -> None:
        lifecycle = WorkerLifecycleEvent(worker_id=worker, event=event)

        async def tell() -> None:
            async with self.redis.pipeline(transaction=True) as pipe:
                pipe.hset(keys.po_state(worker), mapping=state)
                pipe.xadd(keys.lifecycle, {"data": lifecycle.model_dump_json()})
                await pipe.execute()

        await self._patiently(tell)

    @staticmethod
    async def _patiently(command: Any) -> Any:
        """Redis may be away for a while; a worker tries again."""
        while True:
            try:
                return await command()
            except (RedisError, OSError):
                await asyncio.sleep(0.05)
