"""Notifications from the courier as a program, which is killed and begun anew."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.fake_api import FakeApi
from support.notify_world import NotifyWorld
from support.redis_server import RedisServer

pytestmark = pytest.mark.integration


@asynccontextmanager
async def courier(
    api: FakeApi, redis_server: RedisServer, directory: Path, **more: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """The program, and the port of its metrics."""
    environment = {
        "PATH": os.environ["PATH"],
        "KUBECONFIG": str(api.kubeconfig(directory)),
        "ORBITER_REDIS_URL": redis_server.url,
        "ORBITER_WATCH_NAMESPACES": "team",
        "ORBITER_NOTIFY": "true",
        "ORBITER_LEASE_DURATION_SECONDS": "3",
        "ORBITER_LEASE_RENEW_SECONDS": "0.2",
        "ORBITER_NOTIFY_ALLOW_HTTP": "true",
        "ORBITER_NOTIFY_PRIVATE_NETWORKS": "127.0.0.0/8",
        **{f"ORBITER_{name}_PORT": "0" for name in ("HEALTH", "METRICS")},
        **more,
    }
    log = directory / "log"
    with log.open("wb") as file:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "orbiter_triggers.courier", env=environment, stderr=file
        )
    try:
        await eventually(lambda: '"serving"' in log.read_text())
        [line] = [each for each in log.read_text().splitlines() if '"serving"' in each]
        yield program, json.loads(line)["metrics_port"]
    finally:
        if program.returncode is None:
            program.terminate()
        await program.wait()


async def test_a_killed_courier_tells_all_the_same_and_tells_what_it_told_no_more(
    api: FakeApi, redis: Redis, redis_server: RedisServer, tmp_path: Path
) -> None:
    world = NotifyWorld(api, redis, redis_server.url)
    world.secret()
    # The program's clock is the machine's.
    world.now = world.real_now()
    await world.receiver.start()
    try:
        async with courier(api, redis_server, tmp_path) as (program, _):
            world.ends("first")
            await eventually(lambda: world.receiver.types == ["first completed"])
            program.kill()
        world.ends("second", phase="Failed")
        async with courier(api, redis_server, tmp_path) as (program, port):
            await eventually(lambda: world.receiver.types == ["first completed", "second failed"])
            url = f"http://127.0.0.1:{port}/metrics"

            async def counted() -> bool:
                async with aiohttp.ClientSession() as session, session.get(url) as response:
                    text = await response.text()
                told = 'orbiter_notifications_total{outcome="sent"} 1.0'
                return told in text and "orbiter_notifications_waiting 0.0" in text

            await eventually(counted)
            assert "hidden" not in (tmp_path / "log").read_text()
    finally:
        await world.receiver.stop()
        await redis.flushall()
