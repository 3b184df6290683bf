"""Files that hold no task are set aside, and every other task is done."""

import asyncio
import json
import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.strange_values import VALUES, written

from orbiter.tasks import Task, TaskBroker, TaskError, TaskState, TaskStoreJson
from orbiter.tasks._internal import task_file

QUICK = 0.02


async def shout(task):
    return task.input.upper()


def good(**changes):
    return json.loads(Task(id="bad", input="x").model_dump_json()) | changes


def event(payload, **changes):
    return {"task_id": "bad", "event_type": "state_change", "payload": payload} | changes


CONTENTS = {
    "empty": b"",
    "truncated": json.dumps(good()).encode()[:-20],
    "no JSON": b"not at all",
    "no UTF-8": b'{"input": "\xff\xfe"}',
    "zero bytes": b"\0" * 4096,
    "nested": b'{"metadata": {"a": ' + b"[" * 100_000,
    "nested within bounds of the decoder": json.dumps(good()).replace(
        '"metadata": {}', '"metadata": {"a": ' + "[" * 190 + "]" * 190 + "}"
    ).encode() + b"x",
    "a list": b"[]",
    "an integer of many digits": json.dumps(good()).replace(
        '"version": 0', '"version": ' + "9" * 5000
    ).encode(),
    "a version beyond 64 bits": json.dumps(good(version=2**70)).encode(),
    "an unknown state": json.dumps(good(state="lost")).encode(),
    "an event of no state": json.dumps(good(events=[event({})])).encode(),
    "an event of an unknown state": json.dumps(good(events=[event({"state": "lost"})])).encode(),
    "a time without end": json.dumps(good(updated_at="9999-12-31T23:59:59Z")).encode(),
    "another task": json.dumps(good(id="other")).encode(),
}  # fmt: skip


async def three_tasks(store):
    for name in ("first", "bad", "last"):
        await store.create(Task(id=name, input=name))


async def the_others_are_done(directory):
    """Enter a broker as a new process would, and return the store."""
    store = TaskStoreJson(directory)
    async with TaskBroker(store, agent_specs={"default": shout}, poll_interval=QUICK) as broker:
        for name in ("first", "last"):
            assert (await broker.wait(name, timeout=20)).result == name.upper()
        assert (await broker.wait(await broker.submit("new"), timeout=20)).result == "NEW"
        assert await broker.poll("bad") is None
    return store


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("opened", ["before", "after"])
async def test_a_file_that_holds_no_task_is_set_aside_and_all_others_are_done(
    tmp_path, caplog, content, opened
):
    store = TaskStoreJson(tmp_path)
    await three_tasks(store)
    (tmp_path / "bad.json").write_bytes(content)
    if opened == "before":
        assert await store.list_by_state(TaskState.COMPLETED) == []
        assert [t.id for t in await store.list_by_state(TaskState.PENDING)] == ["first", "last"]
    await the_others_are_done(tmp_path)
    assert (tmp_path / "bad.json.unreadable").read_bytes() == content
    assert not (tmp_path / "bad.json").exists()
    said = [r.getMessage() for r in caplog.records if "bad.json' holds no task" in r.getMessage()]
    assert len(said) == 1


def a_directory(path):
    path.mkdir()
    (path / "inside").touch()


KINDS = {
    "a directory": a_directory,
    "a pipe nobody writes to": os.mkfifo,
    "a link to itself": lambda path: path.symlink_to(path),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
async def test_what_is_no_file_is_set_aside_too(tmp_path, make):
    await three_tasks(TaskStoreJson(tmp_path))
    (tmp_path / "bad.json").unlink()
    make(tmp_path / "bad.json")
    await the_others_are_done(tmp_path)
    assert os.path.lexists(tmp_path / "bad.json.unreadable")


async def test_a_file_larger_than_any_task_is_set_aside_unread(tmp_path):
    await three_tasks(TaskStoreJson(tmp_path))
    with (tmp_path / "bad.json").open("r+b") as file:
        file.truncate(task_file.MOST_BYTES + 1)
    await the_others_are_done(tmp_path)
    assert (tmp_path / "bad.json.unreadable").stat().st_size == task_file.MOST_BYTES + 1


@contextmanager
def an_ordinary_user(directory):
    """Root may read everything, so the rest is done as somebody else."""
    if os.geteuid() != 0:
        yield
        return
    directory.chmod(0o777)
    for path in directory.rglob("*"):
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_a_file_that_may_not_be_read_is_set_aside_as_it_is():
    with TemporaryDirectory() as name:
        directory = Path(name)
        await three_tasks(TaskStoreJson(directory))
        content = (directory / "bad.json").read_bytes()
        (directory / "bad.json").chmod(0)
        with an_ordinary_user(directory):
            await the_others_are_done(directory)
        (directory / "bad.json.unreadable").chmod(0o600)
        assert (directory / "bad.json.unreadable").read_bytes() == content


async def test_what_cannot_even_be_renamed_is_said_once_and_left(tmp_path, caplog):
    await three_tasks(TaskStoreJson(tmp_path))
    long = tmp_path / f"{'x' * 250}.json"
    long.write_bytes(b"nothing")
    store = TaskStoreJson(tmp_path)
    for _ in range(3):
        assert await store.list_by_state(TaskState.COMPLETED) == []
    assert long.exists()
    assert caplog.text.count("it stays, because") == 1


async def test_a_task_set_aside_can_be_submitted_again_and_set_aside_again(tmp_path):
    store = TaskStoreJson(tmp_path)
    for number in ("", "-2", "-3"):
        await store.create(Task(id="bad", input="x"))
        (tmp_path / "bad.json").write_bytes(b"{")
        assert await store.get("bad") is None
        assert (tmp_path / f"bad.json.unreadable{number}").exists()


async def test_the_reason_does_not_tell_what_is_in_the_file(tmp_path, caplog):
    store = TaskStoreJson(tmp_path)
    (tmp_path / "bad.json").write_text('{"input": "x", "state": "s3cret", "version": "s3cret"}')
    assert await store.get("bad") is None
    assert "state: Input should be" in caplog.text
    assert "s3cret" not in caplog.text


async def test_markers_and_locks_that_others_have_broken_stop_nobody(tmp_path):
    await three_tasks(TaskStoreJson(tmp_path))
    (tmp_path / ".lock").write_bytes(b"\xff" * 8)
    (tmp_path / ".pending" / "directory").mkdir()
    (tmp_path / ".pending" / "short").touch()
    (tmp_path / ".running" / "%FF%FF-00000000000000000").touch()
    (tmp_path / ".unfinished").mkdir()
    (tmp_path / "bad.json").unlink()
    await the_others_are_done(tmp_path)


async def test_a_task_too_large_to_be_read_again_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(task_file, "MOST_BYTES", 1000)
    store = TaskStoreJson(tmp_path)
    with pytest.raises(TaskError, match=r"is too large: \d+ bytes; 1000 are allowed"):
        await store.create(Task(input="x" * 1000))
    assert await store.next_pending() is None


async def test_times_without_a_zone_are_utc(tmp_path):
    plain = good(created_at="2026-01-02T03:04:05", updated_at="2026-01-02T03:04:05")
    (tmp_path / "bad.json").write_text(json.dumps(plain))
    store = TaskStoreJson(tmp_path)
    await store.create(Task(input="y"))
    found = await store.next_pending()
    assert found is not None
    assert found.created_at.isoformat() == "2026-01-02T03:04:05+00:00"


FIELDS = st.dictionaries(st.sampled_from(list(good())), VALUES, max_size=3)
EVENTS = st.lists(
    st.dictionaries(st.sampled_from(["event_type", "payload", "seq", "timestamp"]), VALUES),
    max_size=3,
)
FILES = st.one_of(
    st.binary(max_size=200),
    VALUES.map(lambda value: written(value).encode()),
    FIELDS.map(lambda fields: written(good() | fields).encode()),
    EVENTS.map(lambda events: written(good(events=events)).encode()),
    st.integers(0, 300).map(lambda end: json.dumps(good()).encode()[:end]),
    st.integers(1, 5000).map(lambda depth: b'{"metadata":' + b'{"a":' * depth),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=FILES)
def test_whatever_is_in_a_file_the_tasks_around_it_are_done(content):
    async def check(directory):
        await three_tasks(TaskStoreJson(directory))
        (directory / "bad.json").write_bytes(content)
        store = TaskStoreJson(directory)
        async with TaskBroker(store, agent_specs={"default": shout}, poll_interval=QUICK) as broker:
            for name in ("first", "last"):
                assert (await broker.wait(name, timeout=20)).result == name.upper()
            await broker._dispatcher._take_in_orphans()
        kept = sorted(path.name for path in directory.glob("bad.json*"))
        assert kept in (["bad.json"], ["bad.json.unreadable"])
        store._thread.shutdown()

    with TemporaryDirectory() as name:
        asyncio.run(check(Path(name)))
