"""Which conversation a message belongs to."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from orbiter_contracts import SessionRecord
from worker_wrapper.connection import RedisConnection
from worker_wrapper.session import Choice, SessionTable, choose, split_command

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
KEY = "session:user:7"


def record(*, idle_minutes: float = 5, session_id: str = "kept") -> SessionRecord:
    return SessionRecord(
        session_id=session_id,
        worker_id="somebody",
        created_at=NOW - timedelta(hours=2),
        last_activity=NOW - timedelta(minutes=idle_minutes),
    )


def choice_of(known: SessionRecord | None, **how: Any) -> Choice:
    return choose(
        known,
        **{
            "asked": None,
            "now": NOW,
            "idle_seconds": 1800,
            "worker_id": "us",
            "previous": known.session_id if known else None,
            "first_id": None,
            "new_id": "new",
            **how,
        },
    )


def chosen(known: SessionRecord | None, **how: Any) -> tuple[str, str | None]:
    choice = choice_of(known, **how)
    assert choice.record.worker_id == "us"
    assert choice.record.last_activity == NOW
    return choice.record.session_id, choice.reason


def test_without_a_record_a_new_session_starts() -> None:
    assert chosen(None) == ("new", None)


def test_session_id_of_the_environment_starts_the_first_record() -> None:
    assert chosen(None, first_id="given") == ("given", None)


def test_a_fresh_record_wins_over_the_environment() -> None:
    assert chosen(record(), first_id="given") == ("kept", None)


def test_a_session_is_kept_for_thirty_idle_minutes() -> None:
    assert chosen(record(idle_minutes=30)) == ("kept", None)


def test_a_session_idle_for_longer_is_followed_by_a_new_one() -> None:
    assert chosen(record(idle_minutes=30.1)) == ("new", "Idle")


def test_how_long_a_session_may_idle_can_be_said() -> None:
    assert chosen(record(idle_minutes=2), idle_seconds=60) == ("new", "Idle")


@pytest.mark.parametrize("asked", ["Command", "Requested"])
def test_a_new_session_that_is_asked_for_replaces_a_fresh_one(asked: str) -> None:
    assert chosen(record(), asked=asked, first_id="given") == ("new", asked)


def test_a_record_that_expired_was_idle_too_long() -> None:
    assert chosen(None, previous="old", first_id="given") == ("new", "Idle")


def test_a_record_that_names_another_session_is_a_rotation_by_whoever_wrote_it() -> None:
    choice = choice_of(record(session_id="theirs"), previous="ours")
    assert (choice.record.session_id, choice.reason) == ("theirs", "Record")
    assert choice.previous == "ours"


@pytest.mark.parametrize("asked", [None, "Command"])
def test_a_message_that_is_delivered_again_does_not_rotate_again(asked: str | None) -> None:
    begun = record(session_id="new")
    assert chosen(begun, asked=asked) == ("new", None)
    assert chosen(None, asked=asked, previous="new") == ("new", None)


def test_the_very_first_session_is_no_rotation_even_if_it_was_asked_for() -> None:
    assert chosen(None, asked="Command") == ("new", None)


def test_a_dead_workers_session_is_kept() -> None:
    choice = choice_of(record())
    assert choice.record.session_id == "kept"
    assert choice.record.created_at == NOW - timedelta(hours=2)


def test_a_session_that_is_renewed_knows_the_one_before() -> None:
    choice = choice_of(record()).renewed("next", "Tokens")
    assert (choice.record.session_id, choice.record.created_at) == ("next", NOW)
    assert (choice.previous, choice.reason) == ("kept", "Tokens")


def test_a_time_without_a_zone_is_utc() -> None:
    naive = record().model_copy(update={"last_activity": datetime(2026, 1, 10, 11, 55)})
    assert chosen(naive) == ("kept", None)


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


def table(connection: RedisConnection, clock: Clock | None = None) -> SessionTable:
    return SessionTable(connection, clock=clock or Clock())


@pytest.mark.integration
async def test_a_record_is_read_as_it_was_written(
    redis: Redis, connection: RedisConnection
) -> None:
    assert await table(connection).read(7) is None
    await redis.set(KEY, record().model_dump_json())
    assert await table(connection).read(7) == record()


@pytest.mark.integration
async def test_a_front_ends_hash_is_understood(redis: Redis, connection: RedisConnection) -> None:
    await redis.hset(KEY, mapping=record().model_dump(mode="json"))
    assert await table(connection).read(7) == record()


@pytest.mark.integration
@pytest.mark.parametrize("nonsense", ["not json", "[]", '{"session_id": "x"}'])
async def test_a_record_that_makes_no_sense_counts_as_none(
    redis: Redis, connection: RedisConnection, nonsense: str
) -> None:
    await redis.set(KEY, nonsense)
    assert await table(connection).read(7) is None


@pytest.mark.integration
async def test_a_long_turn_counts_as_activity_until_its_end(
    redis: Redis, connection: RedisConnection
) -> None:
    clock = Clock()
    await redis.set(KEY, record(session_id="ours").model_dump_json())
    clock.now += timedelta(minutes=40)
    await table(connection, clock).touch(7, "ours")
    kept = await table(connection).read(7)
    assert kept is not None
    assert kept.last_activity == clock.now
    assert 86_000 < await redis.ttl(KEY) <= 86_400


@pytest.mark.integration
async def test_a_session_the_front_end_started_meanwhile_is_not_overwritten(
    redis: Redis, connection: RedisConnection
) -> None:
    theirs = record(session_id="theirs").model_dump_json()
    await redis.set(KEY, theirs)
    await table(connection).touch(7, "ours")
    assert await redis.get(KEY) == theirs
