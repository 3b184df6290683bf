"""Which conversation a message belongs to."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from orbiter_contracts import POState, SessionRecord
from orbiter_contracts.queues import BARE
from orbiter_contracts.worker_scripts import WRITE_RECORD
from worker_wrapper.queue.connection import RedisConnection
from worker_wrapper.session.record import RECORD_BYTES, Found, SessionTable
from worker_wrapper.session.rotation import Choice, choose, split_command

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


@pytest.mark.parametrize("word", ["new", "!new"])
def test_a_word_without_a_slash_is_no_command_when_a_name_follows(word: str) -> None:
    assert split_command(word, (word,)) == (True, "")
    assert split_command(f"{word}@some_bot", (word,)) == (False, f"{word}@some_bot")


def test_a_stale_record_does_not_win_over_the_environment_of_a_new_worker() -> None:
    choice = choice_of(record(idle_minutes=31), previous=None, first_id="given")
    assert (choice.record.session_id, choice.reason, choice.previous) == ("given", "Idle", "kept")


def test_a_stale_record_of_the_session_the_environment_names_is_no_rotation() -> None:
    assert chosen(record(idle_minutes=31), previous=None, first_id="kept") == ("kept", None)


def test_a_command_wins_over_the_environment() -> None:
    stale = record(idle_minutes=31)
    assert chosen(stale, previous=None, first_id="given", asked="Command") == ("new", "Command")


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
        ("/new\tfix the login", (True, "fix the login")),
        ("/new@some_bot", (True, "")),
        ("/new@some_bot fix the login", (True, "fix the login")),
        ("/new@some_bot\tfix\nthe login", (True, "fix\nthe login")),
        ("/new@example.com is down", (False, "/new@example.com is down")),
        ("/new@", (False, "/new@")),
        ("", (False, "")),
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
    return SessionTable(connection, clock=clock or Clock(), records=BARE.session_records())


@pytest.mark.integration
async def test_a_record_is_read_as_it_was_written(
    redis: Redis, connection: RedisConnection
) -> None:
    assert (await table(connection).read(7)).record is None
    await redis.set(KEY, record().model_dump_json())
    assert (await table(connection).read(7)).record == record()


@pytest.mark.integration
async def test_a_front_ends_hash_is_understood(redis: Redis, connection: RedisConnection) -> None:
    await redis.hset(KEY, mapping=record().model_dump(mode="json"))
    assert (await table(connection).read(7)).record == record()


@pytest.mark.integration
@pytest.mark.parametrize("nonsense", ["not json", "[]", '{"session_id": "x"}'])
async def test_a_record_that_makes_no_sense_counts_as_none(
    redis: Redis, connection: RedisConnection, nonsense: str
) -> None:
    await redis.set(KEY, nonsense)
    assert (await table(connection).read(7)).record is None


@pytest.mark.integration
async def test_a_long_turn_counts_as_activity_until_its_end(
    redis: Redis, connection: RedisConnection
) -> None:
    clock = Clock()
    await redis.set(KEY, record(session_id="ours").model_dump_json())
    clock.now += timedelta(minutes=40)
    await table(connection, clock).touch(7, "ours")
    kept = (await table(connection).read(7)).record
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


@pytest.mark.integration
@pytest.mark.parametrize("fields", [record().model_dump(mode="json"), {}])
async def test_a_front_ends_hash_stays_one_and_keeps_its_other_fields(
    redis: Redis, connection: RedisConnection, fields: dict[str, str]
) -> None:
    await redis.hset(KEY, mapping={"chat_id": "-100200", **fields})
    await rewrite(connection, "next")
    assert await redis.hgetall(KEY) == {"chat_id": "-100200", **fields_of("next")}
    assert await redis.ttl(KEY) == -1


@pytest.mark.integration
async def test_a_front_ends_json_keeps_its_other_fields(
    redis: Redis, connection: RedisConnection
) -> None:
    others = {"chat_id": -(10**15), "names": [], "\u00fc": "\ud800", "more": {"deep": None}}
    await redis.set(KEY, json.dumps({**record().model_dump(mode="json"), **others}))
    await rewrite(connection, "next")
    assert json.loads(await redis.get(KEY)) == {**others, **fields_of("next")}


@pytest.mark.integration
@pytest.mark.parametrize(("seconds", "left"), [(60, 86_400), (200_000, 200_000), (None, -1)])
@pytest.mark.parametrize("how", ["hash", "json"])
async def test_what_a_front_end_keeps_beside_the_record_never_goes_earlier_than_it_said(
    redis: Redis, connection: RedisConnection, seconds: int | None, left: int, how: str
) -> None:
    fields = {"chat_id": "5", **record().model_dump(mode="json")}
    await (redis.hset(KEY, mapping=fields) if how == "hash" else redis.set(KEY, json.dumps(fields)))
    if seconds:
        await redis.expire(KEY, seconds)
    await rewrite(connection, "next")
    assert left - 5 < await redis.ttl(KEY) <= left


@pytest.mark.integration
@pytest.mark.parametrize("how", ["hash", "json"])
async def test_a_record_that_changed_since_it_was_read_stays_as_it_is(
    redis: Redis, connection: RedisConnection, how: str
) -> None:
    async def put(session_id: str) -> None:
        await redis.delete(KEY)
        fields = fields_of(session_id)
        text = json.dumps(fields)
        await (redis.hset(KEY, mapping=fields) if how == "hash" else redis.set(KEY, text))

    await put("read")
    found = await table(connection).read(7)
    await put("theirs")
    arguments = found.rewritten(record(session_id="ours"))
    await connection.run(WRITE_RECORD, [KEY], *arguments)
    kept = (await table(connection).read(7)).record
    assert kept is not None
    assert kept.session_id == "theirs"


@pytest.mark.integration
@pytest.mark.parametrize(
    "put",
    [
        ("LPUSH", KEY, "x"),
        ("ZADD", KEY, "1", "x"),
        ("XADD", KEY, "*", "a", "b"),
        ("SET", KEY, "no json"),
        ("SET", KEY, b"\xff\xfe"),
        ("SET", KEY, "[" * 20_000),
        ("SET", KEY, '{"balance": 1e999}'),
        ("SET", KEY, '{"n": ' + "9" * 5000 + "}"),
        ("SET", KEY, json.dumps({"session_id": "x" * RECORD_BYTES})),
        ("HSET", KEY, "session_id", "x" * RECORD_BYTES + "x"),
    ],
    ids=lambda put: str(put[0]),
)
async def test_what_is_no_record_of_any_kind_is_left_alone(
    redis: Redis, connection: RedisConnection, put: tuple[str, ...]
) -> None:
    await redis.execute_command(*put)
    before = await digest(redis)
    found = await table(connection).read(7)
    assert (found.record, found.ours) == (None, False)
    await table(connection).touch(7, "ours")
    assert await digest(redis) == before


@pytest.mark.integration
@pytest.mark.parametrize("session_id", ["", "nul\0", "line\n", "x" * 201, "-x", 5, None])
async def test_an_id_that_could_be_no_argument_counts_as_none_and_is_replaced(
    redis: Redis, connection: RedisConnection, session_id: object
) -> None:
    await redis.set(KEY, json.dumps({**fields_of("x"), "session_id": session_id, "chat_id": 5}))
    found = await table(connection).read(7)
    assert (found.record, found.ours) == (None, True)
    await rewrite(connection, "next")
    assert json.loads(await redis.get(KEY)) == {"chat_id": 5, **fields_of("next")}


def test_where_the_record_is_not_ours_our_state_says_how_it_goes_on() -> None:
    state = POState(user_id=7, session_id="ours", last_activity=NOW - timedelta(minutes=5))
    known = Found(ours=False).record_or_state(7, state, "us")
    assert chosen(known, previous="ours") == ("ours", None)
    assert Found(ours=False).record_or_state(8, state, "us") is None
    assert Found(ours=False).record_or_state(7, POState(), "us") is None
    assert Found().record_or_state(7, state, "us") is None


def fields_of(session_id: str) -> dict[str, str]:
    return dict(json.loads(record(session_id=session_id).model_dump_json()))


async def rewrite(connection: RedisConnection, session_id: str) -> None:
    """Put another record in the place of what is there."""
    found = await table(connection).read(7)
    arguments = found.rewritten(record(session_id=session_id))
    await connection.run(WRITE_RECORD, [KEY], *arguments)


async def digest(redis: Redis) -> str:
    """Redis' own fingerprint of the record, whatever it is."""
    return str((await redis.execute_command("DEBUG", "DIGEST-VALUE", KEY))[0])
