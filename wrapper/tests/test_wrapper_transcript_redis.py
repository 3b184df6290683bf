"""A transcript in Redis: over several pods, where answers are lost, and of whole workers."""

import json
import shlex
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.queues import UID, Queues
from support.wrapper import API_KEY, FakeClaude, Wrappers, connected

from orbiter_contracts.queues import BARE, Keys
from orbiter_contracts.transcript import TRANSCRIPT_SECONDS, AnyEvent, MessageEvent, TextEvent
from orbiter_contracts.transcript_reading import TranscriptReader, read_entry
from worker_wrapper.queue.connection import RedisConnection, RedisUnavailableError
from worker_wrapper.queue.transcript import TranscriptStream

pytestmark = pytest.mark.integration


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
KEY = BARE.task_transcript(UID, 1)
SESSION = BARE.po_transcript("po-1")


async def seen(redis: Redis, key: str = KEY) -> list[AnyEvent]:
    """What a reader has of it."""
    reader = TranscriptReader()
    entries = [read_entry(fields) for _, fields in await redis.xrange(key)]
    assert not [entry.problem for entry in entries if entry.problem]
    return [event for entry in entries for event in reader.take(entry)]


def text(said: str) -> TextEvent:
    return TextEvent(at=NOW, attempt=1, text=said)


def stream(connection: RedisConnection) -> TranscriptStream:
    return TranscriptStream(lambda: connection, KEY, expires=True)


async def test_the_next_pod_counts_on_from_the_last(redis: Redis, redis_server: Any) -> None:
    for said in ("one", "two"):
        async with connected(redis_server.url) as connection:
            pod = stream(connection)
            await pod.append([text(said), text(f"{said}!")])
            await pod.append([text(f"{said}?")])
    events = await seen(redis)
    assert [(event.sequence, event.text) for event in events if event.type == "text"] == [
        *((0, "one"), (1, "one!"), (2, "one?"), (3, "two"), (4, "two!"), (5, "two?")),
    ]
    assert 0 < await redis.ttl(KEY) <= TRANSCRIPT_SECONDS


async def test_what_has_arrived_without_an_answer_is_not_there_twice(
    redis: Redis, redis_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(redis_server.url) as connection:
        run: Callable[..., Awaitable[Any]] = connection.run
        lost = [True]

        async def answer_lost(*words: Any, **given: Any) -> Any:
            answer = await run(*words, **given)
            if lost.pop():
                raise RedisUnavailableError("the connection broke")
            return answer

        monkeypatch.setattr(connection, "run", answer_lost)
        pod, once = stream(connection), [text("once")]
        with pytest.raises(RedisUnavailableError):
            await pod.append(once)
        lost[:] = [True, False]
        await pod.append(once)
        # What was given up, arrived or not, does not pass for what comes next.
        with pytest.raises(RedisUnavailableError):
            await pod.append([text("given up")])
        lost[:] = [False, False]
        await pod.append([text("next")])
    texts = [(event.sequence, event.text) for event in await seen(redis) if event.type == "text"]
    assert texts == [(0, "once"), (1, "given up"), (2, "next")]


LINES = [
    {"type": "system", "subtype": "init"},
    {"type": "stream_event", "event": {"delta": {"type": "text_delta", "text": "I look."}}},
    {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
    },
    {
        "type": "user",
        "message": {
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": f"key {API_KEY}"}]
        },
    },
]


def stream_of(claude: FakeClaude, *lines: dict[str, Any]) -> None:
    """Have the agent print these lines before it answers."""
    says = claude.behaviour
    claude.does("".join(f"echo {shlex.quote(json.dumps(line))}\n" for line in lines) + says)


async def test_a_tasks_worker_writes_what_its_agent_does(
    wrappers: Wrappers, fake_claude: FakeClaude, queues: Queues, redis: Redis
) -> None:
    stream_of(fake_claude, *LINES)
    wrapper = wrappers.start(**await queues.bound_task())
    assert (await queues.output()).status == "success"
    assert await wrapper.exit_code() == 0
    events = await seen(redis)
    kinds = ["text", "tool_call", "tool_result", "usage", "verdict"]
    assert [event.type for event in events] == kinds
    assert [event.sequence for event in events] == [0, 1, 2, 3, 4]
    assert {event.attempt for event in events} == {1}
    assert API_KEY not in str(events)
    assert "[redacted]" in str(events)
    usage = next(event.usage for event in events if event.type == "usage")
    assert (usage.output_tokens, usage.turns) == (5, 1)


async def test_a_sessions_worker_writes_it_message_by_message(
    wrappers: Wrappers, fake_claude: FakeClaude, queues: Queues, redis: Redis
) -> None:
    stream_of(fake_claude, *LINES)
    wrappers.start("po-1", WORKER_TYPE="po")
    for request in ("r-1", "r-2"):
        await queues.message(f"hello, my key is {API_KEY}", request_id=request)
    await queues.answers(2)
    events = await seen(redis, SESSION)
    assert [event.sequence for event in events] == [*range(len(events))]
    requests = [event.request_id for event in events]
    assert requests == sorted(requests)
    assert {*requests} == {"r-1", "r-2"}
    assert [event.type for event in events].count("verdict") == 2
    asked = [event for event in events if event.type == "message"]
    assert [(event.request_id, event.text) for event in asked] == [
        ("r-1", "hello, my key is [redacted]"), ("r-2", "hello, my key is [redacted]"),
    ]  # fmt: skip
    assert events[0].type == "message"


async def test_a_worker_without_a_tasks_record_has_no_transcript(
    wrappers: Wrappers, fake_claude: FakeClaude, queues: Queues, redis: Redis
) -> None:
    stream_of(fake_claude, *LINES)
    await queues.task()
    wrappers.start()
    await queues.output()
    assert not [key for key in await redis.keys() if key.endswith(":transcript")]


async def test_a_full_redis_refuses_the_transcript_and_the_task_comes_to_its_end(
    wrappers: Wrappers, fake_claude: FakeClaude, queues: Queues, redis: Redis
) -> None:
    fake_claude.hold()
    stream_of(fake_claude, *LINES * 20)
    wrapper = wrappers.start(**await queues.bound_task())
    await queues.told("busy")
    await eventually(lambda: len(fake_claude.turns) == 1)
    await redis.config_set("maxmemory", 1)
    try:
        fake_claude.release()
        await wrapper.logged("redis_retry")
        assert await redis.exists(KEY) == 0
    finally:
        await redis.config_set("maxmemory", 0)
    assert (await queues.output()).status == "success"
    assert await wrapper.exit_code() == 0


async def test_a_key_of_another_kind_costs_the_transcript_alone(
    wrappers: Wrappers, fake_claude: FakeClaude, queues: Queues, redis: Redis
) -> None:
    stream_of(fake_claude, *LINES)
    await redis.set(KEY, "mine")
    wrappers.start(**await queues.bound_task())
    assert (await queues.output()).status == "success"
    assert await redis.get(KEY) == "mine"


@pytest.mark.parametrize("namespace", ["team-a"], indirect=True)
async def test_the_operators_user_of_a_session_may_append_and_sets_no_expiry(
    wrappers: Wrappers, fake_claude: FakeClaude, queues: Queues, redis: Redis
) -> None:
    stream_of(fake_claude, *LINES)
    wrappers.start("po-1", WORKER_TYPE="po")
    await queues.message("hello")
    await queues.answers(1)
    key = Keys.of_namespace("team-a").po_transcript("po-1")
    assert [event.type for event in await seen(redis, key)][-1] == "verdict"
    assert await redis.ttl(key) == -1


async def test_a_message_that_only_begins_a_session_is_in_it_too(
    wrappers: Wrappers, fake_claude: FakeClaude, queues: Queues, redis: Redis
) -> None:
    wrappers.start("po-1", WORKER_TYPE="po")
    await queues.message("/new")
    await queues.answers(1)
    said, verdict = await seen(redis, SESSION)
    assert (said.type, verdict.type) == ("message", "verdict")
    assert isinstance(said, MessageEvent)
    assert (said.text, said.request_id) == ("/new", verdict.request_id)
