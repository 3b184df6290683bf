"""How a transcript grows on a real server: in order, up to its bound, by its function."""

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError, ResponseError
from support.redis_server import PATIENT, RedisServer

from orbiter_contracts.functions import library
from orbiter_contracts.queues import BARE
from orbiter_contracts.transcript import TRANSCRIPT_BYTES, TRANSCRIPT_SECONDS
from orbiter_contracts.transcript_scripts import APPEND, MOST_DROPPED

pytestmark = pytest.mark.integration
KEY = BARE.task_transcript("9f1c", 1)


@pytest.fixture
def server(own_redis_server: RedisServer) -> "Redis[str]":
    client: Redis[str] = Redis.from_url(own_redis_server.url, decode_responses=True, **PATIENT)
    client.flushall()
    client.function_load(library(), replace=True)
    return client


def append(
    server: "Redis[str]", data: str, first: int, count: int = 1, total: int = 0, seconds: str = ""
) -> list[str]:
    """Append by the function."""
    words = (data, first, count, total, seconds)
    answer: list[str] = server.fcall(APPEND.function, 1, KEY, *words)
    return answer


def test_each_entry_says_what_comes_behind_it_and_how_much_there_was(server: "Redis[str]") -> None:
    assert append(server, "[a]", 0, 2) == ["added", "3"]
    assert append(server, "[bc]", 2, 3) == ["added", "7"]
    assert [fields for _, fields in server.xrange(KEY)] == [
        {"data": "[a]", "next": "2", "end": "3"},
        {"data": "[bc]", "next": "5", "end": "7"},
    ]
    assert server.ttl(KEY) == -1


def test_what_is_written_already_is_not_written_again(server: "Redis[str]") -> None:
    append(server, "[a]", 0, 2)
    assert append(server, "[a]", 0, 2) == ["stale", "2"]
    assert append(server, "[a]", 1, 2) == ["stale", "2"]
    assert server.xlen(KEY) == 1
    assert append(server, "[d]", 7, 1) == ["added", "6"]


def test_a_stream_that_has_gone_goes_on_where_its_writer_was(server: "Redis[str]") -> None:
    assert append(server, "[a]", 57, 1, total=9_000) == ["added", "9003"]


def test_the_script_sets_the_expiry_where_its_caller_may(server: "Redis[str]") -> None:
    server.eval(APPEND.text, 1, KEY, "[a]", 0, 1, 0, TRANSCRIPT_SECONDS)
    assert 0 < server.ttl(KEY) <= TRANSCRIPT_SECONDS


@pytest.mark.parametrize("size", [100, 5_000, 60_000])
def test_the_front_goes_beyond_256_kib(server: "Redis[str]", size: int) -> None:
    total, sequence = 0, 0
    while total < 2 * TRANSCRIPT_BYTES:
        total = int(append(server, "x" * size, sequence)[1])
        sequence += 1
    kept = server.xrange(KEY)
    held = sum(len(fields["data"]) for _, fields in kept)
    assert TRANSCRIPT_BYTES - size < held <= TRANSCRIPT_BYTES
    assert kept[-1][1]["next"] == str(sequence)
    assert int(kept[0][1]["end"]) == total - held + size


def test_what_no_worker_of_ours_has_written_is_dropped_first(server: "Redis[str]") -> None:
    for fields in ({"x": "y"}, {"data": "z", "end": "nan", "next": "inf"}, {"end": "-5"}):
        server.xadd(KEY, fields)  # type: ignore[arg-type]
    assert append(server, "[a]", 0, 1) == ["added", "3"]
    assert [fields["data"] for _, fields in server.xrange(KEY)] == ["[a]"]
    server.xadd(KEY, {"data": "z", "end": "99999999999999999999", "next": "1e300"})
    assert append(server, "[b]", 1, 1)[0] == "added"


def test_what_others_have_added_is_dropped_in_steps_that_hold_nobody_up(
    server: "Redis[str]",
) -> None:
    with server.pipeline(transaction=False) as pipe:
        for _ in range(2 * MOST_DROPPED + 500):
            pipe.xadd(KEY, {"x": ""})
        pipe.execute()
    server.config_resetstat()
    with pytest.raises(ResponseError, match="nil value"):
        server.fcall(APPEND.function, 1, KEY, "[a]", 0, "no number", 0, "")
    looked = server.info("commandstats")["cmdstat_xrange"]["calls"]
    assert looked <= MOST_DROPPED + 1
    for number, left in enumerate((MOST_DROPPED + 501, 502, 3)):
        append(server, "[a]", number)
        assert server.xlen(KEY) == left
    assert [fields["data"] for _, fields in server.xrange(KEY)] == ["[a]"] * 3


def test_a_key_of_another_kind_is_left_alone(server: "Redis[str]") -> None:
    server.set(KEY, "x")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        append(server, "[a]", 0)
    assert server.get(KEY) == "x"


def test_without_memory_nothing_is_written(server: "Redis[str]") -> None:
    append(server, "[a]", 0)
    server.config_set("maxmemory", 1)
    with pytest.raises(OutOfMemoryError):
        append(server, "[b]", 1)
    assert server.xlen(KEY) == 1
