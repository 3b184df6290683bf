"""A PO worker that is sent anything at all: it answers what can be answered and goes on."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from support.eventually import eventually
from support.queues import Queues
from support.redis_server import RedisServer, client_of
from support.strange_values import VALUES, written
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts import POWorkerOutput
from orbiter_contracts.bounds import DEAD_LETTER_BYTES, MAX_MESSAGE_BYTES
from orbiter_contracts.queues import BARE, PO_GROUP
from worker_wrapper.handlers.po_turn import NEW_SESSION_TEXT

pytestmark = pytest.mark.integration

STREAM = BARE.po_input("po-1")
DEEP = '{"a":' * 2000 + "1" + "}" * 2000
Fields = dict[bytes | str, bytes | str]


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


def start(wrappers: Wrappers, **env: str) -> WrapperProcess:
    return wrappers.start("po-1", WORKER_TYPE="po", **env)


def message(**fields: Any) -> str:
    return json.dumps({"request_id": "bad", "user_id": 7, "prompt": "hi", **fields})


def with_(text: str) -> str:
    """A message with this JSON in a field nobody knows."""
    return '{"request_id": "bad", "user_id": 7, "prompt": "hi", "more": ' + text + "}"


UNREADABLE: dict[str, bytes | str] = {
    "nested 2,000 deep": with_(DEEP),
    "not UTF-8": b'{"request_id": "bad", "user_id": 7, "prompt": "\xff\xfe"}',
    "cut off": '{"request_id": "bad", "user_id": 7, "prompt": "hi',
    "half a character": '{"request_id": "bad", "user_id": 7, "prompt": "\\ud800"}',
    "no prompt": '{"request_id": "bad", "user_id": 7}',
    "an empty prompt": message(prompt=""),
    "a prompt that is no text": message(prompt={"text": "hi"}),
    "no user": message(user_id="seven"),
    "half a user": message(user_id=7.5),
    "too large a user": message(user_id=2**70),
    "a user of 5,000 digits": with_("1").replace("7", "7" * 5000),
    "no time": message(timestamp="yesterday"),
    "a time that never comes": message(timestamp=1e300),
    "no timeout": message(timeout=-1),
    "too long a timeout": message(timeout=10**23),
    "an endless timeout": message().replace('"hi"', '"hi", "timeout": 1e309'),
    "neither new nor old": message(session_continue="perhaps"),
    "ten megabytes": message(prompt="x" * 10_000_000),
}
NAMELESS: dict[str, Fields] = {
    "two bytes": {"data": b"\xff\xfe"},
    "another field": {"text": "hi"},
    "nothing": {"data": ""},
    "a list": {"data": "[1]"},
    "null": {"data": "null"},
    "a number": {"data": "9" * 5000},
    "brackets": {"data": "[" * 100_000},
    "a name that is no text": {"data": message(request_id=5)},
    "a name with a NUL": {"data": message(request_id="a\0b")},
    "too long a name": {"data": message(request_id="x" * 10_000)},
    "names of fields that are not UTF-8": {b"\xff": b"\xfe"},
    "a hundred thousand fields": {f"f{n}": "" for n in range(100_000)},
}
READABLE: dict[str, str] = {
    "a prompt with NULs": message(request_id="odd", prompt="a\0b"),
    "a prompt of spaces": message(request_id="odd", prompt=" \n"),
    "only a command": message(request_id="odd", prompt="/new"),
    "a large prompt": message(request_id="odd", prompt="x" * (MAX_MESSAGE_BYTES - 1000)),
    "a user in quotes": message(request_id="odd", user_id="7"),
    "the smallest user": message(request_id="odd", user_id=-(2**63)),
    "a time without a zone": message(request_id="odd", timestamp="2026-01-01T00:00:00"),
    "a long wait": message(request_id="odd", timeout=604_800),
    "a switch in words": message(request_id="odd", session_continue="no"),
}


async def good_answer_after(queues: Queues, count: int) -> tuple[list[POWorkerOutput], str]:
    """Wait for that many outputs and then the good message's; the others, and the story."""
    *before, good = await queues.answers(count + 1)
    assert (good.request_id, good.status, good.text) == ("good", "success", NEW_SESSION_TEXT)
    return before, await queues.story()


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
async def test_the_sender_of_a_message_that_cannot_be_read_is_told_and_the_next_is_answered(
    wrappers: Wrappers, queues: Queues, data: bytes | str
) -> None:
    await queues.redis.xadd(STREAM, {"data": data})
    await queues.message("/new", request_id="good")
    wrapper = start(wrappers, USER_ID="9")
    (told,), story = await good_answer_after(queues, 1)
    assert (told.request_id, told.status, told.reason) == ("bad", "error", "InvalidMessage")
    assert told.user_id in (7, 9)
    assert told.is_final
    await queues.told("ready", 2)
    assert story.startswith("started ready busy")
    (reason,) = await reasons(queues)
    assert reason.removesuffix(" (cut here: data)") == told.error
    assert await queues.is_settled(STREAM, PO_GROUP)
    assert wrapper.process.poll() is None


@pytest.mark.parametrize("fields", NAMELESS.values(), ids=NAMELESS)
async def test_a_message_that_names_no_sender_is_put_aside_and_the_next_is_answered(
    wrappers: Wrappers, queues: Queues, fields: Fields
) -> None:
    await queues.redis.xadd(STREAM, fields)  # type: ignore[arg-type]
    await queues.message("/new", request_id="good")
    wrapper = start(wrappers, USER_ID="9")
    await good_answer_after(queues, 0)
    assert len(await reasons(queues)) == 1
    assert await queues.is_settled(STREAM, PO_GROUP)
    assert wrapper.process.poll() is None


@pytest.mark.parametrize("data", READABLE.values(), ids=READABLE)
async def test_an_odd_message_is_answered(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, data: str
) -> None:
    fake_claude.says("fine")
    await queues.redis.xadd(STREAM, {"data": data})
    await queues.message("/new", request_id="good")
    wrapper = start(wrappers, USER_ID="9")
    (odd,), _ = await good_answer_after(queues, 1)
    assert (odd.request_id, odd.status) == ("odd", "success")
    assert wrapper.process.poll() is None


async def test_a_message_without_any_user_is_answered_to_nobody(
    wrappers: Wrappers, queues: Queues
) -> None:
    await queues.redis.xadd(STREAM, {"data": '{"request_id": "bad", "prompt": "hi"}'})
    start(wrappers)
    (told,) = await queues.answers(1)
    assert (told.request_id, told.user_id, told.reason) == ("bad", 0, "InvalidMessage")
    assert "user_id" in (told.error or "")


async def test_of_a_message_that_is_too_large_the_dead_letter_has_the_beginning(
    wrappers: Wrappers, queues: Queues
) -> None:
    await queues.redis.xadd(STREAM, {"data": message(prompt="x" * 10_000_000)})
    start(wrappers)
    await queues.answers(1)
    (letter,) = await queues.dead_letters(STREAM)
    assert letter["data"] == message(prompt="x" * 10_000_000)[: DEAD_LETTER_BYTES - len("data")]
    assert "too large" in letter["reason"]


async def test_the_memory_of_a_worker_does_not_grow_with_what_it_is_sent(
    wrappers: Wrappers, own_redis_server: RedisServer
) -> None:
    async with client_of(own_redis_server) as client:
        queues = Queues(client)
        wrapper = start(wrappers, REDIS_URL=own_redis_server.url)
        await queues.message("/new", request_id="good")
        await queues.answers(1)
        before = peak_memory(wrapper)
        head, tail = message(prompt="").split('""')
        await client.eval(_LARGE, 1, STREAM, f'{head}"', f'"{tail}')
        await queues.answers(2)
        assert peak_memory(wrapper) - before < 32_000_000


async def test_a_mistake_of_our_own_costs_the_message_and_not_the_worker(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, tmp_path: Path
) -> None:
    fake_claude.says("fine")
    saboteur = tmp_path / "saboteur"
    saboteur.mkdir()
    (saboteur / "sitecustomize.py").write_text(_MISTAKE)
    await queues.message("fails", request_id="bad")
    await queues.message("/new", request_id="good")
    wrapper = start(wrappers, PYTHONPATH=str(saboteur))
    (told,), _ = await good_answer_after(queues, 1)
    assert (told.request_id, told.status, told.reason) == ("bad", "error", "WorkerFailed")
    assert told.error == "the worker failed at this message: ZeroDivisionError: a mistake"
    assert await reasons(queues) == [told.error]
    await queues.told("ready", 3)
    assert (await queues.state()).state == "ready"
    assert wrapper.process.poll() is None


# Made in the server: a client would take long to send it.
_LARGE = """
redis.call('XADD', KEYS[1], '*', 'data', ARGV[1] .. string.rep('x', 64000000) .. ARGV[2])
"""

_MISTAKE = """
from worker_wrapper.handlers import po_turn

async def take_turn(*arguments, **more):
    raise ZeroDivisionError("a mistake")

po_turn.take_turn = take_turn
"""

NAMES = st.sampled_from(["user_id", "prompt", "timeout", "timestamp", "session_continue", "more"])
BYTES = st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))
MANGLED = st.tuples(VALUES, st.integers(0, 60)).map(
    lambda pair: written(pair[0]).encode()[: pair[1]]
)
WRONG = st.dictionaries(NAMES, VALUES, min_size=1).map(
    lambda fields: written({"user_id": 7, "prompt": "/new", **fields}).encode()
)
DEPTH = st.tuples(st.sampled_from([b"[", b'{"a":', b'{"user_id":']), st.integers(1, 3000)).map(
    lambda pair: pair[0] * pair[1]
)
ANYTHING = st.one_of(BYTES, MANGLED, WRONG, DEPTH)


def test_every_good_message_among_any_others_is_answered_by_the_same_process(
    wrappers: Wrappers, redis_server: RedisServer, fake_claude: FakeClaude
) -> None:
    fake_claude.says("fine")
    wrapper = start(wrappers, USER_ID="9")
    sent = 0

    @settings(
        max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.lists(ANYTHING, max_size=8))
    def all_are_answered(others: list[bytes]) -> None:
        nonlocal sent
        sent += 1
        asyncio.run(_exchange(redis_server, others, f"good-{sent}"))
        assert wrapper.process.poll() is None

    all_are_answered()


async def _exchange(server: RedisServer, others: list[bytes], name: str) -> None:
    async with client_of(server) as client:
        queues = Queues(client)
        for other in others:
            await client.xadd(STREAM, {"data": other})
        await queues.message("/new", request_id=name)
        await _until(queues, lambda answers: any(a.request_id == name for a in answers))
        assert await queues.is_settled(STREAM, PO_GROUP)


async def _until(queues: Queues, told: Callable[[list[POWorkerOutput]], bool]) -> None:
    async def there() -> bool:
        return told(await queues.answers(0))

    await eventually(there)


async def reasons(queues: Queues) -> list[str]:
    """Why each dead letter is one."""
    letters = await queues.redis.execute_command(
        "XRANGE", f"{STREAM}:dead", "-", "+", NEVER_DECODE=True
    )
    return [fields[b"reason"].decode() for _, fields in letters]


def peak_memory(wrapper: WrapperProcess) -> int:
    """The most memory the process ever had, in bytes."""
    status = Path(f"/proc/{wrapper.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024
