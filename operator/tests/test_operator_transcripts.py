"""Transcripts give way to everything: a tenth of Redis at most, the oldest first; on a real one."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError
from structlog.testing import capture_logs
from support.redis_server import login

from orbiter_contracts.queues import BARE, Keys
from orbiter_contracts.scripts import PUBLISH_ATTEMPT
from orbiter_contracts.transcript import TRANSCRIPT_BYTES, TRANSCRIPT_SECONDS
from orbiter_contracts.transcript_reading import TranscriptReader, read_entry
from orbiter_contracts.transcript_scripts import APPEND_TRANSCRIPT
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.settings import Settings
from orbiter_operator.streams.transcripts import Held, Transcripts, in_the_way

TEAM = Keys.of_namespace("team-a")
EVENT = '{"sequence":%d,"at":"2026-01-10T12:00:00Z","attempt":1,"type":"text","text":"' + "x" * 4000


def held(name: str, size: int, left: int, entries: int = 5) -> Held:
    return Held(f"agenttask:{name}:1:transcript", size, left, entries)


OLD, MIDDLE, NEW = held("a", 40, 100), held("b", 40, 200), held("c", 40, -1)
THREE = [NEW, OLD, MIDDLE]


@pytest.mark.parametrize(
    ("most", "excess", "chosen"),
    [
        (0, 0, []),
        (120, 0, []),
        (119, 0, [OLD]),
        (80, 0, [OLD, MIDDLE]),
        (10, 0, [OLD, MIDDLE, NEW]),
        (0, 1, [OLD]),
        (120, 41, [OLD, MIDDLE]),
        (0, 10_000, [OLD, MIDDLE, NEW]),
    ],
)
def test_the_oldest_give_way_first(most: int, excess: int, chosen: list[Held]) -> None:
    assert in_the_way(THREE, most, 0, excess) == chosen


def test_who_has_most_of_them_does_not_drive_out_those_of_others() -> None:
    many = [Held(TEAM.task_transcript(str(n), 1), 40, 500 + n, 5) for n in range(10)]
    chosen = in_the_way([*THREE, *many], 0, 100)
    assert chosen == many[:8]
    assert in_the_way([*THREE, *many], 0, 400) == []


def test_one_of_which_nothing_is_left_is_in_nobodys_way() -> None:
    assert in_the_way([held("a", 40, 5, entries=0), NEW], 10, 0) == [NEW]


@pytest.fixture
async def redis(own_redis_server) -> AsyncIterator[Redis]:
    async with login(own_redis_server.url) as redis:
        await redis.flushall()
        yield redis
        await redis.config_set("maxmemory", 0)


async def fill(redis: Redis, key: str, entries: int = 60) -> None:
    """Write a transcript of some 4 KiB each entry."""
    for sequence in range(entries):
        data = f"[{EVENT % sequence}" + '"}]'
        await redis.eval(APPEND_TRANSCRIPT, 1, key, data, sequence, 1, 0, "")


async def sizes(redis: Redis) -> dict[str, int]:
    keys = [key for key in await redis.keys() if key.endswith(":transcript")]
    return {key: await redis.memory_usage(key, samples=0) for key in sorted(keys)}


@pytest.mark.integration
async def test_all_together_have_a_tenth_of_redis_and_who_reads_is_told_of_the_cut(redis):
    transcripts = Transcripts(redis, Settings(redis_quota_bytes=0))
    keys = [BARE.task_transcript(f"task-{n}", 1) for n in range(8)]
    for age, key in enumerate(keys):
        await fill(redis, key)
        await redis.expire(key, 10_000 + age)
    await redis.config_set("maxmemory", 12 * 1024 * 1024)
    assert sum((await sizes(redis)).values()) > 1.2 * 1024 * 1024
    assert await transcripts.check() > 0
    assert sum((await sizes(redis)).values()) <= 1.2 * 1024 * 1024
    assert await redis.xlen(keys[0]) == 1
    assert await redis.xlen(keys[-1]) == 60
    (entry,) = [read_entry(fields) for _, fields in await redis.xrange(keys[0])]
    cut, last = TranscriptReader().take(entry)
    assert (cut.type, cut.events, last.sequence) == ("cut", 59, 59)
    assert await transcripts.check() == 0


@pytest.mark.integration
async def test_where_redis_is_nearly_full_they_go_and_an_outcome_is_published(redis):
    transcripts = Transcripts(redis, Settings(redis_quota_bytes=0))
    for count in range(4):
        await fill(redis, BARE.task_transcript(f"task-{count}", 1))
    used = int((await redis.info("memory"))["used_memory"])
    await redis.config_set("maxmemory", used - 1024)
    publish = (
        *(PUBLISH_ATTEMPT, 4, BARE.attempt_record("u", 1), BARE.developer_input),
        *(BARE.developer_output, BARE.lifecycle, 60, "1-1", "g", "{}", "{}", "team/t", 1),
    )
    with pytest.raises(OutOfMemoryError):
        await redis.eval(*publish)
    while await transcripts.check():
        pass
    assert await redis.eval(*publish)


@pytest.mark.integration
async def test_those_of_a_namespace_have_a_tenth_of_its_quota(redis):
    quota = 10 * 3 * TRANSCRIPT_BYTES
    for count in range(5):
        await fill(redis, TEAM.po_transcript(f"session-{count}"))
    await fill(redis, BARE.task_transcript("another", 1))
    assert await Transcripts(redis, Settings(redis_quota_bytes=quota)).check() == 3
    assert await redis.xlen(BARE.task_transcript("another", 1)) == 60


@pytest.mark.integration
async def test_each_lapses_seven_days_after_it_has_last_grown(redis):
    transcripts, key = Transcripts(redis, Settings()), BARE.task_transcript("u", 1)
    await fill(redis, key, 1)
    assert await redis.ttl(key) == -1
    await transcripts.check()
    assert TRANSCRIPT_SECONDS - 60 < await redis.ttl(key) <= TRANSCRIPT_SECONDS
    await redis.expire(key, 1000)
    await transcripts.check()
    assert await redis.ttl(key) <= 1000
    await redis.eval(APPEND_TRANSCRIPT, 1, key, "[]", 1, 1, 0, "")
    await transcripts.check()
    assert await redis.ttl(key) > 1000


@pytest.mark.integration
async def test_names_without_end_and_transcripts_without_entries_are_not_held(redis):
    """A worker may append to any attempt's of its namespace, and choose what that is called."""
    empty, long = TEAM.task_transcript("u", 1), TEAM.task_transcript("x" * 100_000, 1)
    await redis.xadd(empty, {"a": "b"}, maxlen=0, approximate=False)
    for key in (long, TEAM.task_transcript("v", 1)):
        await fill(redis, key, 1)
    transcripts = Transcripts(redis, Settings())
    found = [one.key async for page in transcripts._pages() for one in page]
    assert found == [TEAM.task_transcript("v", 1)]
    for key in (empty, long):
        assert 0 < await redis.ttl(key) <= TRANSCRIPT_SECONDS
    await redis.expire(empty, 1000)
    await transcripts.check()
    assert await redis.ttl(empty) <= 1000


@pytest.mark.integration
async def test_what_is_no_stream_is_left_alone_and_a_redis_that_refuses_is_said_once(redis):
    await redis.set("mine:transcript", "x" * 1000)
    await redis.config_set("maxmemory", 20 * 1024 * 1024)
    transcripts = Transcripts(redis, Settings())
    assert await transcripts.check() == 0
    assert await redis.ttl("mine:transcript") == -1
    await redis.execute_command("ACL", "SETUSER", "default", "-scan")
    with capture_logs() as logs:
        task = asyncio.create_task(transcripts.run())
        while not logs:
            await asyncio.sleep(0.01)
        await end({task})
    await redis.execute_command("ACL", "SETUSER", "default", "+scan")
    assert "does not let the operator count them" in logs[0]["hint"]
