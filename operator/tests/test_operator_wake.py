"""Many sleeping sessions on a few connections: a message for one of them is noticed at once."""

import asyncio
import gc
import warnings

import pytest
from redis.exceptions import ResponseError
from support.eventually import eventually

from orbiter_contracts.queues import BARE
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.sessions.wake import Waker
from orbiter_operator.streams.client import blocking_client, redis_client

pytestmark = pytest.mark.integration


class Woken:
    """A waker that runs, and whom it has woken."""

    def __init__(self, server, shard_size):
        self.clients = [redis_client(server.url), blocking_client(server.url)]
        self.keys = []
        self.waker = Waker(
            redis=self.clients[0],
            reader=self.clients[1],
            woken=lambda key, entry: self.keys.append(key),
            shard_size=shard_size,
        )

    async def __aenter__(self):
        self._task = asyncio.create_task(self.waker.run())
        return self

    async def __aexit__(self, *_):
        await end([self._task])
        for client in self.clients:
            await client.aclose()

    async def hears(self, redis, key, after="0-0"):
        """Send a message and wait until its key is handed over."""
        await redis.xadd(BARE.po_input(key), {"data": "{}"})
        await eventually(lambda: key in self.keys)


@pytest.fixture
async def woken(redis_server, redis):
    async with Woken(redis_server, shard_size=10) as made:
        yield made


async def blocked(redis):
    """How many connections block now."""
    return int((await redis.info("clients"))["blocked_clients"])


async def test_a_message_wakes_its_session_and_no_other(woken, redis):
    for name in ("one", "two", "three"):
        woken.waker.watch(name, BARE.po_input(name), "0-0")
    await woken.hears(redis, "two")
    assert woken.keys == ["two"]
    await redis.xadd(BARE.po_input("two"), {"data": "{}"})
    await woken.hears(redis, "one")
    assert woken.keys == ["two", "one"]


async def test_an_end_that_is_told_twice_closes_the_connection(redis_server, redis):
    async with (
        redis_client(redis_server.url) as client,
        blocking_client(redis_server.url) as reader,
    ):
        waker = Waker(redis=client, reader=reader, woken=lambda key, entry: None, shard_size=10)
        waker.watch("one", "one", "0-0")
        (shard,) = waker._shards
        reading = asyncio.create_task(shard.read())
        await eventually(lambda: blocked(redis))
        for _ in range(3):
            reading.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([reading])
        del reading
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gc.collect()
        assert not [str(warning.message) for warning in caught]


async def test_a_session_is_watched_from_the_last_message_that_is_known(woken, redis):
    known = await redis.xadd(BARE.po_input("one"), {"data": "{}"})
    woken.waker.watch("one", BARE.po_input("one"), known)
    woken.waker.watch("two", BARE.po_input("two"), "0-0")
    await woken.hears(redis, "two")
    assert woken.keys == ["two"]


async def test_a_message_sent_before_it_is_watched_wakes_too(woken, redis):
    await redis.xadd(BARE.po_input("early"), {"data": "{}"})
    woken.waker.watch("early", BARE.po_input("early"), "0-0")
    await eventually(lambda: woken.keys == ["early"])


async def test_a_session_added_to_a_blocked_connection_is_picked_up(woken, redis):
    woken.waker.watch("first", BARE.po_input("first"), "0-0")

    async def is_blocked():
        return await blocked(redis) == 1

    await eventually(is_blocked)
    woken.waker.watch("second", BARE.po_input("second"), "0-0")
    await woken.hears(redis, "second")


async def test_a_session_that_is_not_watched_any_more_is_left_alone(woken, redis):
    woken.waker.watch("gone", BARE.po_input("gone"), "0-0")
    woken.waker.watch("stays", BARE.po_input("stays"), "0-0")
    woken.waker.unwatch("gone")
    await redis.xadd(BARE.po_input("gone"), {"data": "{}"})
    await woken.hears(redis, "stays")
    assert woken.keys == ["stays"]


async def test_hundreds_share_a_few_connections(woken, redis):
    names = [f"s-{n}" for n in range(100)]
    for name in names:
        woken.waker.watch(name, BARE.po_input(name), "0-0")

    async def all_block():
        return await blocked(redis) == 10

    await eventually(all_block)
    for name in names:
        await redis.xadd(BARE.po_input(name), {"data": "{}"})
    await eventually(lambda: sorted(woken.keys) == sorted(names))
    assert len(woken.waker) == 0


async def test_a_lost_connection_is_made_anew(woken, redis):
    woken.waker.watch("one", BARE.po_input("one"), "0-0")

    async def is_blocked():
        return await blocked(redis) == 1

    await eventually(is_blocked)
    await redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await woken.hears(redis, "one")


async def test_a_message_of_any_size_wakes_its_session_without_being_read(woken, redis):
    woken.waker.watch("one", BARE.po_input("one"), "0-0")
    await redis.xadd(
        BARE.po_input("one"), {"data": "x" * 20_000_000} | {f"f{n}": "" for n in range(999)}
    )
    await eventually(lambda: woken.keys == ["one"])
    found = await woken.clients[1].xread({BARE.po_input("one"): "0-0"})
    ((stream, ((entry, fields),)),) = found
    assert (stream, fields) == (BARE.po_input("one"), {})
    assert entry == (await redis.xrevrange(BARE.po_input("one"), count=1))[0][0]
    with pytest.raises(ResponseError, match="wrong number of arguments"):
        await woken.clients[1].execute_command("XREAD")
    assert await woken.clients[1].ping()
