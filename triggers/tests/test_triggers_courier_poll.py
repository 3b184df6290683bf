"""The poll, through the whole controller: what no webhook has told makes its task, and once."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from redis.asyncio import Redis
from support.courier_world import STREAM, CourierWorld
from support.eventually import eventually
from support.fake_api import FakeApi
from support.fake_github import broken, limited
from support.redis_server import RedisServer
from support.trigger_world import NAMESPACE
from support.webhooks import REPOSITORY, SHA, commented, labeled, pushed

from orbiter_triggers.courier.answers import MAX_ANSWER_BYTES
from orbiter_triggers.courier.poll_state import LOOKBACK, MOST_SEEN
from orbiter_triggers.naming import event_name

pytestmark = pytest.mark.integration
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def world(
    api: FakeApi, redis: Redis, redis_server: RedisServer, tmp_path: Path
) -> AsyncIterator[CourierWorld]:
    made = CourierWorld(api, redis, redis_server.url, tmp_path)
    await made.begin()
    yield made
    await made.end()


def named(world: CourierWorld, *keys: str) -> list[str]:
    uid = world.api.objects["agenttriggers"][NAMESPACE, "fixes"]["metadata"]["uid"]
    return sorted(event_name("fixes", uid, key) for key in keys)


async def begun(world: CourierWorld, **spec: object) -> None:
    """A trigger, which was polled once."""
    world.apply_github(**spec)
    await world.known()
    await world.polled(MINUTE)


async def test_what_no_webhook_has_told_makes_its_task(world: CourierWorld) -> None:
    await begun(world, filters={"labels": ["agent"]})
    world.github.open_issue(12, title="It is broken")
    world.github.label(12, "agent")
    world.github.open_issue(13)
    assert (await world.polled())["found"] == 1
    await world.until(lambda: world.names() == named(world, "number:12"))
    assert 'event="title">It is broken</data-' in world.prompts()[0]


async def test_what_a_webhook_has_told_makes_no_second_task(world: CourierWorld) -> None:
    await begun(world)
    await world.send("issues", labeled("agent", number=12))
    await world.until(world.is_empty)
    world.github.open_issue(12)
    world.github.label(12, "agent")
    assert await world.polled() == {"known": 2, "polled": 1}
    assert await world.is_empty()
    await world.send("issues", labeled("agent", number=12))
    await world.until(world.is_empty)
    assert len(world.tasks) == 1


async def test_both_at_once_make_one_task(world: CourierWorld) -> None:
    await begun(world)
    await world.stop()
    world.github.open_issue(12)
    await world.send("issues", labeled("agent", number=12))
    assert (await world.polled())["found"] == 1
    assert await world.redis.xlen(STREAM) == 2
    await world.start()
    await world.until(world.is_empty)
    assert world.names() == named(world, "number:12")


async def test_a_new_trigger_makes_nothing_of_what_was_before_it(world: CourierWorld) -> None:
    world.github.open_issue(11)
    world.github.label(11, "agent")
    world.later(MINUTE)
    await begun(world)
    world.github.comment(11, "/agent")
    assert await world.polled() == {"polled": 1}
    world.github.label(11, "again")
    assert (await world.polled())["found"] == 1


async def test_a_trigger_that_was_never_polled_reads_an_hour_back(world: CourierWorld) -> None:
    world.apply_github()
    await world.known()
    world.github.open_issue(11)
    world.later(LOOKBACK + MINUTE)
    world.github.open_issue(12)
    assert (await world.polled(MINUTE))["found"] == 1
    await world.until(lambda: world.names() == named(world, "number:12"))


async def test_comments_have_what_their_issue_says(world: CourierWorld) -> None:
    await begun(
        world,
        filters={"comment": "/agent", "labels": ["agent"]},
        taskTemplate={"spec": {"prompt": "${{event.title}} ${{event.comment}}"}},
    )
    world.github.open_issue(12, labels=("agent",))
    world.github.open_issue(13)
    comment = world.github.comment(12, "/agent look at this")
    world.github.comment(12, "thanks")
    world.github.comment(13, "/agent")
    world.github.comment(12, "/agent", author="stranger")
    world.github.comment(12, "<!-- orbiter:x -->\n/agent")
    world.github.open_issue(14)
    world.github.comment(14, "/agent", author="helper[bot]")
    assert (await world.polled())["found"] == 1
    # A bot that answers with that very word costs nothing of the hour's requests.
    assert world.github.requests[f"GET /repos/{REPOSITORY}/issues/14"] == 0
    key = f"comment:issue_comment:{comment['id']}"
    await world.until(lambda: world.names() == named(world, key))
    assert "/agent look at this" in world.prompts()[0]
    await world.send("issue_comment", commented(comment["id"]))
    await world.until(world.is_empty)
    assert len(world.tasks) == 1


async def test_more_than_it_remembers_is_not_read_again_and_again(world: CourierWorld) -> None:
    await begun(world, filters={"comment": "/agent", "labels": ["agent"]})
    world.github.open_issue(12)
    for number in range(MOST_SEEN + 500):
        world.github.now = world.now + timedelta(seconds=number / 20)
        world.github.comment(12, "/agent look at this")
    assert (await world.polled())["ignored"] == MOST_SEEN + 500
    world.github.comment(12, "/agent look at this")
    # And of the oldest second that it remembers a part.
    assert (await world.polled())["ignored"] <= 1 + 20


async def test_pushes_have_their_files_and_pull_requests_their_new_head(
    world: CourierWorld,
) -> None:
    await begun(
        world,
        filters={"events": ["push", "pull_request.synchronize"], "paths": ["src/*", ""]},
        taskTemplate={"spec": {"prompt": "${{event.paths}} ${{event.body}}"}},
    )
    world.github.push("main", "c" * 40, "docs/a.md")
    world.github.push("main", SHA, "src/a.py", "docs/a.md")
    assert (await world.polled())["found"] == 1
    await world.until(lambda: world.names() == named(world, f"commit:{SHA}"))
    assert "src/a.py\ndocs/a.md" in world.prompts()[0]
    await world.send("push", pushed("src/a.py"))
    await world.until(world.is_empty)
    assert len(world.tasks) == 1


async def test_of_several_pushes_to_a_pull_request_the_last_one_counts(
    world: CourierWorld,
) -> None:
    await begun(world, filters={"events": ["pull_request.synchronize"], "authors": "Anyone"})
    world.github.open_pull(7, branch="fix-basket")
    for sha in ("c" * 40, "d" * 40):
        world.github.push("fix-basket", sha)
    assert (await world.polled())["found"] == 1
    await world.until(lambda: world.names() == named(world, f"commit:{'d' * 40}"))


async def test_comments_on_a_diff_are_found(world: CourierWorld) -> None:
    await begun(world, filters={"comment": "/agent"})
    world.github.open_pull(7, branch="fix-basket")
    comment = world.github.review_comment(7, "/agent why")
    await world.polled()
    key = f"comment:pull_request_review_comment:{comment['id']}"
    await world.until(lambda: world.names() == named(world, key))


async def test_nothing_is_read_twice_while_nothing_happens(world: CourierWorld) -> None:
    await begun(world)
    await world.polled()
    world.github.requests.clear()
    await world.polled()
    asked = {name: number for name, number in world.github.requests.items() if name != "304"}
    assert world.github.requests["304"] == sum(asked.values()) == 3
    world.github.open_issue(12)
    assert (await world.polled())["found"] == 1
    assert (await world.polled()).get("found") is None


async def test_a_restart_goes_on_where_it_was_and_asks_nothing_anew(world: CourierWorld) -> None:
    await begun(world)
    world.github.requests.clear()
    await world.restart()
    assert await world.polled(MINUTE) == {}
    assert world.github.requests.total() == 0
    world.github.open_issue(12)
    assert (await world.polled())["found"] == 1


async def test_suspended_it_finds_nothing_and_makes_up_for_nothing(world: CourierWorld) -> None:
    await begun(world)
    world.apply_github(suspend=True)
    await world.polled()
    world.github.requests.clear()
    world.github.open_issue(11)
    await world.polled()
    assert world.github.requests.total() == 0
    world.apply_github(suspend=False)
    world.later(5 * MINUTE)
    assert (await world.polled(5 * MINUTE)).get("found") is None
    world.github.open_issue(12)
    assert (await world.polled())["found"] == 1
    await world.until(lambda: world.names() == named(world, "number:12"))


async def test_another_repository_begins_with_what_is_new_there(world: CourierWorld) -> None:
    await begun(world)
    world.repositories.add((NAMESPACE, "octo-org/other"))
    world.apply_github(source={"github": {"repository": "octo-org/other"}})
    await world.polled()
    world.github.open_issue(11)
    world.apply_github()
    assert (await world.polled()).get("found") is None


async def test_a_repository_that_is_not_the_namespaces_is_not_read(world: CourierWorld) -> None:
    world.repositories.clear()
    await begun(world)
    assert await world.polled() == {}
    assert world.github.requests.total() == 0


async def test_after_a_limit_it_waits_as_long_as_it_is_told(world: CourierWorld) -> None:
    await begun(world)
    world.github.open_issue(12)
    world.github.faults.append(lambda: limited(90))
    assert await world.polled() == {"later": 1}
    world.github.requests.clear()
    await world.polled(MINUTE)
    assert world.github.requests.total() == 0
    assert (await world.polled(MINUTE))["found"] == 1


async def test_failures_in_the_middle_lose_nothing_and_repeat_nothing(world: CourierWorld) -> None:
    await begun(world, maxPerHour=1000)
    for number in range(1, 31):
        world.github.open_pull(number, branch=f"b{number}")
    for _ in range(20):
        world.github.faults.extend([None] * 8 + [broken])
    while world.github.faults:
        await world.polled()
        await world.restart()
    await world.polled()
    await eventually(world.is_empty, seconds=60.0)
    assert world.names() == named(world, *(f"number:{number}" for number in range(1, 31)))


async def test_more_than_a_page_is_read_to_its_end(world: CourierWorld) -> None:
    await begun(world, maxPerHour=1000)
    for number in range(1, 121):
        world.github.open_issue(number)
    found = (await world.polled())["found"]
    while found < 120:  # a busy machine's Redis does not always answer in time
        found += (await world.polled())["found"]
    assert found == 120
    await eventually(world.is_empty, seconds=200.0)
    assert len(world.tasks) == 120


async def test_pages_that_are_too_large_are_asked_for_in_smaller_ones(world: CourierWorld) -> None:
    await begun(world)
    for number in range(1, 101):
        world.github.open_issue(number, body="é" * 40_000, author="stranger")
    world.github.open_issue(101)
    assert MAX_ANSWER_BYTES < 100 * 40_000 * 6
    assert (await world.polled())["found"] == 1


async def test_a_list_that_is_closed_to_it_keeps_it_from_no_other(world: CourierWorld) -> None:
    await begun(world, filters={"events": ["issues", "push"]})

    def closed(method: str, path: str) -> web.Response | None:
        if path.endswith("/activity"):
            said = {"message": "Resource not accessible by integration"}
            return web.json_response(said, status=403)
        return None

    world.github.after = closed
    world.github.open_issue(12)
    assert (await world.polled())["found"] == 1


async def test_what_is_gone_when_it_is_asked_for_is_left_out(world: CourierWorld) -> None:
    await begun(world)
    world.github.open_pull(7, branch="x")
    del world.github.pulls[7]
    world.github.open_issue(12)
    assert (await world.polled())["found"] == 1
    assert world.github.requests[f"GET /repos/{REPOSITORY}/pulls/7"] == 1
    await world.polled()
    assert world.github.requests[f"GET /repos/{REPOSITORY}/pulls/7"] == 1


@pytest.mark.parametrize(
    "nonsense",
    [
        [None, 1, "x", {}, {"id": 1}, {"id": {}, "created_at": []}],
        [{"id": 9, "created_at": "2026-11-30T05:31:30Z", "number": {}, "user": 7, "labels": 3}],
        {"message": "no list"},
        [{"id": 9, "created_at": "0001-01-01T00:00:00+23:59"}],
        [{"id": 9, "created_at": "9999-12-31T23:59:59-23:59"}],
        [{"id": 9, "created_at": "2026-11-30T05:31:30Z", "event": "labeled", "issue": []}],
        [{"id": 9, "created_at": "2026-11-30T05:31:30Z", "pull_request": {}, "number": "../x"}],
    ],
)
async def test_nothing_that_a_list_has_ends_it(world: CourierWorld, nonsense: object) -> None:
    await begun(world)
    world.github.faults.extend([lambda: web.json_response(nonsense)] * 2)
    world.github.open_issue(12)
    await world.polled()
    world.github.open_issue(13)
    assert (await world.polled())["found"] >= 1


async def test_state_that_is_none_is_as_if_there_was_none(world: CourierWorld) -> None:
    await begun(world)
    [key] = await world.redis.keys("*:poll")
    await world.redis.hset(key, mapping={"whole": "{", "issues": "[]"})  # type: ignore[misc]
    world.github.open_issue(12)
    assert (await world.polled())["found"] == 1


async def test_what_nobody_has_thought_of_ends_one_poll_and_no_other(
    world: CourierWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(world)
    world.apply_github("others")
    await world.known("others")
    read = world.poll._read_all

    async def fails(target: Any, *rest: Any) -> None:
        if target.key.name == "fixes":
            raise RuntimeError("nobody has thought of it")
        await read(target, *rest)

    monkeypatch.setattr(world.poll, "_read_all", fails)
    world.github.open_issue(12)
    assert (await world.polled()) == {"failed": 1, "found": 1, "polled": 1}
