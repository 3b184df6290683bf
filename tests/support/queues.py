"""The queues as an outside program sees them: put messages in, look at what came out."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio import Redis
from support.eventually import eventually

from orbiter_contracts import (
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    POState,
    POTurn,
    POWorkerInput,
    POWorkerOutput,
    WorkerLifecycleEvent,
    decode,
    encode,
)
from orbiter_contracts.queues import (
    BARE,
    DEVELOPER_GROUP,
    OPERATOR_GROUP,
    TASK_FIELD,
    Keys,
    dead_letter,
)
from orbiter_contracts.scripts import ADMIT_ATTEMPT, ATTEMPT_TTL_SECONDS
from orbiter_operator.streams.tenants import create_groups

TASK = "team/fix-login"
UID = "9f1c"
RECORD = BARE.attempt_record(UID, 1)


async def open_groups(redis: Redis, keys: Keys = BARE) -> None:
    """Make the streams that the operator reads of some keys, with its groups."""
    streams = ((keys.developer_output, OPERATOR_GROUP), (keys.lifecycle, OPERATOR_GROUP))
    await create_groups(redis, ((keys.developer_input, DEVELOPER_GROUP), *streams))


class Queues:
    """One Redis with the wrapper's streams in it."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis

    async def task(self, prompt: str = "do it", **fields: Any) -> str:
        """Put a task on the shared queue, as any producer may; return its entry's id."""
        task = DeveloperWorkerInput(task_id="t-1", prompt=prompt, **fields)
        entry: str = await self.redis.xadd(BARE.developer_input, encode(task))
        return entry

    async def bound_task(self, prompt: str = "do it", **fields: Any) -> dict[str, str]:
        """Admit attempt 1 of an AgentTask; return the environment of its Job's wrapper."""
        await self.group(BARE.developer_input, DEVELOPER_GROUP)
        task = DeveloperWorkerInput(task_id="t-1", prompt=prompt, **fields)
        return await self.bound_entry(encode(task))

    async def bound_entry(self, fields: dict[str, str]) -> dict[str, str]:
        """Admit attempt 1 with an entry of these fields."""
        flat = [
            text for pair in {**fields, TASK_FIELD: TASK, "attempt": "1"}.items() for text in pair
        ]
        entry = await self.redis.eval(
            ADMIT_ATTEMPT, 2, RECORD, BARE.developer_input, ATTEMPT_TTL_SECONDS, *flat
        )
        return {
            "TASK_ENTRY_ID": entry,
            "TASK_RECORD": RECORD,
            "TASK_NAME": TASK,
            "TASK_ATTEMPT": "1",
        }

    async def message(self, prompt: str, *, worker: str = "po-1", **fields: Any) -> str:
        """Send a user's message to a PO worker; return its entry's id."""
        message = POWorkerInput(prompt=prompt, **{"user_id": 7, **fields})
        entry: str = await self.redis.xadd(BARE.po_input(worker), encode(message))
        return entry

    async def group(self, stream: str, group: str) -> None:
        """Have a consumer group, as the first worker makes it."""
        if not await self.redis.exists(stream):
            await self.redis.xgroup_create(stream, group, "0", mkstream=True)

    async def outputs(self) -> list[DeveloperWorkerOutput]:
        """All developer outputs so far."""
        entries = await self.redis.xrange(BARE.developer_output)
        return [decode(DeveloperWorkerOutput, fields) for _, fields in entries]

    async def output(self, count: int = 1) -> DeveloperWorkerOutput:
        """Wait for that many developer outputs; return the last."""
        await eventually(lambda: self._has(BARE.developer_output, count))
        return (await self.outputs())[count - 1]

    async def converse(self, *prompts: str) -> list[POWorkerOutput]:
        """Send a user's messages all at once; wait until all are answered; return all answers."""
        before = await self.redis.xlen(BARE.po_output("po-1"))
        for prompt in prompts:
            await self.message(prompt)
        return await self.answers(before + len(prompts))

    async def answers(self, count: int, *, worker: str = "po-1") -> list[POWorkerOutput]:
        """Wait for that many answers of a PO worker; return them all."""
        await eventually(lambda: self._has(BARE.po_output(worker), count))
        entries = await self.redis.xrange(BARE.po_output(worker))
        return [decode(POWorkerOutput, fields) for _, fields in entries]

    async def finals(self, count: int, *, worker: str = "po-1") -> list[POWorkerOutput]:
        """Wait for that many whole answers of a PO worker; return these alone."""

        async def whole() -> list[POWorkerOutput]:
            answers = await self.answers(0, worker=worker)
            return [answer for answer in answers if answer.is_final]

        await eventually(lambda: _at_least(whole, count))
        return await whole()

    async def state(self, worker: str = "po-1") -> POState:
        """How a PO session stands."""
        return POState.of(await self.redis.hgetall(BARE.po_state(worker))) or POState()

    async def turns(self, worker: str = "po-1") -> list[POTurn]:
        """The kept turns of a PO session."""
        texts = await self.redis.lrange(BARE.po_turns(worker), 0, -1)
        return [POTurn.model_validate_json(text) for text in texts]

    async def lifecycle(self, worker: str | None = None) -> list[WorkerLifecycleEvent]:
        """All lifecycle events so far, of one worker or of all."""
        entries = await self.redis.xrange(BARE.lifecycle)
        events = [decode(WorkerLifecycleEvent, fields) for _, fields in entries]
        return [event for event in events if worker in (None, event.worker_id)]

    async def story(self, worker: str | None = None) -> str:
        """The names of the lifecycle events, in their order."""
        return " ".join(event.event for event in await self.lifecycle(worker))

    async def told(self, event: str, count: int = 1) -> None:
        """Wait until that many lifecycle events of that name are there."""
        await eventually(lambda: self._told(event, count))

    async def dead_letters(self, stream: str = BARE.developer_input) -> list[dict[str, str]]:
        """The fields of the stream's dead letters."""
        return [fields for _, fields in await self.redis.xrange(dead_letter(stream))]

    async def is_settled(
        self, stream: str = BARE.developer_input, group: str = DEVELOPER_GROUP
    ) -> bool:
        """Whether nothing is left on a queue, read or unread."""
        pending = await self.redis.xpending(stream, group)
        return await self.redis.xlen(stream) == 0 and pending["pending"] == 0

    async def _has(self, stream: str, count: int) -> bool:
        return bool(await self.redis.xlen(stream) >= count)

    async def _told(self, event: str, count: int) -> bool:
        return [e.event for e in await self.lifecycle()].count(event) >= count


async def _at_least(whole: Callable[[], Awaitable[list[Any]]], count: int) -> bool:
    return len(await whole()) >= count


def routing(fields: dict[str, str]) -> dict[str, str]:
    """The fields of an entry but for its message."""
    return {name: text for name, text in fields.items() if name != "data"}


def data(fields: dict[str, str]) -> Any:
    """The message of an entry as plain JSON."""
    return json.loads(fields["data"])
