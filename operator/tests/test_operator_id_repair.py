"""Ids of entries that no clock has made: what they break is repaired, and nothing else suffers."""

from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError
from support.eventually import eventually
from support.observed import NOW

from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, OPERATOR_GROUP, PO_GROUP, dead_letter
from orbiter_operator.sessions.streams import Record, SessionQueues, entry_time, registry_key
from orbiter_operator.streams import retention
from orbiter_operator.streams.client import redis_client
from orbiter_operator.streams.reader import LAST_ID, Inbox, read_routes
from orbiter_operator.streams.retention import StreamRepair, shared

pytestmark = pytest.mark.integration
SHARED = shared(BARE)
FUTURE = "9999999999999-0"
RECORD = Record("u", "team", "alice", "team.alice", retain=False)
INPUT, OUTPUT = BARE.po_input("team.alice"), BARE.po_output("team.alice")
GROUPS = dict(zip(SHARED, (DEVELOPER_GROUP, OPERATOR_GROUP, OPERATOR_GROUP), strict=True))


@pytest.fixture
async def client(redis_server, redis):
    """The operator's own client, on an empty database."""
    made = redis_client(redis_server.url)
    yield made
    await made.aclose()


@pytest.fixture
def queues(client):
    return SessionQueues(client, registry_key("ns", "lease"))


async def newest(redis: Redis, stream: str) -> str:
    return str((await redis.xinfo_stream(stream))["last-generated-id"])


def sane(entry: str) -> bool:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    return int(entry.partition("-")[0]) < tomorrow.timestamp() * 1000


@pytest.mark.parametrize("stream", [INPUT, OUTPUT])
async def test_a_session_whose_ids_have_run_out_is_repaired_when_it_is_observed(
    queues, redis, stream
):
    await queues.observe(RECORD)
    await redis.xadd(stream, {"data": "x"}, id=LAST_ID)
    with pytest.raises(ResponseError):
        await redis.xadd(stream, {"data": "{}"})
    found = await queues.observe(RECORD)
    assert found.waiting == 0
    assert sane(found.last_message)
    assert sane(await redis.xadd(stream, {"data": "{}"}))
    [(_, letter)] = await redis.xrange(dead_letter(stream))
    assert letter["data"] == "x"
    assert "out of range" in letter["reason"]


async def test_what_else_waits_or_is_held_in_a_repaired_stream_stays_so(queues, redis):
    await queues.observe(RECORD)
    held = await redis.xadd(INPUT, {"data": "held"})
    await redis.xreadgroup(PO_GROUP, "w", {INPUT: ">"})
    unread = await redis.xadd(INPUT, {"data": "unread"})
    await redis.xadd(INPUT, {"data": "x"}, id=LAST_ID)
    found = await queues.observe(RECORD)
    assert (found.pending, found.undelivered) == (1, 1)
    pending = await redis.xpending_range(INPUT, PO_GROUP, "-", "+", 10)
    assert [item["message_id"] for item in pending] == [held]
    later = await redis.xadd(INPUT, {"data": "later"})
    [[_, read]] = await redis.xreadgroup(PO_GROUP, "w", {INPUT: ">"})
    assert [entry for entry, _ in read] == [unread, later]


async def test_a_message_with_the_last_id_that_a_worker_holds_is_repaired_too(queues, redis):
    await queues.observe(RECORD)
    await redis.xadd(INPUT, {"data": "x"}, id=LAST_ID)
    await redis.xreadgroup(PO_GROUP, "w", {INPUT: ">"})
    found = await queues.observe(RECORD)
    assert (found.pending, found.undelivered) == (0, 0)
    later = await redis.xadd(INPUT, {"data": "later"})
    [[_, read]] = await redis.xreadgroup(PO_GROUP, "w", {INPUT: ">"})
    assert [entry for entry, _ in read] == [later]


async def test_one_broken_stream_leaves_the_count_of_the_other_sessions_as_it_is(queues, redis):
    names = [f"team.s{number}" for number in range(100)]
    for name in names:
        await redis.xgroup_create(BARE.po_input(name), PO_GROUP, id="0", mkstream=True)
        await redis.xadd(BARE.po_input(name), {"data": "{}"})
    broken = BARE.po_input(names[7])
    await redis.xadd(broken, {"data": "x"}, id=LAST_ID)
    await redis.xreadgroup(PO_GROUP, "w", {broken: ">"})
    await redis.xdel(broken, LAST_ID)
    await redis.delete(BARE.po_input(names[8]))
    await redis.set(BARE.po_input(names[8]), "no stream")
    waiting = await queues.waiting([BARE.po_input(name) for name in names])
    others = [name for name in names if name not in (names[7], names[8])]
    assert {waiting[BARE.po_input(name)] for name in others} == {1}
    assert waiting[BARE.po_input(names[7])] == -1  # it has to be looked at, and that mends it
    assert waiting[BARE.po_input(names[8])] == -1


@pytest.mark.parametrize("stream", SHARED)
async def test_a_shared_stream_whose_ids_have_run_out_takes_entries_again(client, redis, stream):
    group, dead = GROUPS[stream], []
    await redis.xgroup_create(stream, group, id="0", mkstream=True)
    held = await redis.xadd(stream, {"data": "held"})
    await redis.xreadgroup(group, "c", {stream: ">"})
    await redis.xadd(stream, {"data": "x"}, id=LAST_ID)
    await redis.xadd(dead_letter(stream), {"data": "x"}, id=LAST_ID)
    await StreamRepair(client, dead.append).repair_shared()
    assert dead.count(stream) == 1
    later = await redis.xadd(stream, {"data": "later"})
    assert sane(later)
    [[_, read]] = await redis.xreadgroup(group, "c", {stream: ">"})
    assert [entry for entry, _ in read] == [later]
    assert [entry for entry, _ in await redis.xrange(stream)] == [held, later]
    [(_, letter)] = await redis.xrange(dead_letter(stream))
    assert "out of range" in letter["reason"]


async def test_entries_from_the_future_are_dealt_with_before_their_stream_is_repaired(
    client, redis
):
    await redis.xgroup_create(BARE.lifecycle, OPERATOR_GROUP, id="0", mkstream=True)
    await redis.xadd(BARE.lifecycle, {"data": "first"}, id=FUTURE)
    behind = await redis.xadd(BARE.lifecycle, {"data": "ours"})
    repair = StreamRepair(client)
    assert not await repair.repair(BARE.lifecycle)
    await redis.xreadgroup(OPERATOR_GROUP, "c", {BARE.lifecycle: ">"})
    assert not await repair.repair(BARE.lifecycle)
    await redis.xack(BARE.lifecycle, OPERATOR_GROUP, FUTURE, behind)
    assert await repair.repair(BARE.lifecycle)
    assert sane(await redis.xadd(BARE.lifecycle, {"data": "later"}))
    assert not await redis.exists(dead_letter(BARE.lifecycle))


async def test_thousands_of_entries_with_ids_out_of_range_are_repaired_at_once(client, redis):
    await redis.xgroup_create(BARE.developer_input, DEVELOPER_GROUP, id="0", mkstream=True)
    async with redis.pipeline(transaction=False) as pipe:
        for number in range(1, 1201):
            pipe.xadd(BARE.developer_input, {"data": "x"}, id=f"18446744073709551615-{number}")
        await pipe.execute()
    await redis.xreadgroup(DEVELOPER_GROUP, "c", {BARE.developer_input: ">"})
    await StreamRepair(client).repair_shared()
    assert await redis.xlen(BARE.developer_input) == 0
    assert (await redis.xpending(BARE.developer_input, DEVELOPER_GROUP))["pending"] == 0
    assert sane(await redis.xadd(BARE.developer_input, {"data": "later"}))


async def test_of_a_stream_too_long_for_one_step_the_newest_stay(client, redis, monkeypatch):
    monkeypatch.setattr(retention, "MOST_ENTRIES", 100, raising=False)
    stream, dead = BARE.developer_output, []
    await redis.xgroup_create(stream, OPERATOR_GROUP, id="0", mkstream=True)
    async with redis.pipeline(transaction=False) as pipe:
        for _ in range(1000):
            pipe.xadd(stream, {"data": "x"})
        added = await pipe.execute()
    await redis.xreadgroup(OPERATOR_GROUP, "c", {stream: ">"}, count=950)
    await redis.xack(stream, OPERATOR_GROUP, *added[:700])
    await redis.xadd(stream, {"data": "x"}, id=LAST_ID)
    await StreamRepair(client, dead.append).repair_shared()
    assert [entry for entry, _ in await redis.xrange(stream)] == added[900:]
    assert dead == [stream]
    held = await redis.xpending_range(stream, OPERATOR_GROUP, added[900], "+", 1000)
    assert [item["message_id"] for item in held] == added[900:950]
    [[_, read]] = await redis.xreadgroup(OPERATOR_GROUP, "c", {stream: ">"})
    assert [entry for entry, _ in read] == added[950:]


async def test_what_is_held_beyond_that_and_gone_is_no_load(client, redis, monkeypatch):
    monkeypatch.setattr(retention, "MOST_ENTRIES", 100, raising=False)
    stream = BARE.developer_output
    await redis.xgroup_create(stream, OPERATOR_GROUP, id="0", mkstream=True)
    added = [await redis.xadd(stream, {"data": "x"}) for _ in range(700)]
    await redis.xreadgroup(OPERATOR_GROUP, "c", {stream: ">"})
    await redis.xdel(stream, *added[:-1])
    await redis.xadd(stream, {"data": "x"}, id=LAST_ID)
    await redis.config_resetstat()
    await StreamRepair(client).repair_shared()
    assert (await redis.xpending(stream, OPERATOR_GROUP))["pending"] <= 100
    assert (await redis.info("commandstats"))["cmdstat_xclaim"]["calls"] <= 100
    assert [entry for entry, _ in await redis.xrange(stream)] == added[-1:]


async def test_a_stream_of_the_present_is_left_alone(client, redis):
    await redis.xgroup_create(BARE.developer_output, OPERATOR_GROUP, id="0", mkstream=True)
    entry = await redis.xadd(BARE.developer_output, {"data": "x"})
    await StreamRepair(client).repair_shared()
    assert await newest(redis, BARE.developer_output) == entry
    assert not await redis.exists(BARE.lifecycle)


async def test_what_is_held_is_read_once_also_with_the_last_id(client, redis):
    inbox = Inbox(client, BARE.lifecycle, OPERATOR_GROUP, "c")
    await redis.xgroup_create(BARE.lifecycle, OPERATOR_GROUP, id="0", mkstream=True)
    await redis.xadd(BARE.lifecycle, {"data": "x"}, id=LAST_ID)
    await redis.xreadgroup(OPERATOR_GROUP, "c", {BARE.lifecycle: ">"})
    held = await inbox.held("0", 10)
    assert [entry.id for entry in held] == [LAST_ID]
    assert await inbox.held(LAST_ID, 10) == []
    assert [entry for entry, _ in await read_routes(client, BARE.lifecycle, "-", 10)] == [LAST_ID]


@pytest.mark.parametrize(
    ("entry", "time"),
    [
        ("0-0", None),
        (f"{int(NOW.timestamp() * 1000)}-3", NOW),
        ("9007199254740993000-0", None),
        (LAST_ID, None),
        ("no id", None),
        ("", None),
    ],
)
def test_every_id_has_a_time_or_none(entry, time):
    assert entry_time(entry) == time


async def test_tasks_are_done_again_seconds_after_somebody_has_used_up_the_shared_ids(world):
    await world.start_operator()
    world.apply("before")
    await world.until("before", "Completed")
    for stream in SHARED:
        await world.redis.xadd(stream, {"data": "x"}, id=LAST_ID)

    async def repaired() -> bool:
        return all([sane(await newest(world.redis, stream)) for stream in SHARED])

    await eventually(repaired)
    world.apply("after")
    await world.until("after", "Completed")
