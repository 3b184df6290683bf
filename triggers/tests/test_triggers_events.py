"""Events through the whole controller, with a real Redis: one task for each key."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.fake_api import FakeApi, Object, RefusedRequestError
from support.redis_server import RedisServer
from support.trigger_world import NAMESPACE, SIX, TriggerWorld
from support.webhooks import MASTER_KEY, commented, github_request, labeled, pushed

from orbiter_contracts.queues import TRIGGERS_GROUP, Keys, dead_letter
from orbiter_contracts.redis_users import receiver_rules, triggers_rules
from orbiter_contracts.webhook_signatures import Hook
from orbiter_operator.streams.client import redis_client
from orbiter_triggers.controller.events import REMEMBERED_SECONDS
from orbiter_triggers.event_stream import EventStream
from orbiter_triggers.events.requests import read_event
from orbiter_triggers.naming import event_digest, event_name

pytestmark = pytest.mark.integration
HOUR = timedelta(hours=1)
KEYS = Keys.of_namespace(NAMESPACE)
STREAM = KEYS.trigger_events


class EventWorld(TriggerWorld):
    """The same with a Redis, into which events come as the receiver puts them."""

    def __init__(self, api: FakeApi, redis: Redis, url: str, receivers_url: str) -> None:
        super().__init__(api, url)
        self.redis = redis
        self.door = redis_client(receivers_url)

    def hook(self, name: str = "fixes") -> Hook:
        found = self.api.get("agenttriggers", NAMESPACE, name)
        assert found is not None
        return Hook(NAMESPACE, name, "github", found["metadata"]["uid"])

    async def send(
        self, event: str, body: Object, *, hook: Hook | None = None, delivery: str = "", **more: str
    ) -> None:
        to = hook or self.hook()
        headers, raw = github_request(to, event, body, delivery=delivery)
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        secrets = [to.secret(MASTER_KEY)]
        read = read_event(to, headers.items(), raw, secrets, self.now.timestamp())
        await EventStream(self.door).add(NAMESPACE, read)

    def names(self) -> list[str]:
        return [task["metadata"]["name"] for task in self.tasks]

    async def is_empty(self) -> bool:
        """Nothing is left to decide."""
        return int(await self.redis.xlen(STREAM)) == 0

    def message(self, index: int = 0) -> str:
        return str(self.status("fixes")["lastEvents"][index].get("message", ""))

    async def letters(self) -> list[str]:
        found = await self.redis.xrange(dead_letter(STREAM))
        return [fields["reason"] for _, fields in found]


@pytest.fixture
async def world(api: FakeApi, redis: Redis, redis_server: RedisServer) -> AsyncIterator[EventWorld]:
    urls = []
    # With the rights that they have in an installation, and no others.
    for user, rules in (("triggers", triggers_rules()), ("receiver", receiver_rules())):
        await redis.execute_command("ACL", "SETUSER", user, "reset", "on", ">secret", *rules)
        urls.append(redis_server.url.replace("redis://", f"redis://{user}:secret@"))
    made = EventWorld(api, redis, *urls)
    await made.start()
    yield made
    await made.stop()
    await made.door.aclose()
    await redis.execute_command("ACL", "DELUSER", "triggers", "receiver")


async def known(world: EventWorld, name: str = "fixes") -> None:
    await world.until(lambda: world.status(name).get("observedGeneration") is not None)


def outcomes(world: EventWorld) -> list[str]:
    return world.outcomes("fixes")


async def test_an_event_makes_a_task_with_its_words_between_marks(world: EventWorld) -> None:
    trigger = world.apply_github()
    await known(world)
    await world.send("issues", labeled("agent"), delivery="d-1")
    await world.until(lambda: outcomes(world) == ["Fired"])
    [task] = world.tasks
    uid = trigger["metadata"]["uid"]
    assert task["metadata"]["name"] == event_name("fixes", uid, "number:12")
    assert 'event="title">The basket forgets its items</data-' in task["spec"]["prompt"]
    note = world.status("fixes")["lastEvents"][0]
    assert (note["event"], note["task"]) == ("issues.labeled 12 (d-1)", world.names()[0])
    await world.until(world.is_empty)
    memory = KEYS.trigger_memory(uid, event_digest(uid, "number:12"))
    assert 0 < await world.redis.ttl(memory) <= REMEMBERED_SECONDS


async def test_the_address_and_the_secret_are_published(world: EventWorld) -> None:
    world.apply_github()
    await known(world)
    hook = world.hook()
    assert world.status("fixes")["webhookPath"] == hook.path
    secret = world.api.get("secrets", NAMESPACE, "orbiter-webhooks")
    assert secret is not None
    told = {name: b64decode(text).decode() for name, text in secret["data"].items()}
    assert told == {
        "fixes.secret": hook.secret(MASTER_KEY),
        "fixes.url": f"https://hooks.example.com{hook.path}",
    }


async def test_the_same_three_times_makes_one_task(world: EventWorld) -> None:
    world.apply_github()
    await known(world)
    for _ in range(3):
        await world.send("issues", labeled("agent"), delivery="d-1")
    await world.until(world.is_empty)
    assert len(world.tasks) == 1
    await world.send("issues", labeled("other"), delivery="d-2")
    await world.until(lambda: outcomes(world)[0] == "Duplicate")
    assert len(world.tasks) == 1
    assert world.status("fixes")["lastEvents"][0]["task"] == world.names()[0]


async def test_what_has_made_a_task_is_remembered_when_that_is_gone(world: EventWorld) -> None:
    world.apply_github()
    await known(world)
    await world.send("issues", labeled("agent"))
    await world.until(world.is_empty)
    world.api.remove("agenttasks", NAMESPACE, world.names()[0])
    await world.start()
    await world.send("issues", labeled("agent"), delivery="later")
    await world.until(lambda: outcomes(world)[0] == "Duplicate")
    assert world.tasks == []


@pytest.mark.parametrize("point", ["create", "patch", "settle"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_between_any_two_writes_makes_no_second_task_and_loses_none(
    world: EventWorld, point: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.apply_github(filters={"authors": "Anyone"})
    await known(world)
    crashed = asyncio.Event()

    def die() -> None:
        if not crashed.is_set():
            crashed.set()
            world.kill_soon()

    async def crash(asked: str, plural: str, body: Object | None) -> None:
        if not crashed.is_set() and asked == point and plural in ("agenttasks", "agenttriggers"):
            die()
            if when == "before":
                raise RefusedRequestError(503, "ServiceUnavailable", "it is going down")

    if point == "settle":
        assert world.triggers is not None
        events = world.triggers.events
        assert events is not None
        settle = events.settle

        async def dies(*args: Any) -> None:
            if not args[2]:
                return
            if when == "after":
                await settle(*args)
            die()
            await asyncio.sleep(0)

        monkeypatch.setattr(events, "settle", dies)
    else:
        setattr(world.api, when, crash)
    await world.send("issues", labeled("agent"))
    await world.send("issues", labeled("agent"))
    await asyncio.wait_for(crashed.wait(), 20)
    await world.send("issues", labeled("agent"))
    await world.start()
    await world.until(world.is_empty)
    assert len(world.tasks) == 1
    await world.until(lambda: "Fired" in outcomes(world))
    assert await world.letters() == []


async def test_what_no_filter_lets_pass_is_told_with_why(world: EventWorld) -> None:
    world.apply_github(filters={"comment": "/agent"})
    await known(world)
    await world.send("issue_comment", commented(body="thanks"))
    await world.until(lambda: outcomes(world) == ["Ignored"])
    assert world.message() == "no line of a comment begins with /agent"
    await world.send("issue_comment", commented(author_association="NONE"))
    await world.until(lambda: "may write to the repository" in world.message())
    await world.send("issue_comment", commented(7))
    await world.until(lambda: outcomes(world)[0] == "Fired")
    assert len(world.tasks) == 1


async def test_a_bot_that_answers_and_our_own_comment_start_nothing(world: EventWorld) -> None:
    world.apply_github(filters={"comment": "/agent", "authors": "Anyone"})
    await known(world)
    bot = {"login": "helper[bot]", "type": "Bot"}
    await world.send("issue_comment", commented(1) | {"sender": bot})
    await world.send("issue_comment", commented(2, body="<!-- orbiter:x -->\n/agent"))
    await world.until(lambda: outcomes(world) == ["Ignored", "Ignored"])
    assert world.tasks == []


async def test_a_push_of_its_own_task_starts_nothing(world: EventWorld) -> None:
    git = {"url": "https://git.example.com/shop.git", "branch": "fix-${{event.number}}"}
    spec = {"prompt": "Fix it.", "workspace": {"git": git | {"push": "Always"}}}
    world.apply_github(taskTemplate={"spec": spec})
    await known(world)
    await world.send("issues", labeled("agent"))
    await world.until(lambda: outcomes(world) == ["Fired"])
    await world.send("push", pushed("a", branch="fix-12"))
    await world.until(lambda: outcomes(world)[0] == "Ignored")
    assert f"AgentTask {world.names()[0]} pushes to its branch" in world.message()


async def test_beyond_the_limit_events_wait_for_room_and_none_is_lost(world: EventWorld) -> None:
    world.apply_github(maxPerHour=2)
    await known(world)
    for number in range(5):
        await world.send("issues", labeled("agent", number=number))
        await world.send("issues", labeled("agent", number=number))
    await world.until(lambda: world.status("fixes").get("waitingEvents") == 6)
    assert len(world.tasks) == 2
    await world.send("issues", labeled("agent") | {"action": "closed"})
    await world.until(lambda: outcomes(world)[0] == "Ignored")
    await world.start()
    for hours, tasks in ((1, 4), (2, 5)):
        world.at(SIX + hours * HOUR)
        await world.until(lambda tasks=tasks: len(world.tasks) == tasks)
    await world.until(world.is_empty)
    assert "waitingEvents" not in world.status("fixes")


async def test_with_drop_what_is_beyond_the_limit_is_told_and_gone(world: EventWorld) -> None:
    world.apply_github(maxPerHour=1, whenFull="Drop")
    await known(world)
    await world.send("issues", labeled("agent", number=1))
    await world.until(lambda: outcomes(world) == ["Fired"])
    await world.send("issues", labeled("agent", number=2))
    await world.until(lambda: outcomes(world)[0] == "Dropped")
    await world.until(world.is_empty)
    assert len(world.tasks) == 1


async def test_suspended_it_makes_nothing_and_makes_up_for_nothing(world: EventWorld) -> None:
    world.apply_github(suspend=True)
    await known(world)
    await world.send("issues", labeled("agent"))
    await world.until(lambda: outcomes(world) == ["Suspended"])
    await world.until(world.is_empty)
    assert world.tasks == []


async def test_a_spec_that_cannot_work_keeps_its_events_until_it_can(world: EventWorld) -> None:
    world.apply_github(taskTemplate={"spec": {"prompt": "${{event.nothing}}"}})
    await known(world)
    await world.send("issues", labeled("agent"))
    await world.until(lambda: outcomes(world) == ["Waiting"])
    world.apply_github()
    await world.until(lambda: len(world.tasks) == 1)


async def test_a_task_that_is_refused_is_a_dead_letter_with_the_reason(world: EventWorld) -> None:
    world.apply_github()
    await known(world)

    async def refuses(verb: str, plural: str, body: Object | None) -> None:
        if verb == "create" and plural == "agenttasks":
            raise RefusedRequestError(422, "Invalid", "spec.agent.type: unknown agent type")

    world.api.before = refuses
    await world.send("issues", labeled("agent"))
    await world.until(lambda: outcomes(world) == ["Refused"])
    await world.until(world.is_empty)
    [letter] = await world.letters()
    assert "unknown agent type" in letter
    world.api.before = world.api.after
    await world.send("issues", labeled("agent"))
    await world.until(lambda: len(world.tasks) == 1)


async def test_a_test_makes_no_task_and_says_what_would_have_come(world: EventWorld) -> None:
    world.apply_github()
    await known(world)
    await world.send("issues", labeled("agent"), x_orbiter_test="true")
    await world.until(lambda: outcomes(world) == ["Ignored"])
    assert world.message().startswith("a test: it would make AgentTask fixes-")
    assert world.tasks == []


async def test_entries_of_no_use_are_dead_letters_and_stop_no_other(world: EventWorld) -> None:
    world.apply_github()
    await known(world)
    await world.redis.xadd(STREAM, {"data": "{"})
    await world.redis.xadd(STREAM, {"other": "x" * 100})
    await world.send("issues", labeled("agent"), hook=world.hook()._replace(uid="gone"))
    await world.send("issues", labeled("agent"))
    await world.until(lambda: len(world.tasks) == 1)
    await world.until(world.is_empty)
    letters = await world.letters()
    assert len(letters) == 3
    assert "is not there any more" in letters[2]


async def test_events_of_a_trigger_that_is_deleted_go_with_it(world: EventWorld) -> None:
    world.apply_github(maxPerHour=1)
    await known(world)
    for number in range(3):
        await world.send("issues", labeled("agent", number=number))
    await world.until(lambda: world.status("fixes").get("waitingEvents") == 2)
    world.api.remove("agenttriggers", NAMESPACE, "fixes")
    await world.until(world.is_empty)
    assert len(await world.letters()) == 2


async def test_a_redis_that_has_lost_everything_is_read_again(world: EventWorld) -> None:
    world.apply_github()
    await known(world)
    await world.redis.flushdb()
    await world.send("issues", labeled("agent"))
    await world.until(lambda: len(world.tasks) == 1)


async def test_a_hundred_events_of_which_every_third_comes_twice(world: EventWorld) -> None:
    world.apply_github(maxPerHour=1000)
    await known(world)
    for number in range(100):
        await world.send("issues", labeled("agent", number=number))
        if number % 3 == 0:
            await world.send("issues", labeled("agent", number=number), delivery="again")
        if number % 20 == 10:
            await world.start()
    await eventually(world.is_empty, seconds=200.0)
    assert len(set(world.names())) == len(world.tasks) == 100
    pending = await world.redis.xpending(STREAM, TRIGGERS_GROUP)
    assert pending["pending"] == 0
