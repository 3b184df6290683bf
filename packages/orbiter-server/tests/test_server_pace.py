"""Who writes without an end is read no faster than a loop that others wait for can bear."""

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.redis_server import redis_server

from orbiter.server._internal import transcripts
from orbiter.server._internal.pace import A_SECOND, AT_FIRST, Pace
from orbiter.server._internal.redis_access import Access
from orbiter.server._internal.transcripts import Place, Transcripts

from .test_server_transcripts import stream, writer

__all__ = ["redis_server", "writer"]


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_all_that_is_there_is_read_at_once_and_then_so_much_a_second():
    clock = Clock()
    pace = Pace(clock)
    assert pace.after(AT_FIRST) == 0
    assert pace.after(A_SECOND) == 1
    assert pace.after(A_SECOND) == 2, "two read at the same time share the time"
    clock.now += 2
    assert pace.after(0) == 0
    clock.now += 1_000_000
    assert pace.after(AT_FIRST) == 0
    assert pace.after(1) > 0, "a long silence saves no more up"


@pytest.mark.integration
async def test_the_readers_of_a_namespace_have_one_pace(writer, redis_server, monkeypatch):
    sizes = []

    class Recorder:
        def after(self, size):
            sizes.append(size)
            return 0.0

    monkeypatch.setattr(transcripts, "Pace", Recorder)

    async def readers(namespace):
        return Access(redis_server.url, None, namespace)

    async def over():
        return False

    known = Transcripts(readers)
    for number in (1, 2):
        await writer.say("one", key=stream(number))
        found = known.follow(Place("team-a", stream(number)), 0, idle=1.0, over=over)
        assert await anext(found) == []
        assert await anext(found)
    redis = Redis.from_url(redis_server.url)
    held = [fields for at in (1, 2) for _, fields in await redis.xrange(stream(at))]
    await redis.aclose()
    wanted = sum(len(text) for fields in held for pair in fields.items() for text in pair)
    await eventually(lambda: sum(sizes) == wanted)
    assert len(known._paces) == 1
    await known.close()
