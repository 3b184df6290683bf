"""Which conversation a message belongs to."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis

from orbiter_contracts import SessionRecord
from worker_wrapper.connection import RedisConnection
from worker_wrapper.session import SessionTable, choose, split_command

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
KEY = "session:user:7"


def record(*, idle_minutes: float = 5, session_id: str = "kept") -> SessionRecord:
    return SessionRecord(
        session_id=session_id,
        worker_id="somebody",
        created_at=NOW - timedelta(hours=2),
        last_activity=NOW - timedelta(minutes=idle_minutes),
    )


def chosen(
    known: SessionRecord | None, *, fresh: bool = False, first_id: str | None = None
) -> tuple[str, str]:
    choice = choose(
        known, fresh=fresh, now=NOW, worker_id="us", first_id=first_id, new_id=lambda: "new"
    )
    assert choice.record.worker_id == "us"
    assert choice.record.last_activity == NOW
    return choice.record.session_id, choice.why


def test_without_a_record_a_new_session_starts() -> None:
    assert chosen(None) == ("new", "first")


def test_session_id_of_the_environment_starts_the_first_record() -> None:
    assert chosen(None, first_id="given") == ("given", "first")


def test_a_fresh_record_wins_over_the_environment() -> None:
    assert chosen(record(), first_id="given") == ("kept", "continued")


def test_a_session_is_kept_for_thirty_idle_minutes() -> None:
    assert chosen(record(idle_minutes=30)) == ("kept", "continued")


def test_a_session_idle_for_longer_is_followed_by_a_new_one() -> None:
    assert chosen(record(idle_minutes=30.1)) == ("new", "idle")


def test_a_new_session_that_is_asked_for_replaces_a_fresh_one() -> None:
    assert chosen(record(), fresh=True, first_id="given") == ("new", "asked")


def test_a_dead_workers_session_is_kept() -> None:
    choice = choose(
        record(), fresh=False, now=NOW, worker_id="us", first_id=None, new_id=lambda: "new"
    )
    assert choice.record.session_id == "kept"
    assert choice.record.created_at == NOW - timedelta(hours=2)


def test_a_time_without_a_zone_is_utc() -> None:
    naive = record().model_copy(update={"last_activity": datetime(2026, 1, 10, 11, 55)})
    assert chosen(naive) == ("kept", "continued")


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("/new", (True, "")),
        ("  /new  ", (True, "")),
        ("/new fix the login", (True, "fix the login")),
        ("/new\nfix\nthe login", (True, "fix\nthe login")),
        ("/newer things", (False, "/newer things")),
        ("what does /new do?", (False, "what does /new do?")),
        ("  plain ", (False, "  plain ")),
    ],
)
def test_a_command_is_a_word_of_its_own_at_the_beginning(
    prompt: str, expected: tuple[bool, str]
) -> None:
    assert split_command(prompt, ("/new",)) == expected


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def table(connection: RedisConnection, clock: Clock, first_id: str | None = None) -> SessionTable:
    ids = iter(f"new-{count}" for count in range(1, 10))
    return SessionTable(
        connection,
        worker_id="us",
        first_id=first_id,
        clock=clock,
        new_id=lambda: next(ids),
    )


@pytest.mark.integration
async def test_the_record_is_a_json_string_that_lives_a_day(
    redis: Redis, connection: RedisConnection
) -> None:
    await table(connection, Clock(), "given").open(7, fresh=False)
    assert json.loads(await redis.get(KEY)) == {
        "session_id": "given",
        "worker_id": "us",
        "created_at": "2026-01-10T12:00:00Z",
        "last_activity": "2026-01-10T12:00:00Z",
    }
    assert 86_000 < await redis.ttl(KEY) <= 86_400


@pytest.mark.integration
async def test_the_first_id_starts_one_record_only(
    redis: Redis, connection: RedisConnection
) -> None:
    sessions = table(connection, Clock(), "given")
    await sessions.open(7, fresh=False)
    await redis.delete(KEY)
    assert (await sessions.open(7, fresh=False)).record.session_id == "new-1"


@pytest.mark.integration
async def test_a_front_ends_hash_is_understood(redis: Redis, connection: RedisConnection) -> None:
    await redis.hset(KEY, mapping=record().model_dump(mode="json"))
    assert (await table(connection, Clock()).open(7, fresh=False)).record.session_id == "kept"


@pytest.mark.integration
@pytest.mark.parametrize("nonsense", ["not json", "[]", '{"session_id": "x"}'])
async def test_a_record_that_makes_no_sense_counts_as_none(
    redis: Redis, connection: RedisConnection, nonsense: str
) -> None:
    await redis.set(KEY, nonsense)
    assert (await table(connection, Clock()).open(7, fresh=False)).record.session_id == "new-1"


@pytest.mark.integration
async def test_a_long_turn_counts_as_activity_until_its_end(
    redis: Redis, connection: RedisConnection
) -> None:
    clock = Clock()
    sessions = table(connection, clock, "given")
    await sessions.open(7, fresh=False)
    clock.now += timedelta(minutes=40)
    await sessions.touch(7, "given")
    clock.now += timedelta(minutes=20)
    assert (await sessions.open(7, fresh=False)).record.session_id == "given"


@pytest.mark.integration
async def test_a_session_the_front_end_started_meanwhile_is_not_overwritten(
    redis: Redis, connection: RedisConnection
) -> None:
    sessions = table(connection, Clock(), "given")
    await sessions.open(7, fresh=False)
    theirs = record(session_id="theirs").model_dump_json()
    await redis.set(KEY, theirs)
    await sessions.touch(7, "given")
    assert await redis.get(KEY) == theirs
