"""Turn queue entries from outside into AgentTasks, fairly: who reads an entry first has it.

Reads the developer input stream as one consumer among the standalone workers, and only while there
is room for a Job. The task's name follows from the entry's id, so an entry becomes one task
however often it is read. Until the task's Job has the entry, its claim is renewed, lest another
worker takes it for a dead peer's. A bound entry is left to its own Job. An entry that is no task,
or that the API server refuses, is a dead letter, and the next is taken. One with which the API
server fails again and again is put aside, so that those behind it go on, and tried again now and
then.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter_contracts import DeveloperWorkerInput, InvalidMessageError, decode, read_route
from orbiter_contracts.queues import DEVELOPER_GROUP, DEVELOPER_INPUT, TASK_FIELD
from orbiter_operator.kube.client import AGENT_TASKS, TRANSPORT_ERRORS, ApiError, Kube, too_large
from orbiter_operator.kube.leader_election import NotLeadingError
from orbiter_operator.kube.names import API_VERSION, ENTRY, MANAGED_BY, MANAGER, REQUEST, task_name
from orbiter_operator.runtime.supervisor import UNHURRIED_SECONDS, next_moment, run_concurrently
from orbiter_operator.streams.attempts import CONSUMER
from orbiter_operator.streams.client import RETRIED
from orbiter_operator.streams.dead_letters import DeadLetters
from orbiter_operator.streams.reader import Entry, Inbox, id_before

log = structlog.get_logger(__name__)
RENEW_SECONDS = 20.0
_BLOCK_MS = 5000
_BATCH = 100
_FULL_SECONDS = 0.5
_GATHER_SECONDS = 0.1
_PAUSE_SECONDS = 1.0
_TRIES = 3
"""How often the API server may fail with one entry before the next is tried."""
ASIDE_SECONDS = 15.0
"""After how long what was put aside is tried again."""
_NOT_THE_TASKS_FAULT = (401, 404, 408, 409, 429)


class Intake:
    """Adopts entries for ever.

    Args:
        redis: A client for short commands.
        reader: A client for blocking reads (`client.blocking_client`).
        kube: The API client.
        namespace: Where adopted entries become AgentTasks.
        agent: `spec.agent` of those tasks.
        free_slots: How many more Jobs could start there.
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
        free_slots: Callable[[], int],
        allowed: Callable[[], None],
        dead: Callable[[str], None],
    ) -> None:
        self._redis = redis
        self._inbox = Inbox(redis, reader, DEVELOPER_INPUT, DEVELOPER_GROUP, CONSUMER)
        self._kube = kube
        self._namespace = namespace
        self._agent = agent
        self._free_slots = free_slots
        self._allowed = allowed
        self._dead_letters = DeadLetters(redis, dead)
        self._failures: dict[str, int] = {}

    async def run(self) -> None:
        """Adopt until cancelled, through every failure of Redis and the API server."""
        await run_concurrently(
            {
                "dispatch": self._persist(self._dispatch),
                "renewal of claims": self._persist(self._renew),
                "entries put aside": self._persist(self._try_aside),
            }
        )

    async def _persist(self, step: Callable[[], Any]) -> None:
        while True:
            try:
                await step()
            except RETRIED as error:
                log.warning("intake interrupted", error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _dispatch(self) -> None:
        await self._recover_pending()
        while True:
            free_slots = self._free_slots()
            if free_slots == 0:
                await asyncio.sleep(_FULL_SECONDS)
                continue
            found = await self._inbox.wait(min(free_slots, _BATCH), _BLOCK_MS)
            adopted = [await self._take(entry) for entry in found]
            if any(adopted):
                # The new tasks take their slots meanwhile; there may be more to adopt.
                await asyncio.sleep(_GATHER_SECONDS)
            elif found:
                # All were bound, the operator's own: one read for all of a burst.
                await next_moment(UNHURRIED_SECONDS)

    async def _recover_pending(self) -> None:
        """What was read before a crash and may not have become a task."""
        position = "0"
        while entries := await self._inbox.held(position, _BATCH):
            for entry in entries:
                if not self._is_aside(entry.id):
                    await self._take(entry)
            position = entries[-1].id

    async def _try_aside(self) -> None:
        """Come back to what was put aside, until it is a task or nobody's."""
        while True:
            await asyncio.sleep(ASIDE_SECONDS)
            for name in filter(self._is_aside, tuple(self._failures)):
                if self._free_slots() == 0:
                    break
                # One at a time: what is held of others may be large.
                found = await self._inbox.held(id_before(name), 1)
                if not found or found[0].id != name:
                    del self._failures[name]  # another has it, or it was deleted
                else:
                    await self._take(found[0])

    def _is_aside(self, entry: str) -> bool:
        return self._failures.get(entry, 0) >= _TRIES

    def _put_aside(self, entry: str, error: ApiError) -> bool:
        """Count a failure of the API server; whether it is time to go on without this entry."""
        if error.status < 500:
            return False  # what it says is true of every entry
        self._failures[entry] = self._failures.get(entry, 0) + 1
        if self._failures[entry] == _TRIES:
            log.warning("entry put aside", entry=entry, error=str(error))
        return self._is_aside(entry)

    async def _take(self, entry: Entry) -> bool:
        """Deal with one entry. Returns whether it was from outside.

        Raises:
            ApiError: No task can be made at the moment, of this entry or any other.
        """
        if not entry.fields:
            return False
        try:
            if read_route(entry.fields) is not None or TASK_FIELD in entry.fields:
                return False
            entry.check()
            self._allowed()
            await self._adopt(entry)
        except (RedisError, NotLeadingError, *TRANSPORT_ERRORS):
            raise
        except Exception as error:
            if isinstance(error, ApiError) and _passes(error):
                if self._put_aside(entry.id, error):
                    return True
                raise
            if not isinstance(error, InvalidMessageError):
                log.exception("entry not handled", stream=DEVELOPER_INPUT, entry=entry.id)
            await self._dead_letters.add(
                DEVELOPER_INPUT, DEVELOPER_GROUP, entry, error, remove=True
            )
        self._failures.pop(entry.id, None)
        return True

    async def _adopt(self, entry: Entry) -> None:
        message = decode(DeveloperWorkerInput, entry.fields)
        body = build_task(entry.id, message, self._namespace, self._agent)
        try:
            await self._kube.create(AGENT_TASKS, self._namespace, body)
        except ApiError as error:
            if error.status != 409:
                if _passes(error):
                    raise
                raise InvalidMessageError(f"no AgentTask can be made of it: {error}") from None
        log.info("adopted", entry=entry.id, task=body["metadata"]["name"])

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


def _passes(error: ApiError) -> bool:
    """Whether a refusal says nothing about the task: another one would be refused too, for now.

    A 403 may be either: the operator's rights and a namespace's quota concern every task, an
    admission webhook and its policies this one. What is too large for the database stays so.
    """
    if too_large(error):
        return False
    if error.status == 403:
        return "cannot create resource" in error.message or "exceeded quota" in error.message
    return error.status >= 500 or error.status in _NOT_THE_TASKS_FAULT


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
        "apiVersion": API_VERSION,
        "kind": "AgentTask",
        "metadata": {
            "name": task_name(entry),
            "namespace": namespace,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {ENTRY: entry, REQUEST: message.request_id},
        },
        "spec": spec,
    }
