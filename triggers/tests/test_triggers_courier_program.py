"""The courier as a program: what it is told, what it says, how it ends."""

import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from redis.asyncio import Redis
from support.courier_world import CourierWorld, url_of
from support.eventually import eventually
from support.fake_api import FakeApi
from support.fake_github import ME, TOKEN, broken, limited
from support.redis_server import RedisServer
from support.trigger_world import NAMESPACE
from support.webhooks import REPOSITORY

pytestmark = pytest.mark.integration


async def page(port: int, path: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_it_works_until_it_is_told_to_stop_and_says_how_it_is(
    api: FakeApi, redis_server: RedisServer, tmp_path: Path
) -> None:
    secret, log = tmp_path / "github", tmp_path / "log"
    secret.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "KUBECONFIG": str(api.kubeconfig(tmp_path)),
        "ORBITER_REDIS_URL": redis_server.url,
        "ORBITER_WATCH_NAMESPACES": "team",
        "ORBITER_GITHUB_CREDENTIALS": str(secret),
        **{f"ORBITER_{name}_PORT": "0" for name in ("HEALTH", "METRICS")},
    }
    with log.open("wb") as file:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "orbiter_triggers.courier", env=environment, stderr=file
        )
    try:
        await eventually(lambda: '"serving"' in log.read_text())
        [line] = [each for each in log.read_text().splitlines() if '"serving"' in each]
        told = json.loads(line)
        assert (await page(told["health_port"], "/healthz"))[0] == 200

        async def lacks_a_credential() -> bool:
            return "credential" in (await page(told["health_port"], "/readyz"))[1]

        await eventually(lacks_a_credential)
        (secret / "token").write_text(TOKEN)

        async def ready() -> bool:
            return (await page(told["health_port"], "/readyz"))[0] == 200

        await eventually(ready)
        _, metrics = await page(told["metrics_port"], "/metrics")
        assert "orbiter_courier_leader 1.0" in metrics
    finally:
        program.terminate()
    assert await program.wait() == 0
    assert TOKEN not in log.read_text()


async def test_killed_again_and_again_it_makes_each_task_and_each_comment_once(
    api: FakeApi, redis: Redis, redis_server: RedisServer, tmp_path: Path
) -> None:
    world = CourierWorld(api, redis, redis_server.url, tmp_path)
    world.now = datetime.now(UTC)
    await world.begin()
    environment = {
        "PATH": os.environ["PATH"],
        "KUBECONFIG": str(api.kubeconfig(tmp_path)),
        "ORBITER_REDIS_URL": url_of(redis_server.url, "courier"),
        "ORBITER_WATCH_NAMESPACES": NAMESPACE,
        "ORBITER_IDENTITY": "courier-0",
        "ORBITER_GITHUB_URL": world.github.url,
        "ORBITER_GITHUB_PRIVATE_NETWORKS": "127.0.0.0/8",
        "ORBITER_GITHUB_CREDENTIALS": str(tmp_path),
        "ORBITER_GITHUB_REPOSITORIES": json.dumps({NAMESPACE: [REPOSITORY]}),
        "ORBITER_POLL_SECONDS": "10",
        **{f"ORBITER_{name}_PORT": "0" for name in ("HEALTH", "METRICS")},
    }

    async def started() -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "orbiter_triggers.courier"),
            env=environment,
            stderr=asyncio.subprocess.DEVNULL,
        )

    def ours() -> list[str]:
        return [one["body"] for one in world.github.thread(12) if one["user"]["login"] == ME]

    world.apply_github(filters={"labels": ["agent"]})
    world.github.open_issue(12)
    world.github.label(12, "agent")
    world.github.faults.extend([broken, lambda: limited(1)])
    # The first comment is made, and nobody hears of it.
    lost = [broken]
    world.github.after = lambda method, path: lost.pop()() if method == "POST" and lost else None
    program = await started()
    try:
        for _ in range(2):
            await eventually(lambda: len(ours()) == len(world.tasks) == 1, seconds=120.0)
            program.kill()
            await program.wait()
            world.becomes(phase="Completed", result={"summary": f"Done, {program.pid}."})
            before, program = program.pid, await started()
            await eventually(lambda before=before: f"Done, {before}." in ours()[0], seconds=120.0)
        assert len(ours()) == len(world.tasks) == 1
    finally:
        program.terminate()
        code = await program.wait()
        await world.end()
    assert code == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ORBITER_GITHUB_URL", "http://api.github.com"),
        ("ORBITER_GITHUB_PRIVATE_NETWORKS", "10.0.0.1/8"),
        ("ORBITER_GITHUB_REPOSITORIES", "{"),
    ],
)
async def test_what_cannot_be_meant_is_named_and_it_does_not_begin(name: str, value: str) -> None:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orbiter_triggers.courier"),
        env={"PATH": os.environ["PATH"], "ORBITER_REDIS_URL": "redis://127.0.0.1:1/0", name: value},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await program.communicate()
    assert program.returncode == 2
    assert f"{name}:".encode() in said
