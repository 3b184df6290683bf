"""Attempts in a real Redis: once on the queue, once published, and taken off when withdrawn."""

import asyncio
import time
import tracemalloc
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from support.eventually import eventually
from support.observed import UID, output
from support.queues import open_groups
from support.redis_server import client_of

from orbiter_contracts import (
    Checkpoint,
    DeveloperWorkerInput,
    InvalidMessageError,
    WorkerLifecycleEvent,
    encode,
)
from orbiter_contracts.attempts import Attempt
from orbiter_contracts.checkpoints import MAX_PARTS_BYTES
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, Keys, dead_letter
from orbiter_contracts.scripts import ATTEMPT_TTL_SECONDS, PUBLISH_ATTEMPT
from orbiter_operator.kube.models import RefusedError
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.reconciler import WorkQueue
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.streams.attempts import CONSUMER, Attempts
from orbiter_operator.streams.dead_letters import DeadLetters
from orbiter_operator.streams.pending_outputs import PendingOutputs
from orbiter_operator.streams.reader import Entry
from orbiter_operator.streams.retention import trim_streams
from orbiter_operator.streams.tenants import lag
from orbiter_operator.tasks import resync as resync_module
from orbiter_operator.tasks.cache import TaskCache
from orbiter_operator.tasks.capacity import Capacity
from orbiter_operator.tasks.resync import TaskResync


def now_ms():
    return time.time_ns() // 1_000_000


pytestmark = pytest.mark.integration
FIRST = Attempt("team/fix", UID, 1)
MESSAGE = DeveloperWorkerInput(request_id="r", task_id="t", prompt="do it")
EVENT = WorkerLifecycleEvent(worker_id="team.fix-1", event="failed")


@pytest.fixture
async def attempts(redis):
    made = Attempts(redis)
    await open_groups(redis)
    return made


async def test_an_attempt_is_one_entry_however_often_it_is_admitted(redis, attempts):
    first = await attempts.admit(FIRST, MESSAGE)
    second = await attempts.admit(FIRST, MESSAGE)
    assert first == second
    ((entry, fields),) = await redis.xrange(BARE.developer_input)
    assert entry == first.entry
    assert (fields["agenttask"], fields["attempt"]) == ("team/fix", "1")


async def test_an_output_is_published_once_and_takes_the_entry_off_the_queue(redis, attempts):
    record = await attempts.admit(FIRST, MESSAGE)
    assert await attempts.publish(FIRST, record.entry, output("failed"), EVENT)
    assert await attempts.publish(FIRST, record.entry, output("failed"), EVENT) is None
    assert await redis.xlen(BARE.developer_input) == 0
    assert await redis.xlen(BARE.developer_output) == 1
    assert await redis.xlen(BARE.lifecycle) == 1


async def test_what_was_published_can_be_read_whoever_consumed_it(attempts):
    record = await attempts.admit(FIRST, MESSAGE)
    await attempts.publish(FIRST, record.entry, output("failed", error="because"), EVENT)
    found = await attempts.read(FIRST)
    assert found.output.error == "because"
    assert (await attempts.admit(FIRST, MESSAGE)).output.error == "because"


async def test_an_unknown_attempt_has_an_empty_record(attempts):
    found = await attempts.read(FIRST)
    assert (found.entry, found.output) == (None, None)


@pytest.mark.parametrize("field", ["entry", "output", "checkpoint"])
async def test_what_is_too_long_in_a_record_does_not_leave_redis(redis, attempts, field):
    await redis.hset(FIRST.record, field, "1" * 32 * 1024 * 1024)
    tracemalloc.start()
    found = await attempts.read(FIRST)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.entry, found.output_id, found.checkpoint) == (None, None, None)
    assert peak < 4 * 1024 * 1024


async def test_a_record_of_another_kind_says_nothing(redis, attempts):
    await redis.set(FIRST.record, "in the way")
    found = await attempts.read(FIRST)
    assert (found.entry, found.output_id, found.checkpoint) == (None, None, None)
    await attempts.withdraw(FIRST)


KEPT = Checkpoint(time=datetime(2026, 1, 2, tzinfo=UTC), generation=4, turns=9, session=True)
SOURCE = Attempt("team/old", "u-old", 2)


async def leave(redis, session="said", workspace="done"):
    """What another task's attempt has left, with something else beside it."""
    parts = {"4:session": session, "4:workspace": workspace, "99:session": "x" * 3_000_000}
    await redis.hset(SOURCE.checkpoint, mapping=parts)


async def test_of_a_checkpoint_its_own_parts_are_copied_and_nothing_else(redis, attempts):
    await leave(redis)
    await attempts.inherit(FIRST, SOURCE, KEPT)
    copied = {"4:session": "said", "4:workspace": "done"}
    assert await redis.hgetall(FIRST.checkpoint) == copied
    assert (await attempts.read(FIRST)).checkpoint == KEPT.model_copy(update={"turns": 0})
    await redis.expire(SOURCE.checkpoint, 0)
    await attempts.inherit(FIRST, SOURCE, KEPT)
    assert await redis.hgetall(FIRST.checkpoint) == copied


@pytest.mark.parametrize(
    ("session", "workspace", "why"),
    [
        ("x" * (MAX_PARTS_BYTES + 1), "", "is larger than 1048640 bytes"),
        ("x" * 600_000, "x" * 600_000, "is larger than 1048640 bytes"),
        (None, "", "is gone"),
    ],
)
async def test_a_checkpoint_beyond_the_bounds_is_refused_with_a_reason(
    redis, attempts, session, workspace, why
):
    parts = {"4:session": session, "4:workspace": workspace}
    await redis.hset(SOURCE.checkpoint, mapping={k: v for k, v in parts.items() if v is not None})
    with pytest.raises(RefusedError, match=why) as refused:
        await attempts.inherit(FIRST, SOURCE, KEPT)
    assert refused.value.refusal.reason == "NothingToResume"
    assert not await redis.exists(FIRST.record, FIRST.checkpoint)


async def test_a_checkpoint_of_another_kind_is_refused_with_a_reason(redis, attempts):
    await redis.set(SOURCE.checkpoint, "in the way")
    with pytest.raises(RefusedError, match="is damaged"):
        await attempts.inherit(FIRST, SOURCE, KEPT)


async def test_with_a_deleted_task_its_checkpoint_goes(redis, attempts):
    await attempts.admit(FIRST, MESSAGE)
    await redis.hset(FIRST.checkpoint, "1:session", "said")
    await attempts.withdraw(FIRST)
    assert not await redis.exists(FIRST.checkpoint)


async def test_an_output_that_was_trimmed_or_is_nonsense_is_reported_as_such(redis, attempts):
    await redis.hset(FIRST.record, mapping={"entry": "1-0", "output": "2-0"})
    assert (await attempts.read(FIRST)).output.reason == "InvalidMessage"
    entry = await redis.xadd(BARE.developer_output, {"data": "nonsense"})
    await redis.hset(FIRST.record, "output", entry)
    assert (await attempts.read(FIRST)).output.reason == "InvalidMessage"


async def test_a_withdrawn_attempt_is_off_the_queue_and_its_worker_is_superseded(redis, attempts):
    record = await attempts.admit(FIRST, MESSAGE)
    await attempts.withdraw(FIRST)
    assert await redis.xlen(BARE.developer_input) == 0
    publish = redis.register_script(PUBLISH_ATTEMPT)
    keys = [FIRST.record, BARE.developer_input, BARE.developer_output, BARE.lifecycle]
    texts = output().model_dump_json(), EVENT.model_dump_json()
    told = await publish(keys, [60, record.entry, DEVELOPER_GROUP, *texts, FIRST.task, 1])
    assert told is None
    assert await redis.xlen(BARE.developer_output) == 0


async def test_what_somebody_else_took_off_the_queue_is_answered_in_the_workers_place(
    redis, attempts
):
    record = await attempts.admit(FIRST, MESSAGE)
    await redis.xtrim(BARE.developer_input, maxlen=0, approximate=False)
    assert await attempts.publish(FIRST, record.entry, output("failed"), EVENT)
    assert await attempts.publish(FIRST, record.entry, output("failed"), EVENT) is None
    assert await redis.xlen(BARE.developer_output) == 1


async def test_creating_the_groups_again_changes_nothing(redis, attempts):
    await open_groups(redis)


async def foreign(redis, consumer=None):
    """An entry from outside, read by a consumer."""
    entry = await redis.xadd(BARE.developer_input, encode(MESSAGE))
    if consumer:
        await redis.xreadgroup(DEVELOPER_GROUP, consumer, {BARE.developer_input: ">"})
    return entry


async def test_an_entry_we_hold_becomes_the_attempts_entry(redis, attempts):
    entry = await foreign(redis, CONSUMER)
    assert await attempts.adopt(FIRST, entry, "team.fix-1") is None
    assert (await attempts.read(FIRST)).entry == entry


async def test_an_entry_a_living_worker_holds_is_left_to_it(redis, attempts):
    entry = await foreign(redis, "worker-7")
    assert "worker-7" in await attempts.adopt(FIRST, entry, "team.fix-1")
    (pending,) = await redis.xpending_range(BARE.developer_input, DEVELOPER_GROUP, "-", "+", 10)
    assert pending["consumer"] == "worker-7"


async def test_an_entry_our_own_worker_holds_stays_with_it(redis, attempts):
    entry = await foreign(redis, "team.fix-1")
    assert await attempts.adopt(FIRST, entry, "team.fix-1") is None
    (pending,) = await redis.xpending_range(BARE.developer_input, DEVELOPER_GROUP, "-", "+", 10)
    assert pending["consumer"] == "team.fix-1"


async def test_an_entry_that_was_answered_meanwhile_is_not_run_again(redis, attempts):
    entry = await foreign(redis)
    await redis.xdel(BARE.developer_input, entry)
    assert "answered by another worker" in await attempts.adopt(FIRST, entry, "team.fix-1")


async def test_an_entry_that_is_bound_to_another_task_is_nobody_elses(redis, attempts):
    record = await attempts.admit(Attempt("other/victim", "u2", 1), MESSAGE)
    assert "other/victim" in await attempts.adopt(FIRST, record.entry, "team.fix-1")
    assert await redis.xpending_range(BARE.developer_input, DEVELOPER_GROUP, "-", "+", 10) == []


def known(phase="Running"):
    """A store with the task that the attempts here belong to."""
    store = TaskCache(lambda key: None)
    meta = {"namespace": "team", "name": "fix", "uid": UID, "resourceVersion": "1"}
    store.put({"metadata": meta, "spec": {}, "status": {"phase": phase}})
    assert store.get(Key("team", "fix"))
    return store


@pytest.mark.parametrize(
    ("store", "left"),
    [(known(), 1), (known("Completed"), 0), (TaskCache(lambda key: None), 0)],
)
async def test_entries_whose_task_is_gone_or_done_are_swept(redis, attempts, store, left):
    await attempts.admit(FIRST, MESSAGE)
    assert await trim_streams(redis, store.unfinished, now_ms) == 1 - left
    assert await redis.xlen(BARE.developer_input) == left


async def test_entries_of_an_earlier_task_of_the_same_name_are_swept(redis, attempts):
    await attempts.admit(Attempt("team/fix", "earlier", 1), MESSAGE)
    assert await trim_streams(redis, known().unfinished, now_ms) == 1


async def test_one_whose_attempt_nobody_can_read_is_a_dead_letter_however_early_it_is_swept(
    redis, attempts
):
    counted = []
    await redis.xadd(BARE.developer_input, {"agenttask": "team/fix", "attempt": "²"})
    for _ in range(2):
        swept = await trim_streams(redis, known().unfinished, now_ms, BARE, counted.append)
        assert (swept, await redis.xlen(BARE.developer_input)) == (0, 0)
    ((_, letter),) = await redis.xrange(dead_letter(BARE.developer_input))
    assert letter["agenttask"] == "team/fix"
    assert "attempt: not a number" in letter["reason"]
    assert counted == [BARE.developer_input]


async def test_one_of_another_namespaces_task_is_a_dead_letter_however_early_it_is_swept(redis):
    other = Keys.of_namespace("other")
    await redis.xadd(other.developer_input, {"agenttask": "team/fix", "attempt": "1", "data": "x"})
    assert await trim_streams(redis, known().unfinished, now_ms, other) == 0
    assert await redis.xlen(other.developer_input) == 0
    ((_, letter),) = await redis.xrange(dead_letter(other.developer_input))
    assert "team/fix is no task of this stream, which is of namespace other" in letter["reason"]


async def test_of_two_who_take_an_entry_off_one_writes_its_letter(redis, attempts):
    entry = Entry(await redis.xadd(BARE.developer_input, {"data": "x"}), {"data": "x"})
    counted = []
    letters = DeadLetters(redis, counted.append)
    for _ in range(2):
        await letters.add(
            BARE.developer_input, DEVELOPER_GROUP, entry, InvalidMessageError("no"), remove=True
        )
    assert await redis.xlen(dead_letter(BARE.developer_input)) == 1
    assert counted == [BARE.developer_input]


async def test_entries_from_outside_are_not_swept(redis, attempts):
    await foreign(redis)
    assert await trim_streams(redis, known().unfinished, now_ms) == 0


async def test_old_answers_go_and_recent_ones_stay(redis, attempts):
    day = 24 * 3600 * 1000
    for number in range(300):
        await redis.xadd(BARE.developer_output, {"data": "x"}, id=f"{number + 1}-0")
    await redis.xadd(BARE.developer_output, {"data": "x"}, id=f"{9 * day}-0")
    await trim_streams(redis, known().unfinished, lambda: 10 * day)
    left = await redis.xrange(BARE.developer_output)
    assert left[-1][0] == f"{9 * day}-0"
    assert len(left) <= 101


async def test_what_nobody_has_read_is_the_lag(redis, attempts):
    await redis.xadd(BARE.lifecycle, {"data": "x"})
    assert await lag(redis) == 1


def resync_of(redis, **phases):
    store = TaskCache(lambda key: None)
    for number, (name, phase) in enumerate(phases.items(), start=1):
        meta = {"namespace": "team", "name": name, "uid": f"u-{number}", "resourceVersion": "1"}
        status = {"phase": phase, "attempts": 2}
        store.put({"metadata": meta, "spec": {}, "status": status})
    return TaskResync(
        informers=(),
        store=store,
        capacity=Capacity(lambda _: 5),
        queue=WorkQueue(time.monotonic),
        redis=redis,
        tenants=SimpleNamespace(keys=Keys.of_namespace, served=(BARE,)),
        pending=PendingOutputs(),
        every=3600,
        dead=lambda stream: None,
    )


@pytest.mark.parametrize("keys", [BARE, Keys.of_namespace("team")], ids=["shared", "its own"])
async def test_what_is_kept_of_a_task_that_has_not_ended_does_not_lapse(redis, keys):
    """It may wait for weeks: in a queue of Kueue, or for the answer to its question."""
    resync = resync_of(redis, asks="InputRequired", waits="Pending", done="Failed", old="Running")
    lapsing = {}
    for uid in ("u-1", "u-2", "u-3"):
        attempt = Attempt("team/any", uid, 2, keys)
        for key in (attempt.record, attempt.checkpoint):
            await redis.hset(key, "field", "x")
        await redis.set(keys.task_snapshot(uid), "x")
        lapsing[uid] = (attempt.record, attempt.checkpoint, keys.task_snapshot(uid))
        for key in lapsing[uid]:
            await redis.expire(key, 60)
    await resync.renew()
    for uid, found in lapsing.items():
        lasts = [await redis.ttl(key) > ATTEMPT_TTL_SECONDS - 60 for key in found]
        assert lasts == [uid != "u-3"] * 3
    assert not await redis.exists(Attempt("team/old", "u-4", 2, keys).record)


async def test_a_server_that_does_not_say_who_it_is_still_tells_its_memory(redis, monkeypatch):
    resync = resync_of(redis)
    info = redis.info

    async def unnamed(section):
        return {**await info(section), "run_id": None}

    monkeypatch.setattr(redis, "info", unnamed)
    watching = asyncio.create_task(resync.watch_lag())
    try:
        await eventually(lambda: "orbiter_redis_memory_bytes" in resync.gauges)
    finally:
        await end({watching})


async def test_what_comes_back_with_another_server_is_swept_soon(own_redis_server, monkeypatch):
    """A replica may know entries of tasks that have ended; the next sweep is in an hour."""
    monkeypatch.setattr(resync_module, "_LAG_SECONDS", 0.05)
    async with client_of(own_redis_server) as redis:
        resync = resync_of(redis, fix="Completed")
        parts = {asyncio.create_task(part()) for part in (resync.sweep, resync.watch_lag)}
        await eventually(lambda: "orbiter_redis_memory_bytes" in resync.gauges)
        own_redis_server.kill()
        own_redis_server.start()
        async with client_of(own_redis_server) as other:
            await other.xadd(
                BARE.developer_input, encode(MESSAGE, agenttask="team/fix", attempt="1")
            )

            async def swept():
                return await other.xlen(BARE.developer_input) == 0

            await eventually(swept)
        await end(parts)
