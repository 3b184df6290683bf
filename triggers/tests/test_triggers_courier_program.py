"""The courier as a program: what it is told, what it says, how it ends."""

import asyncio
import json
import os
import sys
from pathlib import Path

import aiohttp
import pytest
from support.eventually import eventually
from support.fake_api import FakeApi
from support.fake_github import TOKEN
from support.redis_server import RedisServer

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
