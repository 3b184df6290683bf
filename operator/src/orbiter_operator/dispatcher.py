"""Turn queue entries from outside into AgentTasks, fairly: who reads an entry first has it.

Reads the developer input stream as one consumer among the standalone workers, and only while there
is room for a Job. The task's name follows from the entry's id, so an entry becomes one task
however often it is read. Until the task's Job has the entry, its claim is renewed, lest another
worker takes it for a dead peer's. A bound entry is left to its own Job.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter_contracts import DeveloperWorkerInput, InvalidMessageError, decode
from orbiter_contracts.queues import (
    DEVELOPER_GROUP,
    DEVELOPER_INPUT,
    REASON_FIELD,
    TASK_FIELD,
    dead_letter,
)
from orbiter_operator.attempts import CONSUMER
from orbiter_operator.kube import AGENT_TASKS, TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.labels import ENTRY, MANAGED_BY, MANAGER, REQUEST, task_name
from orbiter_operator.leader import NotLeadingError
from orbiter_operator.pace import UNHURRIED_SECONDS, next_moment
from orbiter_operator.streams import Entry, read_group, read_pending
from orbiter_operator.together import run_together

log = structlog.get_logger(__name__)
RENEW_SECONDS = 20.0
_BLOCK_MS = 5000
_BATCH = 100
_FULL_SECONDS = 0.5
_GATHER_SECONDS = 0.1
_PAUSE_SECONDS = 1.0
_DEAD_LETTERS = 10_000


class Dispatcher:
    """Adopts entries for ever.

    Args:
        redis: A client for short commands.
        reader: A client whose timeout is longer than a blocking read.
        kube: The API client.
        namespace: Where adopted entries become AgentTasks.
        agent: `spec.agent` of those tasks.
        spare: How many more Jobs could start there.
        allowed: Raises unless this replica is the active one.
        dead: Called for every entry that cannot be read.
    """

    def __init__(
        self,
        *,
        redis: Redis,
        reader: Redis,
        kube: Kube,
        namespace: str,
        agent: dict[str, Any],
        spare: Callable[[], int],
        allowed: Callable[[], None],
        dead: Callable[[str], None],
    ) -> None:
        self._redis = redis
        self._reader = reader
        self._kube = kube
        self._namespace = namespace
        self._agent = agent
        self._spare = spare
        self._allowed = allowed
        self._dead = dead

    async def run(self) -> None:
        """Adopt until cancelled, through every failure of Redis and the API server."""
        await run_together(
            {
                "dispatch": self._persist(self._dispatch),
                "renewal of claims": self._persist(self._renew),
            }
        )

    async def _persist(self, step: Callable[[], Any]) -> None:
        while True:
            try:
                await step()
            except (RedisError, ApiError, NotLeadingError, *TRANSPORT_ERRORS) as error:
                log.warning("dispatcher interrupted", error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _dispatch(self) -> None:
        await self._again()
        while True:
            spare = self._spare()
            if spare == 0:
                await asyncio.sleep(_FULL_SECONDS)
                continue
            found = await read_group(
                self._reader,
                DEVELOPER_GROUP,
                CONSUMER,
                {DEVELOPER_INPUT: ">"},
                count=min(spare, _BATCH),
                block=_BLOCK_MS,
            )
            foreign = [entry for _, entries in found for entry in entries if _is_foreign(entry)]
            for entry in foreign:
                await self._take(entry)
            if foreign:
                # The new tasks take their places meanwhile; there may be more to adopt.
                await asyncio.sleep(_GATHER_SECONDS)
            elif found:
                # All were bound, the operator's own: one read for all of a burst.
                await next_moment(UNHURRIED_SECONDS)

    async def _again(self) -> None:
        """What was read before a crash and may not have become a task."""
        position = "0"
        while entries := await read_pending(
            self._redis, DEVELOPER_GROUP, CONSUMER, DEVELOPER_INPUT, position, _BATCH
        ):
            for entry in filter(_is_foreign, entries):
                await self._take(entry)
            position = entries[-1][0]

    async def _take(self, entry: Entry) -> None:
        identifier, fields = entry
        self._allowed()
        try:
            message = decode(DeveloperWorkerInput, fields)
        except InvalidMessageError as error:
            await self._bury(identifier, fields, str(error))
            return
        body = build_task(identifier, message, self._namespace, self._agent)
        try:
            await self._kube.create(AGENT_TASKS, self._namespace, body)
        except ApiError as error:
            if error.status in (400, 422):
                await self._bury(identifier, fields, f"no AgentTask can be made of it: {error}")
                return
            if error.status != 409:
                raise
        log.info("adopted", entry=identifier, task=body["metadata"]["name"])

    async def _bury(self, identifier: str, fields: dict[str, str], reason: str) -> None:
        self._dead(DEVELOPER_INPUT)
        log.warning("dead letter", stream=DEVELOPER_INPUT, entry=identifier, reason=reason)
        letter: dict[Any, Any] = {**fields, REASON_FIELD: reason}
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.xadd(dead_letter(DEVELOPER_INPUT), letter, maxlen=_DEAD_LETTERS)
            pipe.xack(DEVELOPER_INPUT, DEVELOPER_GROUP, identifier)
            pipe.xdel(DEVELOPER_INPUT, identifier)
            await pipe.execute()

    async def _renew(self) -> None:
        """Tell the other workers that what we still hold is not a dead peer's."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            held = await self._redis.xpending_range(
                DEVELOPER_INPUT,
                DEVELOPER_GROUP,
                min="-",
                max="+",
                count=1000,
                consumername=CONSUMER,
            )
            if held:
                self._allowed()
                await self._redis.xclaim(
                    DEVELOPER_INPUT,
                    DEVELOPER_GROUP,
                    CONSUMER,
                    min_idle_time=0,
                    message_ids=[item["message_id"] for item in held],
                    justid=True,
                )


def _is_foreign(entry: Entry) -> bool:
    """Whether it is from outside: neither bound to a Job of ours nor deleted meanwhile."""
    _, fields = entry
    return bool(fields) and TASK_FIELD not in fields


def build_task(
    entry: str, message: DeveloperWorkerInput, namespace: str, agent: dict[str, Any]
) -> dict[str, Any]:
    """The AgentTask made of an entry, with that very entry as its first attempt."""
    spec: dict[str, Any] = {
        "prompt": message.prompt,
        "agent": agent,
        "timeoutSeconds": message.timeout,
        "taskId": message.task_id,
    }
    if message.project_id:
        spec["projectId"] = message.project_id
    if message.workspace and message.workspace.git:
        spec["workspace"] = {"git": message.workspace.git.model_dump(exclude_none=True)}
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentTask",
        "metadata": {
            "name": task_name(entry),
            "namespace": namespace,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {ENTRY: entry, REQUEST: message.request_id},
        },
        "spec": spec,
    }
