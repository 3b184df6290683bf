"""Events, a GitHub that fails, all of us killed again and again: each task and comment once."""

import random
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from redis.asyncio import Redis
from support.courier_world import CourierWorld
from support.eventually import eventually
from support.fake_api import FakeApi
from support.fake_github import ME, broken, limited
from support.redis_server import RedisServer
from support.webhooks import commented, labeled, person

from orbiter_triggers.courier.comment_text import mark
from orbiter_triggers.naming import event_name

pytestmark = pytest.mark.integration
MANY = 40
ROUNDS = 40
FAULTS = (None, None, None, None, broken, lambda: limited(1))


@pytest.fixture
async def world(
    api: FakeApi, redis: Redis, redis_server: RedisServer, tmp_path: Path
) -> AsyncIterator[CourierWorld]:
    made = CourierWorld(api, redis, redis_server.url, tmp_path)
    await made.begin()
    yield made
    await made.end()


async def test_every_event_makes_its_task_and_every_task_its_comment_whoever_is_killed(
    world: CourierWorld,
) -> None:
    chance = random.Random(18)
    limits = {"successful": 1000, "failed": 1000}
    trigger = world.apply_github(
        filters={"labels": ["agent"]}, maxPerHour=1000, historyLimits=limits
    )
    await world.known()
    await world.polled(timedelta(minutes=1))

    def lost(method: str, path: str) -> web.StreamResponse | None:
        """What was written is written, and the answer says nothing of it."""
        return broken() if method != "GET" and chance.random() < 0.2 else None

    world.github.after = lost
    for number in range(1, MANY + 1):
        world.github.open_issue(number)
        world.github.label(number, "agent")
        times = 0 if chance.random() < 0.1 else 2 if chance.random() < 0.3 else 1
        for _ in range(times):
            await world.send("issues", labeled("agent", number=number))
        # Another program answers whatever is written.
        robot = commented(number, body="/agent") | {"sender": person("helper[bot]", "Bot")}
        await world.send("issue_comment", robot)
        world.github.comment(number, "/agent thanks", author="helper[bot]")
        if number % 15 == 0:
            await world.start()
    for round_ in range(ROUNDS):
        world.github.faults.extend(chance.choices(FAULTS, k=6))
        await world.polled(timedelta(minutes=10))
        await world.told(timedelta(seconds=30))
        await world.restart()
        if round_ % 20 == 10:
            await world.start()
    world.github.faults.clear()
    world.github.after = lambda method, path: None
    await eventually(world.is_empty, seconds=120.0)
    world.becomes(phase="Completed", result={"summary": "It was the cache."})
    await world.polled(timedelta(minutes=10))
    await world.told(timedelta(minutes=1))
    uid = trigger["metadata"]["uid"]
    wanted = {event_name("fixes", uid, f"number:{n}") for n in range(1, MANY + 1)}
    assert len(world.names()) == MANY
    assert set(world.names()) == wanted
    marks = [mark(task["metadata"]["uid"]) for task in world.tasks]
    ours = [one["body"] for one in world.github.comments if one["user"]["login"] == ME]
    assert sorted(text.partition("\n")[0] for text in ours) == sorted(marks)
    assert all("> It was the cache." in text for text in ours)
    assert world.github.most_at_once == 1
