"""`FakeNode` whose workers claim and publish with the wrapper's own code, a connection each."""

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from support.fake_node import FakeNode, Run

from orbiter_contracts import AgentVerdict, DeveloperWorkerInput, DeveloperWorkerOutput
from orbiter_contracts.queues import ATTEMPT_FIELD, DEVELOPER_GROUP, TASK_FIELD, Keys
from worker_wrapper.queue.claims import AttemptClaim
from worker_wrapper.queue.connection import RedisConnection
from worker_wrapper.queue.lifecycle import Lifecycle
from worker_wrapper.queue.streams import InputStream


@dataclass
class WrapperNode(FakeNode):
    """Runs every Job; its agents need `turn_delay` and succeed.

    Attributes:
        url: What a worker has as REDIS_URL.
    """

    url: str = ""

    async def _prompt(self, env: dict[str, str]) -> list[str]:
        return []  # which a worker of ours learns with its entry

    async def _work(self, env: dict[str, str], words: list[str]) -> tuple[int, str, str]:
        redis = RedisConnection(self.url, structlog.get_logger())
        redis.insists = lambda: True  # as long as the pod's deadline, which is 40 minutes
        keys = Keys(env.get("KEY_PREFIX", ""))
        stream = InputStream(redis, keys.developer_input, DEVELOPER_GROUP, env["WORKER_ID"])
        try:
            await stream.join()
            entry = await stream.claim(env["TASK_ENTRY_ID"])
            if entry is None:
                return 0, "Completed", ""
            claim = AttemptClaim(
                *(stream, entry),
                keys=keys,
                record=env["TASK_RECORD"],
                task=env["TASK_NAME"],
                attempt=int(env["TASK_ATTEMPT"]),
            )
            with self._run(env) as run:
                run.published = await self._answer(env, redis, keys, claim)
            return 0, "Completed", ""
        finally:
            await redis.close()

    @contextlib.contextmanager
    def _run(self, env: dict[str, str]):  # type: ignore[no-untyped-def]
        clock = asyncio.get_running_loop().time
        uid, attempt = env["TASK_RECORD"].split(":")[-2], int(env["TASK_ATTEMPT"])
        run = Run(task=env["TASK_NAME"], uid=uid, attempt=attempt, began=clock())
        self.runs.append(run)
        self.most_at_once = max(self.most_at_once, len(self.running))
        try:
            yield run
        finally:
            run.ended = clock()

    async def _answer(
        self, env: dict[str, str], redis: RedisConnection, keys: Keys, claim: AttemptClaim
    ) -> bool:
        lifecycle = Lifecycle(
            *(redis, env["WORKER_ID"]),
            stream=keys.lifecycle,
            clock=lambda: datetime.now(UTC),
            routing={TASK_FIELD: env["TASK_NAME"], ATTEMPT_FIELD: env["TASK_ATTEMPT"]},
        )
        await lifecycle.publish("busy")
        await asyncio.sleep(self.turn_delay)
        message = claim.entry.message(DeveloperWorkerInput)
        output = DeveloperWorkerOutput(
            request_id=message.request_id,
            task_id=message.task_id,
            status="success",
            worker_id=env["WORKER_ID"],
            verdict=AgentVerdict(summary="all done"),
        )
        event = lifecycle.event("completed", {})
        return await claim.settle(output.model_dump_json(), event.model_dump_json())
