"""Notifications on their way: a real Redis, real HTTP, and a courier that is killed in between."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from redis.asyncio import Redis
from support.fake_api import FakeApi, Object, RefusedRequestError
from support.notify_world import NAMESPACE, NOON, SECRET, NotifyWorld, Receiver
from support.redis_server import RedisServer

from orbiter_contracts.notify import read_sinks
from orbiter_contracts.queues import Keys, dead_letter
from orbiter_contracts.redis_users import courier_rules
from orbiter_contracts.webhook_signatures import is_signed_message
from orbiter_operator.streams.client import redis_client
from orbiter_triggers.courier.notify.models import Notification, Subject
from orbiter_triggers.courier.notify.outbox import (
    LETTERS_BYTES,
    MOST_WAITING_BYTES,
    Outbox,
)
from orbiter_triggers.courier.notify.retries import Verdict

pytestmark = pytest.mark.integration
SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
WAITING = Keys().notifications_waiting("orbiter", "courier")
ASKED = {"id": "r-1", "question": "Which?", "askedAt": "2026-11-29T11:30:00.000Z"}


@pytest.fixture
async def world(
    api: FakeApi, redis: Redis, redis_server: RedisServer
) -> AsyncIterator[NotifyWorld]:
    # With the rights that it has in an installation, and no others.
    rules = ("reset", "on", ">secret", *courier_rules())
    await redis.execute_command("ACL", "SETUSER", "courier", *rules)
    url = redis_server.url.replace("redis://", "redis://courier:secret@")
    made = NotifyWorld(api, redis, url)
    made.secret(secret=SECRET)
    await made.receiver.start()
    await made.start()
    yield made
    await made.stop()
    await made.receiver.stop()
    await redis.execute_command("ACL", "DELUSER", "courier")
    await redis.flushall()


async def test_a_receiver_is_told_of_the_end_with_a_signature_that_is_right(
    world: NotifyWorld,
) -> None:
    task = world.task()
    uid = task["metadata"]["uid"]
    world.ends()
    await world.until(lambda: world.counted == ["sent"])
    [(headers, body)] = world.receiver.got
    assert headers["content-type"].startswith("application/cloudevents+json")
    assert headers["webhook-id"] == json.loads(body)["id"] == f"{uid}.completed"
    assert headers["webhook-timestamp"] == str(int(NOON.timestamp()))
    signed = (SECRET, headers["webhook-id"], headers["webhook-timestamp"], body)
    assert is_signed_message(headers["webhook-signature"], *signed)
    assert await world.kept(task) == {f"{uid}.completed": "sent"}
    assert await world.redis.scard(WAITING) == 0
    assert 0 < await world.redis.ttl(Keys.of_namespace(NAMESPACE).notified(uid)) <= 3 * 86400


async def test_what_was_told_is_not_told_again_by_the_next_courier(world: NotifyWorld) -> None:
    world.ends()
    await world.until(lambda: world.counted == ["sent"])
    await world.start()
    world.ends("other", phase="Failed")
    await world.until(lambda: len(world.receiver.got) == 2)
    world.task("fix", message="seen once more", phase="Completed")
    world.ends("third")
    await world.until(lambda: len(world.receiver.got) == 3)
    assert world.receiver.types == ["fix completed", "other failed", "third completed"]


async def test_a_courier_that_is_killed_before_the_answer_sends_the_same_event_again(
    world: NotifyWorld,
) -> None:
    world.receiver.held = asyncio.Event()
    world.ends()
    await world.until(lambda: len(world.receiver.got) == 1)
    await world.stop()
    world.receiver.held.set()
    world.receiver.held = None
    # What is to be told outlives its object, too.
    world.api.remove("agenttasks", NAMESPACE, "fix")
    await world.start()
    await world.until(lambda: world.counted == ["sent"])
    ids = [headers["webhook-id"] for headers, _ in world.receiver.got]
    assert len(ids) == 2
    assert len(set(ids)) == 1


async def test_what_fails_is_tried_again_after_its_pause_and_what_follows_waits(
    world: NotifyWorld,
) -> None:
    world.receiver.says(503)
    world.task(phase="InputRequired", inputRequest=ASKED)
    await world.until(lambda: world.counted == ["retried"])
    world.ends()
    await world.until(lambda: world.notifier and len(world.notifier.outbox) == 2)
    world.at(NOON + 4 * SECOND)
    world.ends("other")
    await world.until(lambda: world.counted == ["retried", "sent"])
    world.receiver.says(429)
    world.at(NOON + 6 * SECOND)
    await world.until(lambda: world.counted[2:] == ["retried"])
    world.at(NOON + MINUTE)
    await world.until(lambda: world.counted[3:] == ["sent", "sent"])
    assert world.receiver.types == [
        "fix inputrequired",
        "other completed",
        "fix inputrequired",
        "fix inputrequired",
        "fix completed",
    ]


async def test_one_receiver_that_is_away_holds_no_other_up(world: NotifyWorld) -> None:
    away, well = world.receiver, Receiver()
    await well.start()
    away.says(*[500] * 3)
    world.ends("fix", world.sink(), world.sink(well))
    await world.until(lambda: sorted(world.counted) == ["retried", "sent"])
    assert well.types == ["fix completed"]
    await well.stop()


async def test_what_happened_earlier_and_is_seen_later_takes_nobodys_place(
    world: NotifyWorld,
) -> None:
    held = world.receiver.held = asyncio.Event()
    world.receiver.says(503)
    task = world.ends()
    await world.until(lambda: len(world.receiver.got) == 1)
    world.task(phase="InputRequired", inputRequest=ASKED)
    await world.until(lambda: world.notifier and len(world.notifier.outbox) == 2)
    held.set()
    await world.until(lambda: world.counted == ["retried", "sent"])
    world.at(NOON + MINUTE)
    await world.until(lambda: world.counted[2:] == ["sent"])
    assert world.receiver.types == ["fix completed", "fix inputrequired", "fix completed"]
    assert set((await world.kept(task)).values()) == {"sent"}


async def test_after_a_day_it_is_a_dead_letter_with_its_reason_and_an_event_says_so(
    world: NotifyWorld,
) -> None:
    await world.receiver.stop()
    task = world.ends("fix", world.sink())
    await world.until(lambda: world.counted == ["retried"])
    world.at(NOON + DAY - SECOND)
    await world.until(lambda: world.counted == ["retried", "dead"])
    await world.until(world.events)
    [letter] = await world.letters()
    assert letter["reason"].startswith("the connection failed (ClientConnectorError")
    assert letter["reason"].endswith("tried 2 times in a day")
    assert letter["object"] == "agenttasks/fix"
    assert json.loads(letter["data"])["id"] == letter["id"]
    [event] = world.events()
    assert event.startswith("NotificationFailed: Completed was not told to http://127.0.0.1")
    assert "hidden" not in event + str(letter)
    assert list((await world.kept(task)).values()) == ["dead"]
    assert await world.redis.scard(WAITING) == 0


@pytest.mark.parametrize(("status", "tries"), [(410, 1), (404, 5), (302, 5)])
async def test_what_a_receiver_refuses_ends_soon(
    world: NotifyWorld, status: int, tries: int
) -> None:
    elsewhere = Receiver()
    await elsewhere.start()
    world.receiver.says(*[status] * tries, Location=elsewhere.url)
    world.ends()
    for step in range(tries):
        await world.until(lambda step=step: len(world.counted) > step)
        world.at(world.now + 30 * MINUTE)
    assert world.counted == [*["retried"] * (tries - 1), "dead"]
    await world.until(world.letters)
    assert [one["reason"] for one in await world.letters()] == [f"the receiver answered {status}"]
    assert elsewhere.got == []
    await elsewhere.stop()


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (None, "there is no Secret orbiter-notify"),
        ({"other": "x"}, "Secret orbiter-notify has no key secret"),
        ({"secret": "s3cr3t"}, "Secret orbiter-notify, key secret: it has no signing key"),
    ],
)
async def test_a_secret_that_is_wrong_is_told_at_once_and_counts_when_it_is_mended(
    world: NotifyWorld, broken: dict[str, str] | None, words: str
) -> None:
    if broken is None:
        world.api.remove("secrets", NAMESPACE, "orbiter-notify")
    else:
        world.secret(**broken)
    world.ends()
    await world.until(world.events)
    [event] = world.events()
    assert event.startswith("NotificationDelayed: ")
    assert words in event
    assert "s3cr3t" not in event
    world.secret(secret=SECRET)
    world.at(NOON + MINUTE)
    await world.until(lambda: world.counted == ["retried", "sent"])


async def test_a_secret_that_may_not_be_read_is_named_with_the_value_of_the_chart(
    world: NotifyWorld,
) -> None:
    async def forbid(verb: str, plural: str, body: Object | None) -> None:
        if plural == "secrets":
            raise RefusedRequestError(403, "Forbidden", "no")

    world.api.before = forbid
    world.ends()
    await world.until(world.events)
    assert "triggers.courier.notify.secretNames" in world.events()[0]


async def test_an_address_from_a_secret_is_told_nobody(world: NotifyWorld) -> None:
    world.secret(secret=SECRET, url=world.receiver.url)
    named = {"urlFromSecret": {"name": "orbiter-notify"}, "secretRef": {"name": "orbiter-notify"}}
    world.receiver.says(410)
    world.ends("fix", named)
    await world.until(world.events)
    assert "the address in Secret orbiter-notify, key url" in world.events()[0]
    assert world.receiver.url not in str(world.events()) + str(await world.letters())


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://[::1]:{port}/"),
        *("http://2130706433:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "http://127.1:{port}/"),
    ],
)
async def test_an_address_that_is_not_public_is_connected_to_by_no_name(
    world: NotifyWorld, url: str
) -> None:
    world.private = ()
    await world.start()
    sink = {"url": url.format(port=world.receiver.port), "secretRef": {"name": "orbiter-notify"}}
    world.ends("fix", sink)
    await world.until(lambda: world.counted)
    assert world.counted == ["retried"]
    assert world.receiver.got == []


async def test_http_is_for_who_allows_it(world: NotifyWorld) -> None:
    world.allow_http = False
    await world.start()
    world.ends()
    await world.until(world.events)
    assert "allowHTTP" in world.events()[0]
    assert world.receiver.got == []


async def test_a_budget_that_is_near_its_limit_is_told_once_by_whichever_courier(
    world: NotifyWorld,
) -> None:
    world.task("fix", world.sink(events=["BudgetWarning"]))
    world.near_budget()
    await world.until(lambda: world.counted == ["sent"])
    await world.start()
    world.ends("other")
    await world.until(lambda: world.counted == ["sent", "sent"])
    assert world.receiver.types == ["month budgetwarning", "other completed"]


async def test_what_was_sent_while_redis_went_away_is_not_sent_again(
    world: NotifyWorld, redis_server: RedisServer
) -> None:
    held = world.receiver.held = asyncio.Event()
    task = world.ends()
    await world.until(lambda: len(world.receiver.got) == 1)
    redis_server.freeze()
    held.set()
    await world.until(lambda: world.counted == ["sent"])
    redis_server.thaw()

    async def written() -> bool:
        return list((await world.kept(task)).values()) == ["sent"]

    await world.until(written)
    assert len(world.receiver.got) == 1


async def test_large_events_of_one_namespace_fill_neither_memory_nor_redis(
    world: NotifyWorld,
) -> None:
    outbox = Outbox(world.redis, Keys().notifications_waiting("orbiter", "other"))
    subject = Subject(kind="AgentTask", plural="agenttasks", namespace="greedy", name="a", uid="0")
    one = Notification(
        identifier="0.completed",
        occasion="Completed",
        subject=subject,
        sink=read_sinks([world.sink()])[0],
        time=NOON,
        event="x" * 60_000,
        noted=NOON,
        due=NOON,
    )

    async def noted(number: int, namespace: str = "greedy") -> tuple[int, int]:
        named = {"namespace": namespace, "uid": str(number)}
        of_another = one.model_copy(update={"subject": subject.model_copy(update=named)})
        new, lost = await outbox.note([of_another])
        return len(new), len(lost)

    room = MOST_WAITING_BYTES // 60_000 + 1
    assert {await noted(number) for number in range(room)} == {(1, 0)}
    assert await noted(room) == (0, 1)
    assert await noted(room + 9, "other") == (1, 0)
    await outbox.load()
    assert await noted(room + 1) == (0, 1)
    foreign = one.model_copy(update={"subject": subject.model_copy(update={"uid": "9"})})
    async with world.redis.pipeline() as pipe:
        key = Keys.of_namespace("other").notified("9")
        pipe.hset(key, foreign.field, foreign.model_dump_json())
        pipe.sadd(Keys().notifications_waiting("orbiter", "other"), "other/9")
        await pipe.execute()
    waiting = len(outbox)
    await outbox.load()
    assert len(outbox) == waiting, "a namespace's hash told in the name of another"
    sent = outbox.head(outbox.lanes[0])
    assert sent is not None
    await outbox.settle(Verdict("sent", sent))
    assert await noted(room + 2) == (1, 0)


async def test_dead_letters_are_bounded_by_their_bytes_and_the_newest_stay(
    world: NotifyWorld, redis_server: RedisServer
) -> None:
    # As the courier: what it may not ask it cannot bound.
    courier = redis_client(redis_server.url.replace("redis://", "redis://courier:secret@"))
    outbox = Outbox(courier, Keys().notifications_waiting("orbiter", "other"))
    letters = dead_letter(Keys.of_namespace("greedy").notifications)
    for number in range(LETTERS_BYTES // 60_000 + 20):
        # Small ones first: what is measured by them alone hides the others.
        event = "x" * (60_000 if number > 20 else 1_000)
        one = notification(str(number), event)
        await outbox.note([one])
        await outbox.settle(Verdict("dead", one))
        assert await world.redis.memory_usage(letters, samples=0) < LETTERS_BYTES + 70_000
    [(_, newest)] = await world.redis.xrevrange(letters, count=1)
    assert newest["id"] == f"{number}.completed"
    assert await world.redis.xlen(letters) > 20
    await courier.aclose()


def notification(uid: str, event: str) -> Notification:
    """One that waits, of the namespace `greedy`."""
    sink = {"url": "https://example.org/hook", "secretRef": {"name": "orbiter-notify"}}
    return Notification(
        identifier=f"{uid}.completed",
        occasion="Completed",
        subject=Subject(
            kind="AgentTask", plural="agenttasks", namespace="greedy", name="a", uid=uid
        ),
        sink=read_sinks([sink])[0],
        time=NOON,
        event=event,
        noted=NOON,
        due=NOON,
    )
