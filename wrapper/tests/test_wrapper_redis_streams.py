"""A stream as one consumer of its group sees it."""

import pytest
from redis.asyncio import Redis
from support.malformed import entry_of
from support.redis_proxy import redis_proxy
from support.redis_server import RedisServer
from support.wrapper import connected

from orbiter_contracts.bounds import MAX_ENTRY_BYTES
from worker_wrapper.queue import streams
from worker_wrapper.queue.connection import RedisConnection, RedisUnavailableError
from worker_wrapper.queue.streams import Entry, InputStream

pytestmark = pytest.mark.integration


@pytest.fixture
async def stream(redis: Redis, connection: RedisConnection) -> InputStream:
    stream = InputStream(connection, "in", "group", "me")
    await stream.join()
    return stream


async def add(redis: Redis, **fields: str) -> str:
    entry: str = await redis.xadd("in", fields or {"data": "x"})
    return entry


async def read_by(redis: Redis, consumer: str, *, idle_seconds: float = 0) -> None:
    """Let another consumer be handed the next entry, so long ago."""
    ((_, ((entry, _),)),) = await redis.xreadgroup("group", consumer, {"in": ">"}, count=1)
    await redis.execute_command(
        *("XCLAIM", "in", "group", consumer, 0, entry, "IDLE", int(idle_seconds * 1000), "JUSTID")
    )


async def test_joining_twice_is_no_mistake(stream: InputStream, redis: Redis) -> None:
    await stream.join()
    assert len(await redis.xinfo_groups("in")) == 1


async def test_a_group_begins_at_the_streams_beginning(
    redis: Redis, connection: RedisConnection
) -> None:
    entry = await add(redis, data="early")
    stream = InputStream(connection, "in", "group", "me")
    await stream.join()
    assert await stream.next() == Entry(entry, {"data": "early"})


async def test_who_may_make_no_group_joins_the_one_that_is_there(
    redis: Redis, redis_server: RedisServer
) -> None:
    rules = ("reset", "on", ">x", "~*", "+@all", "-xgroup|create")
    await redis.execute_command("ACL", "SETUSER", "limited", *rules)
    try:
        async with connected(redis_server.url.replace("//", "//limited:x@")) as connection:
            stream = InputStream(connection, "in", "group", "me")
            with pytest.raises(RedisUnavailableError, match="lacks the group group of in"):
                await stream.join()
            await redis.xgroup_create("in", "group", "0", mkstream=True)
            await stream.join()
            entry = await add(redis)
            assert (await stream.next() or Entry("", {})).id == entry
    finally:
        await redis.acl_deluser("limited")


async def test_an_entry_that_comes_ends_the_waiting(stream: InputStream, redis: Redis) -> None:
    first = await add(redis)
    second = await add(redis)
    assert [(await stream.next() or Entry("", {})).id for _ in range(2)] == [first, second]


async def test_waiting_blocks_in_the_server_for_half_a_minute(
    redis: Redis, redis_server: RedisServer
) -> None:
    async with redis_proxy(redis_server.port) as proxy, connected(proxy.url) as connection:
        stream = InputStream(connection, "in", "group", "me")
        await stream.join()
        await add(redis)
        await stream.next()
    read = proxy.named("XREADGROUP")[-1]
    assert read[read.index("BLOCK") + 1] == "30000"


async def test_nothing_within_the_time_is_none(
    stream: InputStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "BLOCK_SECONDS", 0.01)
    assert await stream.next() is None


async def test_what_was_delivered_before_a_restart_comes_first_with_its_count(
    stream: InputStream, redis: Redis
) -> None:
    old = await add(redis, data="old")
    await read_by(redis, "me")
    new = await add(redis, data="new")
    assert await stream.next() == Entry(old, {"data": "old"}, deliveries=2)
    assert (await stream.next() or Entry("", {})).id == new


async def test_reading_what_is_ours_counts_only_the_entry_that_is_given_out(
    stream: InputStream, redis: Redis
) -> None:
    for _ in range(3):
        await add(redis)
        await read_by(redis, "me")
    await stream.next()
    counts = [
        entry["times_delivered"] for entry in await redis.xpending_range("in", "group", "-", "+", 9)
    ]
    assert counts == [2, 1, 1]


async def test_an_entry_of_ours_that_was_deleted_is_forgotten(
    stream: InputStream, redis: Redis
) -> None:
    await redis.xdel("in", await add(redis))
    gone = await add(redis)
    await read_by(redis, "me")
    await redis.xdel("in", gone)
    new = await add(redis)
    assert (await stream.next() or Entry("", {})).id == new
    assert [e["message_id"] for e in await redis.xpending_range("in", "group", "-", "+", 9)] == [
        new
    ]


async def test_on_a_new_connection_what_the_old_one_lost_comes_before_newer_entries(
    stream: InputStream, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "BLOCK_SECONDS", 0.01)
    assert await stream.next() is None
    lost = await add(redis, data="lost")
    newer = await add(redis, data="newer")
    await read_by(redis, "me")
    await redis.client_kill_filter(_type="normal", skipme=True)
    assert await stream.next() is None, "the wait was cut off"
    assert [(await stream.next() or Entry("", {})).id for _ in range(2)] == [lost, newer]


async def test_a_connection_cut_again_and_again_while_waiting_is_no_row_of_failures(
    stream: InputStream, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "BLOCK_SECONDS", 0.01)
    for _ in range(7):
        await redis.client_kill_filter(_type="normal", skipme=True)
        assert await stream.next() is None
    entry = await add(redis)
    assert (await stream.next() or Entry("", {})).id == entry


async def test_a_group_that_is_lost_is_made_again(stream: InputStream, redis: Redis) -> None:
    await redis.flushall()
    assert await stream.next() is None
    entry = await add(redis)
    assert (await stream.next() or Entry("", {})).id == entry


async def test_an_entry_can_be_claimed_before_anybody_was_handed_it(
    stream: InputStream, redis: Redis
) -> None:
    entry = await add(redis, data="mine")
    assert await stream.claim(entry) == Entry(entry, {"data": "mine"})
    (pending,) = await redis.xpending_range("in", "group", "-", "+", 9)
    assert pending["consumer"] == "me"


async def test_an_entry_can_be_claimed_from_another_consumer(
    stream: InputStream, redis: Redis
) -> None:
    entry = await add(redis)
    await read_by(redis, "other")
    assert (await stream.claim(entry) or Entry("", {})).id == entry


async def test_an_entry_that_is_gone_cannot_be_claimed(stream: InputStream, redis: Redis) -> None:
    entry = await add(redis)
    await redis.xdel("in", entry)
    assert await stream.claim(entry) is None


async def found(stream: InputStream) -> list[str]:
    return [entry.id async for entry in stream.abandoned()]


async def test_entries_idle_for_a_minute_are_abandoned(stream: InputStream, redis: Redis) -> None:
    entry = await add(redis)
    await add(redis)
    await read_by(redis, "dead", idle_seconds=61)
    await read_by(redis, "alive", idle_seconds=59)
    assert await found(stream) == [entry]


async def test_all_abandoned_entries_are_found_however_many(
    stream: InputStream, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_SCANNED", 2)
    entries = [await add(redis) for _ in range(5)]
    for _ in entries:
        await read_by(redis, "dead", idle_seconds=61)
    assert await found(stream) == entries


async def test_an_abandoned_entry_with_the_largest_id_is_found_and_ends_the_search(
    stream: InputStream, redis: Redis
) -> None:
    largest = "18446744073709551615-18446744073709551615"
    await redis.xadd("in", {"data": "x"}, id=largest)
    await read_by(redis, "other", idle_seconds=61)
    assert [entry.id async for entry in stream.abandoned()] == [largest]


async def test_an_abandoned_entry_that_was_deleted_is_forgotten(
    stream: InputStream, redis: Redis
) -> None:
    entry = await add(redis)
    await read_by(redis, "dead", idle_seconds=61)
    await redis.xdel("in", entry)
    assert await found(stream) == []
    assert (await redis.xpending("in", "group"))["pending"] == 0


async def test_only_one_of_two_takes_an_abandoned_entry_over(
    stream: InputStream, redis: Redis, connection: RedisConnection
) -> None:
    await add(redis)
    await read_by(redis, "dead", idle_seconds=61)
    rival = InputStream(connection, "in", "group", "rival")
    (entry,) = [entry async for entry in stream.abandoned()]
    taken = await rival.take_over(entry)
    assert taken is not None
    assert taken.deliveries == 2
    assert await stream.take_over(entry) is None


async def test_a_consumer_that_holds_nothing_leaves_the_group(
    stream: InputStream, redis: Redis
) -> None:
    await add(redis)
    entry = await stream.next()
    assert entry is not None
    await stream.leave()
    assert [c["name"] for c in await redis.xinfo_consumers("in", "group")] == ["me"]
    await redis.xack("in", "group", entry.id)
    await stream.leave()
    assert await redis.xinfo_consumers("in", "group") == []


@pytest.mark.parametrize("fields", [1, 1000])
@pytest.mark.parametrize("beyond", [0, 1])
async def test_the_largest_entry_is_whole_and_one_byte_more_is_too_much(
    stream: InputStream, redis: Redis, fields: int, beyond: int
) -> None:
    await redis.xadd("in", entry_of(MAX_ENTRY_BYTES + beyond, fields=fields))
    entry = await stream.next()
    assert entry is not None
    assert entry.whole is not bool(beyond)
