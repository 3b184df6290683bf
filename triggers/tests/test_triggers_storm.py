"""A storm without a cluster: the real programs, killed again and again, a GitHub that fails.

`STORM_EVENTS=1000 SEED=7` make it larger and choose it; its table is printed. The same on a cluster
is `make test-triggers`.
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from redis.asyncio import Redis
from support.certificates import make_certificates
from support.eventually import eventually
from support.fake_api import FakeApi, Object
from support.redis_server import RedisServer
from support.storm_github import Faults, Hook, StormGithub
from support.trigger_programs import MODULES, LimitedTasks, Programs
from support.trigger_storm import Step, Wanted, chosen_seed, judge, manifests, script, show, summary
from support.trigger_world import NAMESPACE
from support.webhooks import MASTER_KEY

from orbiter_contracts.queues import Keys, dead_letter
from orbiter_contracts.webhook_signatures import read_hook_path

EVENTS = int(os.environ.get("STORM_EVENTS", "200"))
PAUSE_SECONDS = max(0.05, EVENTS / 5000)
"""A poll reads 2,000 comments, and of a thousand events there are 3,000."""
WORK = 40
"""Somebody is killed whenever so much was done."""
FEW = 10
PATIENCE_SECONDS = 150.0
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600 + 4 * EVENTS)]
STREAM = Keys.of_namespace(NAMESPACE).trigger_events


class Scene(NamedTuple):
    """Where it happens."""

    seed: int
    github: StormGithub
    ca: Path


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    seed, tls = chosen_seed(), make_certificates(tmp_path / "tls")
    files = tls.certificate, tls.key
    server = StormGithub(seed, Faults(), certificate=files, root="/api/v3")
    await server.start()
    yield Scene(seed, server, tls.ca)
    await server.stop()


class Storm:
    """One storm under way."""

    def __init__(self, scene: Scene, api: FakeApi, programs: Programs) -> None:
        self.seed, self.github, _ = scene
        self.api, self.programs = api, programs
        self.tasks = LimitedTasks(api, at_once=5, seconds=0.05)
        self.uids: dict[str, str] = {}
        self.over = False
        self.killing: asyncio.Task[None] | None = None

    def done(self) -> int:
        """How much was done so far, whoever did it."""
        counts = self.github.counts
        told = counts["deliveries taken"] + counts["written"]
        return self.tasks.made + self.tasks.ended + told

    async def begin(self, redis: Redis) -> None:
        for one in manifests({"prompt": "Look at ${{event.title}}."}):
            one["metadata"]["namespace"] = NAMESPACE
            name = one["metadata"]["name"]
            self.uids[name] = self.api.put("agenttriggers", one)["metadata"]["uid"]
        await self.programs.begin(redis)
        found = {name: await hook(self.api, name, self.programs.port) for name in self.uids}
        self.github.hooks = found
        self.killing = asyncio.create_task(self._kill_on())

    async def calm(self) -> None:
        """Kill nobody any more, and wait until whoever was killed is there again."""
        self.over = True
        if self.killing is not None:
            await self.killing

    async def play(self, steps: list[Step]) -> None:
        """Have all of it happen, most of it while somebody receives."""
        chance = random.Random(self.seed)
        for first in range(0, len(steps), FEW):
            if chance.random() < 0.8:
                await self.until(lambda: self.programs.at_work("receiver"))
            await self.github.play(steps[first : first + FEW], PAUSE_SECONDS)
        await self.github.delivered()

    async def _kill_on(self) -> None:
        """One after the other, in an order of chance, each time that some more was done."""
        chance = random.Random(self.seed)
        while True:
            for part in chance.sample(sorted(MODULES), len(MODULES)):
                since = self.done()
                await self.until(lambda since=since: self.over or self.done() - since >= WORK)
                if self.over:
                    return
                if chance.random() < 0.8:
                    await self.until(lambda part=part: self.programs.at_work(part))
                if part != "receiver" and chance.random() < 0.25:
                    await self.programs.freeze(part)
                else:
                    await self.programs.kill(part, as_before=chance.random() < 0.5)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for it as long as anything is done."""
        done, since = self.done(), time.monotonic()
        while not condition():
            if self.done() != done:
                done, since = self.done(), time.monotonic()
            assert time.monotonic() - since < PATIENCE_SECONDS, self.problems()
            await asyncio.sleep(0.02)

    def wanted(self) -> list[Wanted]:
        return list(self.github.wanted.values())

    def problems(self) -> list[str]:
        """What is not as it has to be."""
        named = {name: (name, uid) for name, uid in self.uids.items()}
        made = list(self.api.objects["agenttasks"].values())
        return judge(self.wanted(), named, made, self.github.state()["comments"])

    def summary(self, seconds: float) -> Object:
        counts, kills = self.github.counts, self.programs.kills
        comments = len(self.github.state()["comments"])
        made = len(self.api.objects["agenttasks"])
        return summary(self.seed, self.wanted(), counts, kills, made, comments, seconds)


@pytest.fixture
async def storm(
    scene: Scene, api: FakeApi, redis: Redis, redis_server: RedisServer, tmp_path: Path
) -> AsyncIterator[Storm]:
    programs = Programs(api, redis_server.url, scene.github, scene.ca, tmp_path, NAMESPACE)
    made = Storm(scene, api, programs)
    yield made
    try:
        await made.calm()
        for part in MODULES:  # who has not begun knows no signals yet
            await eventually(lambda part=part: programs.at_work(part), seconds=90.0)
    finally:
        codes = await programs.end(redis)
        await made.tasks.stop()
    assert codes == dict.fromkeys(MODULES, 0)


async def test_every_event_makes_its_task_and_comment_once_whoever_is_killed(
    storm: Storm, redis: Redis
) -> None:
    began = time.monotonic()
    await storm.begin(redis)
    await storm.play(script(storm.seed, EVENTS))
    await storm.until(lambda: storm.tasks.made >= EVENTS)
    await storm.calm()
    with suppress(AssertionError):
        await storm.until(lambda: not storm.problems())
    await eventually(lambda: is_empty(redis), seconds=90.0)
    show(storm.summary(time.monotonic() - began))
    assert storm.problems() == []
    assert await redis.xlen(dead_letter(STREAM)) == 0


async def hook(api: FakeApi, name: str, port: int) -> Hook:
    """Where a trigger's webhook goes, as its status says."""

    def path() -> str | None:
        found = api.get("agenttriggers", NAMESPACE, name) or {}
        return (found.get("status") or {}).get("webhookPath")

    known = str(await eventually(path, seconds=90.0))
    read = read_hook_path(known)
    assert read is not None
    return Hook(f"http://127.0.0.1:{port}{known}", read.secret(MASTER_KEY))


async def is_empty(redis: Redis) -> bool:
    return int(await redis.xlen(STREAM)) == 0
