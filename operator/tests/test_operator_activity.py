"""What an agent does now, in `status.progress` and in `kubectl get`: by its transcript's end."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.observed import decide, output, record, running, running_pod

from orbiter_contracts.queues import Keys
from orbiter_contracts.transcript import (
    MAX_ENTRY_BYTES,
    MAX_NAME_CHARACTERS,
    TRANSCRIPT_BYTES,
    ToolCallEvent,
)
from orbiter_operator.kube.names import Key
from orbiter_operator.streams.pending_outputs import PendingOutputs
from orbiter_operator.tasks.activity import Activity, Tasks, activity
from orbiter_operator.tasks.cache import TaskCache

AT = datetime(2026, 1, 10, 12, tzinfo=UTC)
KEYS = Keys.of_namespace("team")
FIX = Key("team", "fix")


def call(tool: str, arguments: str = "") -> ToolCallEvent:
    return ToolCallEvent(at=AT, attempt=1, tool_name=tool, arguments=arguments)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("Edit", {"file_path": "/workspace/src/login.py"}, "edits src/login.py"),
        ("write_file", {"path": "a.txt", "content": "x"}, "writes a.txt"),
        ("Bash", {"command": "pytest\n -q"}, "runs pytest -q"),
        ("Grep", {"pattern": "def x"}, "searches def x"),
        ("read", {"filePath": "b"}, "reads b"),
        ("WebFetch", {"url": "https://example.com"}, "fetches https://example.com"),
        ("TodoWrite", {}, "plans"),
        ("todo_list", {"items": [{"text": "a"}]}, "plans"),
        ("list_directory", {"path": "src"}, "searches src"),
        ("file_change", {"changes": [{"path": "/workspace/a.py"}, {"path": "b"}]}, "edits a.py, b"),
        ("shell", {"command": ["bash", "-lc", "ls"]}, "runs bash -lc ls"),
        ("mcp__shop__orders", {"id": 7}, "uses mcp__shop__orders"),
    ],
)
def test_a_call_is_told_in_a_few_words(tool: str, arguments: dict[str, Any], words: str) -> None:
    assert activity(call(tool, json.dumps(arguments))) == words


@given(st.text(max_size=MAX_NAME_CHARACTERS), st.text() | st.sampled_from(["[" * 8000, "{}", "7"]))
def test_whatever_a_call_is_the_words_are_a_short_line(tool: str, arguments: str) -> None:
    try:
        event = call(tool, arguments)
    except ValueError:
        return
    words = activity(event)
    assert words is None or (words.isprintable() and len(words) <= 100)


def test_while_it_runs_the_status_says_what_the_agent_does() -> None:
    works = running(pods=(running_pod(),), doing="edits src/a_very_long_name/of_a_module.py")
    status = decide(works).status
    assert (status.phase, status.message) == ("Running", "the agent works")
    assert status.progress == "edits src/a_very_long_name/of_a_module.py"
    assert status.headline == "edits src/a_very_long_name/of_a_mo…"
    ended = decide(running(doing="edits a.py", **record(output()))).status
    assert (ended.phase, ended.progress) == ("Completed", None)


def polling(redis, tasks: Tasks, pending: PendingOutputs, enqueued: list[Key]) -> Activity:
    return Activity(
        redis=redis,
        tasks=tasks,
        keys=lambda _: KEYS,
        pending=pending,
        enqueue=enqueued.append,
    )


@pytest.mark.integration
async def test_the_words_are_those_of_the_last_call_and_told_once(redis) -> None:
    tasks = {
        FIX: {"metadata": {"uid": "u-1"}, "status": {"phase": "Running", "attempts": 2}},
        Key("team", "new"): {"metadata": {"uid": "u-2"}, "status": {"phase": "Pending"}},
    }
    pending, enqueued = PendingOutputs(), list[Key]()
    agents = polling(redis, tasks, pending, enqueued)
    await agents.check()
    stream = KEYS.task_transcript("u-1", 2)
    await redis.xadd(stream, {"data": b"\xff no events"})
    await agents.check()
    assert (enqueued, pending.doing(FIX, 2)) == ([], None)
    said = [
        {"type": "tool_call", "tool_name": "Edit", "arguments": json.dumps({"path": "a.py"})},
        {"type": "tool_result", "content": "x"},
    ]
    at = {"at": AT.isoformat(), "attempt": 2}
    events = [{"sequence": number, **at, **each} for number, each in enumerate(said)]
    await redis.xadd(stream, {"data": json.dumps(events), "next": "2", "end": "0"})
    await agents.check()
    await agents.check()
    assert enqueued == [FIX]
    assert (pending.doing(FIX, 2), pending.doing(FIX, 1)) == ("edits a.py", None)
    spoken = {"type": "text", "text": "Now I look at the tests."}
    for number, each in enumerate((said[0] | {"tool_name": "Read"}, spoken, spoken), start=2):
        event = {"sequence": number, **at, **each}
        await redis.xadd(stream, {"data": json.dumps([event]), "next": f"{number + 1}", "end": "0"})
    await agents.check()
    assert (len(enqueued), pending.doing(FIX, 2)) == (2, "reads a.py")
    pending.nobody(FIX)
    assert pending.doing(FIX, 2) is None


@pytest.mark.integration
@pytest.mark.parametrize(
    ("spec", "words"), [({"queueName": "team"}, "edits a.py"), ({"managedBy": "acme.com/x"}, None)]
)
async def test_a_task_of_kueues_is_told_of_without_a_slot_and_another_programs_is_not(
    redis, spec: dict[str, str], words: str | None
) -> None:
    tasks, pending = TaskCache(lambda _: None), PendingOutputs()
    meta = {"name": "fix", "namespace": "team", "uid": "u-1", "resourceVersion": "1"}
    tasks.put({"metadata": meta, "spec": spec, "status": {"phase": "Running", "attempts": 1}})
    said = call("Edit", json.dumps({"path": "a.py"})).model_dump(mode="json", exclude_none=True)
    await redis.xadd(KEYS.task_transcript("u-1", 1), {"data": json.dumps([said])})
    await polling(redis, tasks, pending, []).check()
    assert pending.doing(FIX, 1) == words


@pytest.mark.integration
async def test_an_entry_of_any_size_stays_in_redis_and_those_before_it_are_told(redis) -> None:
    """A worker's user may append 512 MiB in one entry, and an operator may have as much in all."""
    tasks = {FIX: {"metadata": {"uid": "u-1"}, "status": {"phase": "Running", "attempts": 1}}}
    pending = PendingOutputs()
    agents = polling(redis, tasks, pending, [])
    stream = KEYS.task_transcript("u-1", 1)
    said = call("Edit", json.dumps({"path": "a.py"})).model_dump(mode="json", exclude_none=True)
    await redis.xadd(stream, {"data": json.dumps([said])})
    large = 2 * 1024 * 1024
    await redis.xadd(stream, {"data": "x" * large})
    await redis.xadd(stream, {"x" * large: "y", "other": "x" * large, "data": b"[]"})
    before = (await redis.info("stats"))["total_net_output_bytes"]
    await agents.check()
    sent = (await redis.info("stats"))["total_net_output_bytes"] - before
    assert pending.doing(FIX, 1) == "edits a.py"
    assert sent < MAX_ENTRY_BYTES, "what is too large is not sent"


@pytest.mark.integration
async def test_all_that_is_read_of_a_transcript_has_a_bound(redis) -> None:
    tasks = {FIX: {"metadata": {"uid": "u-1"}, "status": {"phase": "Running", "attempts": 1}}}
    agents = polling(redis, tasks, PendingOutputs(), [])
    for _ in range(20):
        junk = b"x" * MAX_ENTRY_BYTES
        await redis.xadd(KEYS.task_transcript("u-1", 1), {"data": junk})
    before = (await redis.info("stats"))["total_net_output_bytes"]
    await agents.check()
    sent = (await redis.info("stats"))["total_net_output_bytes"] - before
    assert sent < TRANSCRIPT_BYTES + MAX_ENTRY_BYTES
