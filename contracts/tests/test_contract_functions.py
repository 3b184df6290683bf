"""The library of functions: what a script does, the function of its name does too."""

from collections.abc import Iterator

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError
from support.redis_server import PATIENT, RedisServer

from orbiter_contracts.functions import FUNCTIONS, library
from orbiter_contracts.lease_scripts import RELEASE, TAKE
from orbiter_contracts.scripts import LIBRARY, Script
from orbiter_contracts.worker_scripts import READ_RECORD, RENEW, SETTLE

pytestmark = pytest.mark.integration


@pytest.fixture
def server(own_redis_server: RedisServer) -> "Iterator[Redis[str]]":
    with Redis.from_url(own_redis_server.url, decode_responses=True, **PATIENT) as client:
        client.function_load(library(), replace=True)
        yield client


def both(server: "Redis[str]", script: Script, keys: list[str], *words: object) -> list[object]:
    """What the script and the function answer, each on an empty server of the same content."""
    return [
        server.eval(script.text, len(keys), *keys, *words),
        server.fcall(script.function, len(keys), *keys, *words),
    ]


def test_a_server_takes_the_library_whole_and_again(server: "Redis[str]") -> None:
    server.function_load(library(), replace=True)
    (found,) = server.function_list()
    assert found[1] == LIBRARY
    names = {dict(zip(one[::2], one[1::2], strict=True))["name"] for one in found[5]}
    assert names == {script.function for script in FUNCTIONS}


def test_the_names_of_functions_are_all_different() -> None:
    assert len({script.function for script in FUNCTIONS}) == len(FUNCTIONS)


def test_a_function_answers_as_its_script_does(server: "Redis[str]") -> None:
    server.set("record", "{}")
    assert both(server, READ_RECORD, ["record"], 100, "a") == [["string", "{}"]] * 2
    assert both(server, TAKE, ["lease"], "t", "", "1", "p", "h", 12) == [[], []]
    assert both(server, TAKE, ["lease"], "u", "", "1", "p", "h", 12) == [["t", "1", "p", "h"]] * 2
    assert both(server, RELEASE, ["lease"], "u") == [0, 0]
    server.xgroup_create("in", "g", mkstream=True)
    entry = server.xadd("in", {"data": "{}"})
    server.xreadgroup("g", "w", {"in": ">"})
    assert both(server, RENEW, ["in"], "g", "w", entry, "0") == ["held", "held"]
    keys = ["in", "out", "events", "in:dead"]
    assert both(server, SETTLE, keys, "g", "w", entry, "0", "{}", "{}", "") == [1, 0]
    assert server.xlen("out") == 1


def test_without_memory_a_claim_is_renewed_and_a_lease_given_back_all_the_same(
    server: "Redis[str]",
) -> None:
    server.xgroup_create("in", "g", mkstream=True)
    entry = server.xadd("in", {"data": "{}"})
    server.xreadgroup("g", "w", {"in": ">"})
    server.fcall(TAKE.function, 1, "lease", "t", "", "1", "p", "h", 12)
    server.config_set("maxmemory", 1)
    assert both(server, RENEW, ["in"], "g", "w", entry, "0") == ["held", "held"]
    assert both(server, READ_RECORD, ["none"], 100, "a") == [["none"]] * 2
    for call in (server.eval, server.fcall):
        name = SETTLE.text if call == server.eval else SETTLE.function
        with pytest.raises(OutOfMemoryError):
            call(name, 4, "in", "out", "e", "d", "g", "w", entry, "0", "{}", "", "")
    assert both(server, RELEASE, ["lease"], "t") == [1, 0]
