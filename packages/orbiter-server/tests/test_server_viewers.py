"""Many viewers of transcripts, and one who would like to have the whole server."""

from contextlib import AsyncExitStack

import pytest
from support.eventually import eventually
from support.redis_server import redis_server

from orbiter.server._internal import batches, sse, transcripts
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.redis_access import Access
from orbiter_contracts.transcript import TextEvent

from .test_server_transcripts import AT, PATH, launch, put_task, stream, writer

__all__ = ["launch", "redis_server", "writer"]


async def test_who_reads_slowly_is_given_little_at_a_time_and_nothing_is_lost():
    async def nowhere(namespace):
        raise RequestError(502, "no Redis")

    feed = transcripts._Feed(("team-a", stream()), Access("redis://127.0.0.1:1"), nowhere)
    for number in range(400):
        feed._keep(TextEvent(sequence=number, at=AT, attempt=1, text="x" * 1900))
    await feed.close()
    after, sizes, seen = 0, [], []
    while batch := feed.behind(after):
        after = batch[-1][0]
        sizes.append(sum(len(text) for _, text in batch))
        seen += [seq for seq, _ in batch]
    assert max(sizes) <= batches.MOST_AT_ONCE
    assert seen == list(range(1, 401))
    feed._keep(TextEvent(sequence=400, at=AT, attempt=1, text="x" * batches.MOST_AT_ONCE))
    assert [seq for seq, _ in feed.behind(400)] == [401], "what is too long alone goes alone"


async def statuses(server, stack, *attempts):
    """Open event streams, which stay open."""
    found = []
    for attempt in attempts:
        opened = server.http.stream("GET", PATH, params={"attempt": attempt})
        found.append((await stack.enter_async_context(opened)).status_code)
    return found


async def lets_in(server, attempt):
    async with AsyncExitStack() as stack:
        return await statuses(server, stack, attempt) == [200]


@pytest.mark.integration
async def test_one_person_keeps_nobody_else_from_looking(launch, api, reviews, writer, monkeypatch):
    monkeypatch.setattr(transcripts, "OF_A_PERSON", 2)
    put_task(api, attempts=5)
    reviews.give("bob", "get", "agenttasks/transcript", "team-a")
    ada, bob = await launch()
    async with AsyncExitStack() as stack:
        # those that have not begun can be waited for, too
        assert await statuses(ada, stack, 5, 6, 7, 6) == [200, 200, 429, 200]
        assert await statuses(bob, stack, 7) == [200]
    await eventually(lambda: lets_in(ada, 7))


@pytest.mark.integration
async def test_one_person_has_a_part_of_the_streams(launch, api, reviews, writer, monkeypatch):
    monkeypatch.setattr(sse, "FEW", 2)
    reviews.give("bob", "get", "agenttasks/transcript", "team-a")
    ada, bob = await launch(max_streams=5)
    async with AsyncExitStack() as stack:
        assert await statuses(ada, stack, 1, 1, 1) == [200, 200, 429]
        assert await statuses(bob, stack, 1) == [200]
    await eventually(lambda: lets_in(ada, 1))
