"""How a worker ends that has a mistake in it."""

import asyncio
import json
import subprocess
import sys

import pytest
from redis.asyncio import Redis
from support.queues import Queues
from support.redis_server import RedisServer
from support.wrapper import Wrappers

from orbiter_contracts.queues import BARE

PROGRAM = """
import asyncio, os
from worker_wrapper import worker
from worker_wrapper.settings import load

async def broken(_):
    raise ValueError("cannot use " + os.environ["ANTHROPIC_API_KEY"])

worker._work = broken
raise SystemExit(asyncio.run(worker.run(load(os.environ), os.environ)))
"""


@pytest.mark.integration
def test_a_mistake_of_ours_is_logged_without_secrets_and_ends_with_1(
    redis_server: RedisServer,
) -> None:
    environ = {
        "WORKER_ID": "w-1",
        "WORKER_TYPE": "developer",
        "REDIS_URL": redis_server.url,
        "ANTHROPIC_API_KEY": "sk-ant-hidden",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    line = json.loads(done.stderr)
    assert (line["event"], line["worker_id"]) == ("crashed", "w-1")
    assert "ValueError: cannot use [redacted]" in line["exception"]
    assert "sk-ant-hidden" not in done.stdout + done.stderr


@pytest.mark.integration
@pytest.mark.parametrize(("kind", "state"), [("developer", None), ("po", "stopped")])
async def test_a_mistake_of_ours_is_told_as_failed_and_stopped(
    redis: Redis, redis_server: RedisServer, kind: str, state: str | None
) -> None:
    environ = {
        "WORKER_ID": "w-1",
        "WORKER_TYPE": kind,
        "REDIS_URL": redis_server.url,
        "ANTHROPIC_API_KEY": "sk-ant-hidden",
    }
    done = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM), env=environ, stderr=asyncio.subprocess.PIPE
    )
    await done.communicate()
    assert done.returncode == 1
    failed, stopped = await Queues(redis).lifecycle("w-1")
    assert (failed.event, stopped.event) == ("failed", "stopped")
    assert failed.details == {
        "reason": "WrapperCrashed",
        "error": "ValueError: cannot use [redacted]",
        "exit_code": "1",
    }
    assert (await redis.hget(BARE.po_state("w-1"), "state")) == state


@pytest.mark.integration
async def test_a_queue_that_is_none_is_told_as_failed_and_stopped(
    wrappers: Wrappers, redis: Redis
) -> None:
    await redis.set(BARE.developer_input, "not a stream")
    assert await wrappers.start("w-1").exit_code() == 3
    queues = Queues(redis)
    assert await queues.story("w-1") == "started failed stopped"
    assert (await queues.lifecycle("w-1"))[1].details["reason"] == "RedisUnavailable"
