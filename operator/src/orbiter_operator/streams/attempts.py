"""The attempts of AgentTasks in Redis: put on the queue once, published once, withdrawn.

Each method is one Lua script or one atomic pipeline, so a crash leaves either all of it or nothing.
Where an attempt is, its own `keys` say: it ends where it has begun. Who calls: `tasks/executor` and
`tasks/observe`. The scripts shared with the workers are in orbiter_contracts.
"""

from collections.abc import Iterable
from typing import Any, cast

from redis.asyncio import Redis

from orbiter_contracts import (
    Checkpoint,
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    InvalidMessageError,
    WorkerLifecycleEvent,
    decode,
    encode,
    excerpt,
    read_checkpoint,
)
from orbiter_contracts.attempts import Attempt
from orbiter_contracts.checkpoint_scripts import (
    COPY_CHECKPOINT,
    SESSION_PART,
    WORKSPACE_PART,
    part,
)
from orbiter_contracts.checkpoints import CHECKPOINT_FIELD, MAX_CHECKPOINT_JSON_BYTES
from orbiter_contracts.queues import (
    DEVELOPER_GROUP,
    TASK_FIELD,
    Keys,
    dead_letter,
)
from orbiter_contracts.scripts import ADMIT_ATTEMPT, ATTEMPT_TTL_SECONDS, PUBLISH_IN_PLACE
from orbiter_contracts.stream_names import is_entry_id
from orbiter_operator.kube.models import NOTHING_TO_RESUME, Refusal, RefusedError
from orbiter_operator.streams.pending_outputs import AttemptRecord
from orbiter_operator.streams.reader import read_entry

CONSUMER = "operator"
"""The one consumer name of whichever replica is active: what one held is the next one's."""
WITHDRAWN_TTL_SECONDS = 3600
PEER_IS_DEAD_MS = 60_000
_NO_ENTRY = "0-0"
_SHOWN = 60

_ADMIT_AND_READ = f"""
local function admit()
{ADMIT_ATTEMPT}
end
return {{admit(), redis.call('HGET', KEYS[1], 'output')}}
"""
"""ADMIT_ATTEMPT, and whether the attempt was over before: the output's id or nil."""

_ADOPT_ENTRY = """
if redis.call('HEXISTS', KEYS[1], 'output') == 1 then return 'ok' end
local found = redis.call('XRANGE', KEYS[2], ARGV[2], ARGV[2])[1]
if not found then
  return 'was answered by another worker'
end
for i = 1, #found[2], 2 do
  if found[2][i] == ARGV[7] then
    return 'belongs to AgentTask ' .. string.sub(found[2][i + 1], 1, 127)
  end
end
local pending = redis.call('XPENDING', KEYS[2], ARGV[3], ARGV[2], ARGV[2], 1)[1]
local holder = pending and pending[2] or ARGV[4]
if holder ~= ARGV[4] and holder ~= ARGV[5] and pending[3] < tonumber(ARGV[6]) then
  return 'is being worked on by ' .. holder
end
if holder ~= ARGV[5] then
  redis.call('XCLAIM', KEYS[2], ARGV[3], ARGV[4], 0, ARGV[2], 'FORCE', 'JUSTID')
end
redis.call('HSET', KEYS[1], 'entry', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 'ok'
"""
"""Make an entry from outside an attempt's entry, unless another worker or another task has it.

KEYS: the attempt's record, the input stream. ARGV: the record's lifetime in seconds, entry id,
group, the operator's consumer name, the worker id of the attempt's Job, milliseconds after which a
silent holder counts as dead, the field of an entry that names the task it is bound to. Returns
`ok`, or what has become of the entry.
"""

_MOVE = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 1 end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('RENAME', KEYS[1], KEYS[2])
return 1
"""
"""Whether a key is there, moved from its old name where it has to be. KEYS: old name, new name."""

_RECORD = f"""
local found = redis.pcall('HMGET', KEYS[1], 'entry', 'output', '{CHECKPOINT_FIELD}')
if found.err then return {{false, false, false}} end
for i = 1, 3 do
  if found[i] and #found[i] > {MAX_CHECKPOINT_JSON_BYTES} then found[i] = false end
end
return found
"""
"""What a record says, without what is too long to say it: a worker may write half a gigabyte into
each, and a key of another kind says nothing. KEYS: the attempt's record."""


class Attempts:
    """Attempts in Redis.

    Args:
        redis: A client that reads replies as text.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._admit = redis.register_script(_ADMIT_AND_READ)
        self._publish = redis.register_script(PUBLISH_IN_PLACE)
        self._adopt = redis.register_script(_ADOPT_ENTRY)
        self._move = redis.register_script(_MOVE)
        self._inherit = redis.register_script(COPY_CHECKPOINT)
        self._record = redis.register_script(_RECORD)

    async def admit(self, attempt: Attempt, message: DeveloperWorkerInput) -> AttemptRecord:
        """Put the attempt's entry on the queue unless it was before; say where it stands."""
        fields = [text for pair in encode(message, **attempt.routing).items() for text in pair]
        entry, *output = await self._admit(
            keys=[attempt.record, attempt.keys.developer_input], args=[ATTEMPT_TTL_SECONDS, *fields]
        )
        if output and output[0] is not None:
            return await self.read(attempt)
        return AttemptRecord(entry=str(entry))

    async def adopt(self, attempt: Attempt, entry: str, worker: str) -> str | None:
        """Make an entry from outside the attempt's entry.

        Args:
            attempt: The first attempt of the task made of the entry.
            entry: Its id.
            worker: Id of the worker that the attempt's Job will run.

        Returns:
            None, or in words whose the entry is because another worker or task has it.
        """
        answer = await self._adopt(
            keys=[attempt.record, attempt.keys.developer_input],
            args=[
                *(ATTEMPT_TTL_SECONDS, entry, DEVELOPER_GROUP, CONSUMER, worker),
                *(PEER_IS_DEAD_MS, TASK_FIELD),
            ],
        )
        return None if answer == "ok" else f"queue entry {entry} {excerpt(answer)}"

    async def read(self, attempt: Attempt) -> AttemptRecord:
        """Where the attempt stands; the output comes with it when there is one."""
        entry, output_id, text = cast("list[str | None]", await self._record(keys=[attempt.record]))
        checkpoint = read_checkpoint(text)
        entry = entry if entry is not None and is_entry_id(entry) else None
        if output_id is None:
            return AttemptRecord(entry=entry, checkpoint=checkpoint)
        stream = attempt.keys.developer_output
        # A worker may write anything there.
        known = is_entry_id(output_id)
        found = await read_entry(self._redis, stream, output_id) if known else None
        try:
            if not known:
                raise InvalidMessageError(f"no output has the id {excerpt(output_id, _SHOWN)!r}")
            if found is None:
                letters = dead_letter(stream)
                raise InvalidMessageError(
                    f"output {output_id} is gone from Redis; if it was too large, {letters} says so"
                )
            found.check()
            output = decode(DeveloperWorkerOutput, found.fields)
        except InvalidMessageError as error:
            output = _unreadable(str(error))
        return AttemptRecord(entry=entry, output_id=output_id, output=output, checkpoint=checkpoint)

    async def resumable(self, attempt: Attempt) -> Checkpoint | None:
        """The attempt's checkpoint, if another task can go on from it."""
        kept = (await self.read(attempt)).checkpoint
        there = kept is not None and await self._redis.exists(attempt.checkpoint)
        return kept if kept is not None and there and kept.resumable else None

    async def inherit(self, attempt: Attempt, source: Attempt, kept: Checkpoint) -> None:
        """Give an attempt that is to begin the checkpoint of another task's.

        What that one has cost stays its own.

        Args:
            attempt: Which is to begin.
            source: Whose checkpoint it is.
            kept: What its record says of it.

        Raises:
            RefusedError: It is gone meanwhile, or nothing that a worker of ours has written.
        """
        nothing: dict[str, Any] = {"turns": 0, "cost_usd": None, "usage": None, "agent_seconds": 0}
        own = kept.model_copy(update=nothing)
        fields = (part(kept.generation, name) for name in (SESSION_PART, WORKSPACE_PART))
        state = await self._inherit(
            keys=[source.checkpoint, attempt.record, attempt.checkpoint],
            args=[ATTEMPT_TTL_SECONDS, own.model_dump_json(), *fields],
        )
        if state != "there":
            text = (
                f"resumeFrom: the checkpoint of AgentTask {source.task} {state}; "
                "leave resumeFrom out to begin anew"
            )
            raise RefusedError(Refusal(status=410, reason=NOTHING_TO_RESUME, message=text))

    async def publish(
        self,
        attempt: Attempt,
        entry: str | None,
        output: DeveloperWorkerOutput,
        event: WorkerLifecycleEvent,
    ) -> str | None:
        """Publish in the worker's place. Returns the output's id; None when there is one already.

        Args:
            attempt: Which attempt.
            entry: Its entry; None when Redis no longer knows it.
            output: What to publish.
            event: The lifecycle event that goes with it.
        """
        keys = attempt.keys
        output_id: str | None = await self._publish(
            keys=[attempt.record, keys.developer_input, keys.developer_output, keys.lifecycle],
            args=[
                ATTEMPT_TTL_SECONDS,
                entry or _NO_ENTRY,
                DEVELOPER_GROUP,
                output.model_dump_json(),
                event.model_dump_json(),
                attempt.task,
                attempt.number,
            ],
        )
        return output_id

    async def withdraw(self, attempt: Attempt) -> None:
        """Take the attempt's entry off the queue: its task was deleted.

        The record stays a while, so that a worker that still runs finds itself superseded.
        """
        entry = (await self.read(attempt)).entry
        await self.forget_checkpoint(attempt)
        if entry is None:
            return
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.xack(attempt.keys.developer_input, DEVELOPER_GROUP, entry)
            pipe.xdel(attempt.keys.developer_input, entry)
            pipe.expire(attempt.record, WITHDRAWN_TTL_SECONDS)
            await pipe.execute()

    async def forget_checkpoint(self, attempt: Attempt) -> None:
        """Delete the parts of an attempt's checkpoints, which nothing goes on from any more."""
        await self._redis.expire(attempt.checkpoint, 0)

    async def renew(self, attempts: Iterable[Attempt]) -> None:
        """Have what is kept of some attempts last as long again: their tasks have not ended."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for each in attempts:
                session = each.keys.task_snapshot(each.uid)
                for key in (each.record, each.checkpoint, session):
                    pipe.expire(key, ATTEMPT_TTL_SECONDS)
            await pipe.execute()

    async def has_session(self, uid: str, keys: Keys, before: Keys) -> bool:
        """Whether the session of the task's agent is kept, for another Job to continue it.

        Args:
            uid: The task's uid.
            keys: Those of the attempt that is to begin; afterwards the session is there.
            before: Those of the attempt before it.
        """
        where = keys.task_snapshot(uid)
        if keys != before:
            return bool(await self._move(keys=[before.task_snapshot(uid), where]))
        return bool(await self._redis.exists(where))

    async def forget_session(self, uid: str, *keys: Keys) -> None:
        """Delete what is kept of the session: an expiry of no seconds, which our ACL allows.

        Args:
            uid: The task's uid.
            keys: Where it may be.
        """
        for some in dict.fromkeys(keys):
            await self._redis.expire(some.task_snapshot(uid), 0)


def _unreadable(why: str) -> DeveloperWorkerOutput:
    ids: dict[str, Any] = {"request_id": "", "task_id": "", "status": "error"}
    return DeveloperWorkerOutput(
        **ids, reason="InvalidMessage", error=f"the worker's output cannot be read: {why}"
    )
