"""How a checkpoint gets into Redis: with the record in one step, or not at all."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from redis import Redis
from support.redis_server import PATIENT, RedisServer

from orbiter_contracts import Checkpoint, WorkerLifecycleEvent, encode, read_checkpoint
from orbiter_contracts.attempts import Attempt
from orbiter_contracts.checkpoint_scripts import READ, READ_CHECKPOINT, SAVE, SAVE_CHECKPOINT, part
from orbiter_contracts.checkpoints import MAX_GENERATION
from orbiter_contracts.functions import library
from orbiter_contracts.queues import DEVELOPER_GROUP
from orbiter_contracts.scripts import ADMIT_ATTEMPT, PUBLISH_ATTEMPT, PUBLISH_IN_PLACE

pytestmark = pytest.mark.integration
AT = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
ATTEMPT = Attempt("team/fix", "9f1c", 1)
KEYS = ATTEMPT.keys
LEASE = KEYS.developer_lease("w")
TTL = 1000


class Attempted:
    """An attempt that the worker `w` works on."""

    def __init__(self, server: "Redis[str]") -> None:
        self.redis = server
        server.flushdb()
        flat = [text for pair in {"data": "{}", **ATTEMPT.routing}.items() for text in pair]
        server.xgroup_create(KEYS.developer_input, DEVELOPER_GROUP, mkstream=True)
        self.entry = str(
            server.eval(ADMIT_ATTEMPT, 2, ATTEMPT.record, KEYS.developer_input, TTL, *flat)
        )
        self.claim("w")

    def claim(self, consumer: str) -> None:
        """Have a worker take the entry."""
        self.redis.execute_command(
            *("XCLAIM", KEYS.developer_input, DEVELOPER_GROUP, consumer, 0, self.entry, "FORCE")
        )

    def save(
        self,
        generation: int,
        session: bytes = b"session",
        workspace: bytes = b"workspace",
        *,
        beside: int = 0,
        by_function: bool = False,
    ) -> Any:
        """Write a checkpoint as the worker `w` with the token `t`."""
        said = Checkpoint(time=AT, generation=generation, session=True)
        event = WorkerLifecycleEvent(
            worker_id="w", event="checkpointed", details=said.model_dump(mode="json")
        )
        keys = [ATTEMPT.record, ATTEMPT.checkpoint, KEYS.developer_input, KEYS.lifecycle, LEASE]
        words = [TTL, self.entry, DEVELOPER_GROUP, "w", "t", generation, beside or generation - 1]
        words += [said.model_dump_json(), event.model_dump_json(), ATTEMPT.task, ATTEMPT.number]
        if by_function:
            return self.redis.fcall(SAVE.function, len(keys), *keys, *words, session, workspace)
        return self.redis.eval(SAVE_CHECKPOINT, len(keys), *keys, *words, session, workspace)

    @property
    def known(self) -> Checkpoint | None:
        """What the record says."""
        return read_checkpoint(self.redis.hget(ATTEMPT.record, "checkpoint"))

    @property
    def parts(self) -> set[str]:
        """Which parts there are."""
        return set(self.redis.hkeys(ATTEMPT.checkpoint))

    def publish(self, event: str, script: str = PUBLISH_ATTEMPT) -> Any:
        """Publish an outcome."""
        said = WorkerLifecycleEvent.model_validate({"worker_id": "w", "event": event})
        keys = [
            *(ATTEMPT.record, KEYS.developer_input, KEYS.developer_output, KEYS.lifecycle),
        ]
        words = [TTL, self.entry, DEVELOPER_GROUP, "{}", said.model_dump_json(), "team/fix", 1]
        return self.redis.eval(script, len(keys), *keys, *words)


@pytest.fixture
def attempted(own_redis_server: RedisServer) -> Iterator[Attempted]:
    with Redis.from_url(own_redis_server.url, decode_responses=True, **PATIENT) as client:
        client.function_load(library(), replace=True)
        yield Attempted(client)


@pytest.mark.parametrize("by_function", [False, True], ids=["script", "function"])
def test_a_checkpoint_is_in_the_record_beside_it_and_told(
    attempted: Attempted, by_function: bool
) -> None:
    assert attempted.save(1, by_function=by_function) == "saved"
    assert attempted.known == Checkpoint(time=AT, generation=1, session=True)
    redis = attempted.redis
    assert redis.hget(ATTEMPT.checkpoint, part(1, "session")) == "session"
    assert redis.hget(ATTEMPT.checkpoint, part(1, "workspace")) == "workspace"
    assert read_checkpoint(redis.hget(ATTEMPT.checkpoint, "1:checkpoint")) == attempted.known
    ((_, told),) = redis.xrange(KEYS.lifecycle)
    event = WorkerLifecycleEvent.model_validate_json(told["data"])
    assert event.event == "checkpointed"
    assert Checkpoint.model_validate(event.details) == attempted.known
    assert (told["agenttask"], told["attempt"]) == ("team/fix", "1")
    assert 0 < redis.ttl(ATTEMPT.checkpoint) <= TTL
    assert redis.hget(ATTEMPT.record, "entry") == attempted.entry


def test_the_one_before_it_stays_and_no_other(attempted: Attempted) -> None:
    for generation in (1, 2, 3, 4):
        assert attempted.save(generation) == "saved"
    assert {name.split(":")[0] for name in attempted.parts} == {"3", "4"}


def test_a_damaged_one_is_not_kept_where_a_good_one_is(attempted: Attempted) -> None:
    for generation in (1, 2):
        attempted.save(generation)
    assert attempted.save(3, beside=1) == "saved"
    assert {name.split(":")[0] for name in attempted.parts} == {"1", "3"}


def test_of_an_answered_attempt_nothing_is_kept_any_more(attempted: Attempted) -> None:
    attempted.publish("completed")
    assert attempted.save(1) == "gone"
    assert attempted.known is None
    assert not attempted.redis.exists(ATTEMPT.checkpoint)


def test_of_a_withdrawn_attempt_neither(attempted: Attempted) -> None:
    attempted.redis.xdel(KEYS.developer_input, attempted.entry)
    assert attempted.save(1) == "gone"
    assert not attempted.redis.exists(ATTEMPT.checkpoint)


def test_when_redis_has_forgotten_everything_there_is_nothing_to_write_to(
    attempted: Attempted,
) -> None:
    attempted.redis.flushdb()
    assert attempted.save(1) == "gone"
    assert attempted.redis.dbsize() == 0


def test_who_does_not_hold_the_entry_writes_nothing(attempted: Attempted) -> None:
    attempted.claim("another")
    assert attempted.save(1) == "taken"
    assert attempted.known is None


def test_who_has_lost_its_name_to_another_process_writes_nothing(attempted: Attempted) -> None:
    attempted.redis.hset(LEASE, "token", "another")
    assert attempted.save(1) == "taken"
    attempted.redis.hset(LEASE, "token", "t")
    assert attempted.save(1) == "saved"


def test_an_older_checkpoint_never_takes_the_place_of_a_newer_one(attempted: Attempted) -> None:
    assert attempted.save(2) == "saved"
    assert attempted.save(2, b"again") == attempted.save(1) == "stale"
    assert attempted.redis.hget(ATTEMPT.checkpoint, "2:session") == "session"


@pytest.mark.parametrize(
    "there",
    [
        *("", "{", "7", '{"generation": "a lot"}', '{"generation": []}'),
        *('{"generation": 1e308}', '{"generation": 9007199254740991}'),
        *(f'{{"generation": {MAX_GENERATION}}}', '{"generation": 5}' + " " * 20_000),
    ],
)
def test_what_is_no_checkpoint_is_written_over(attempted: Attempted, there: str) -> None:
    attempted.redis.hset(ATTEMPT.record, "checkpoint", there)
    assert attempted.save(1) == "saved"
    assert attempted.known is not None


def test_a_key_of_another_kind_is_no_obstacle(attempted: Attempted) -> None:
    attempted.redis.set(ATTEMPT.checkpoint, "in the way")
    attempted.redis.set(LEASE, "in the way")
    assert attempted.save(1) == "saved"
    assert part(1, "session") in attempted.parts


@pytest.mark.parametrize("by_function", [False, True], ids=["script", "function"])
def test_a_field_is_read_when_it_is_not_too_large(attempted: Attempted, by_function: bool) -> None:
    redis = attempted.redis

    def read(key: str, field: str, most: int) -> Any:
        if by_function:
            return redis.fcall_ro(READ.function, 1, key, field, most)
        return redis.eval(READ_CHECKPOINT, 1, key, field, most)

    attempted.save(1, workspace=b"w" * 1000)
    name = part(1, "workspace")
    assert read(ATTEMPT.checkpoint, name, 1000) == [1000, "w" * 1000]
    assert read(ATTEMPT.checkpoint, name, 999) == [1000, ""]
    assert read(ATTEMPT.checkpoint, "nothing", 999) == [0, ""]
    redis.set("worker:string", "in the way")
    assert read("worker:string", name, 999) == [-1, ""]


def test_behind_the_last_generation_the_count_begins_anew(attempted: Attempted) -> None:
    assert attempted.save(MAX_GENERATION - 1) == "saved"
    assert attempted.save(MAX_GENERATION) == "saved"
    assert attempted.save(1, beside=MAX_GENERATION) == "saved"
    assert attempted.known == Checkpoint(time=AT, generation=1, session=True)
    assert attempted.save(2) == "saved"


@pytest.mark.parametrize("script", [PUBLISH_ATTEMPT, PUBLISH_IN_PLACE], ids=["worker", "operator"])
def test_with_a_success_its_parts_go(attempted: Attempted, script: str) -> None:
    attempted.save(1)
    assert attempted.publish("completed", script)
    assert not attempted.redis.exists(ATTEMPT.checkpoint)
    assert attempted.known is not None


@pytest.mark.parametrize("script", [PUBLISH_ATTEMPT, PUBLISH_IN_PLACE], ids=["worker", "operator"])
def test_with_a_failure_they_stay_as_long_as_the_record(attempted: Attempted, script: str) -> None:
    attempted.save(1)
    attempted.redis.persist(ATTEMPT.checkpoint)
    assert attempted.publish("failed", script)
    assert part(1, "workspace") in attempted.parts
    assert 0 < attempted.redis.ttl(ATTEMPT.checkpoint) <= TTL


def test_it_is_an_event_that_a_stream_takes() -> None:
    event = WorkerLifecycleEvent(
        worker_id="w",
        event="checkpointed",
        details=Checkpoint(time=AT, generation=1).model_dump(mode="json"),
    )
    assert WorkerLifecycleEvent.model_validate_json(encode(event)["data"]) == event
