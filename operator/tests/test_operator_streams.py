"""What the operator takes from a stream, and what is too large for it."""

import tracemalloc

import pytest
from redis.exceptions import ResponseError
from support.malformed import entry_of

from orbiter_contracts.bounds import MAX_ENTRY_BYTES
from orbiter_operator.streams.client import LARGEST_REPLY, blocking_client, redis_client
from orbiter_operator.streams.reader import read_entry, read_routes
from orbiter_operator.streams.tenants import Inboxes

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("fields", [1, 1000])
@pytest.mark.parametrize("beyond", [0, 1])
async def test_the_largest_entry_is_whole_and_one_byte_more_is_too_much(
    redis, redis_server, fields, beyond
):
    added = await redis.xadd("in", entry_of(MAX_ENTRY_BYTES + beyond, fields=fields))
    client = redis_client(redis_server.url)
    entry = await read_entry(client, "in", added)
    await client.aclose()
    assert (entry.size, entry.whole) == (MAX_ENTRY_BYTES + beyond, not beyond)


class One:
    """One stream, read as one of many."""

    def __init__(self, inboxes):
        self._inboxes = inboxes
        self.inbox = inboxes.of("in")
        self.held = self.inbox.held

    async def wait(self, count, block):
        read = self._inboxes.read(["in"], count, block)
        return [entry async for _, entries in read for entry in entries]


@pytest.fixture
async def inbox(redis, redis_server):
    await redis.xgroup_create("in", "group", id="0", mkstream=True)
    clients = redis_client(redis_server.url), blocking_client(redis_server.url)
    yield One(Inboxes(*clients, "group", "consumer"))
    for client in clients:
        await client.aclose()


async def _calls(redis) -> dict[str, int]:
    stats = await redis.info("commandstats")
    return {name.removeprefix("cmdstat_"): counts["calls"] for name, counts in stats.items()}


async def _read(inbox, count, entries):
    read = []
    while len(read) < entries:
        read += await inbox.wait(count, 1000)
    return read


async def test_small_entries_are_read_in_one_round_trip(redis, inbox):
    names = [await redis.xadd("in", {"data": f"number {n}"}) for n in range(5)]
    before = await _calls(redis)
    entries = await inbox.wait(10, 1000)
    after = await _calls(redis)
    assert [(entry.id, entry.fields) for entry in entries] == [
        (name, {"data": f"number {n}"}) for n, name in enumerate(names)
    ]
    assert all(entry.whole and entry.size == 64 + len("datanumber 0") for entry in entries)
    assert after["xreadgroup"] - before.get("xreadgroup", 0) == 1
    assert after.get("evalsha", 0) == before.get("evalsha", 0)


@pytest.mark.parametrize(
    "sizes",
    [
        [LARGEST_REPLY - 200],
        [LARGEST_REPLY + 1],
        [100, LARGEST_REPLY, 100],
        [LARGEST_REPLY // 4] * 9,
        [MAX_ENTRY_BYTES],
        [MAX_ENTRY_BYTES + 1],
        [20 * LARGEST_REPLY, 100, 20 * LARGEST_REPLY, 100],
        [100, MAX_ENTRY_BYTES, MAX_ENTRY_BYTES, MAX_ENTRY_BYTES, 100],
    ],
)
@pytest.mark.parametrize("count", [1, 2, 100])
async def test_entries_of_every_size_are_read_once_and_in_their_order(redis, inbox, sizes, count):
    names = [await redis.xadd("in", entry_of(size, fields=1)) for size in sizes]
    entries = await _read(inbox, count, len(names))
    assert [entry.id for entry in entries] == names
    assert [entry.size for entry in entries] == sizes
    assert [entry.whole for entry in entries] == [size <= MAX_ENTRY_BYTES for size in sizes]
    await redis.xadd("in", {"data": "next"})
    assert [entry.fields for entry in await inbox.wait(count, 1000)] == [{"data": "next"}]


async def test_many_fields_in_few_bytes_are_as_large_as_what_they_become(redis, inbox):
    fields = {str(n): "" for n in range(MAX_ENTRY_BYTES // 64)}
    await redis.xadd("in", fields)
    [entry] = await _read(inbox, 1, 1)
    assert not entry.whole
    assert entry.size > MAX_ENTRY_BYTES


async def test_a_routing_field_that_an_entry_repeats_is_brought_once(redis, redis_server):
    times = 50_000
    words = ["agenttask", "a/first"] * times + ["attempt", "7"] * times + ["agenttask", "a/last"]
    added = await redis.execute_command("XADD", "in", "*", *words)
    client = redis_client(redis_server.url)
    await read_routes(client, "in", "-", 1)  # the connection's own buffers
    tracemalloc.start()
    routes = await read_routes(client, "in", "-", 500)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await client.aclose()
    assert routes == [(added, {"agenttask": "a/last", "attempt": "7"})]
    assert most < 1024 * 1024


async def test_what_is_no_text_comes_back_as_it_was(redis, redis_server, inbox):
    await redis.xadd("in", {"data": b"\xff\xfe", b"\xfe": "x"})
    [entry] = await inbox.wait(1, 1000)
    assert entry.fields == {"data": "\udcff\udcfe", "\udcfe": "x"}
    assert entry.size == 2 * 64 + 8


async def test_an_error_of_redis_is_raised_and_the_connection_goes_on(redis, inbox):
    await redis.xgroup_destroy("in", "group")
    with pytest.raises(ResponseError, match="NOGROUP"):
        await inbox.wait(1, 1000)
    await redis.xgroup_create("in", "group", id="0")
    await redis.xadd("in", {"data": "x"})
    assert len(await inbox.wait(1, 1000)) == 1


async def test_an_interrupted_reading_of_large_entries_leaves_them_held(redis, inbox, monkeypatch):
    names = [await redis.xadd("in", entry_of(LARGEST_REPLY, fields=1)) for _ in range(3)]

    async def cut(*_, **__):
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(inbox.inbox, "held", cut)
        with pytest.raises(ConnectionError):
            await inbox.wait(10, 1000)
    assert [entry.id for entry in await inbox.held("0", 10)] == names
    await redis.xadd("in", {"data": "next"})
    assert [entry.fields for entry in await inbox.wait(10, 1000)] == [{"data": "next"}]


async def test_entries_that_are_deleted_meanwhile_are_passed_over(redis, inbox, monkeypatch):
    for _ in range(3):
        last = await redis.xadd("in", entry_of(LARGEST_REPLY, fields=1))
    read, held = [], inbox.held

    async def delete_first(after, count):
        await redis.xdel("in", last)
        await redis.xack("in", "group", last)
        return await held(after, count)

    monkeypatch.setattr(inbox.inbox, "held", delete_first)
    await redis.xadd("in", {"data": "next"})
    while {"data": "next"} not in read:
        read += [entry.fields for entry in await inbox.wait(100, 1000)]
    assert len(read) == 3
