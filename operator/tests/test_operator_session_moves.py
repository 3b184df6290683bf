"""Sessions of a namespace with keys of its own, and how those of before come to them."""

import time

import pytest
from support.eventually import eventually
from support.running_sessions import running_sessions
from support.talks import NAMESPACE, Talks

from orbiter_contracts import POWorkerInput, WorkerLifecycleEvent, encode
from orbiter_contracts.queues import BARE, PO_GROUP, Keys, dead_letter
from orbiter_operator.runtime.reconciler import WorkQueue
from orbiter_operator.sessions.cache import SessionCache, SessionResync, session_key
from orbiter_operator.sessions.migration import Migration, keys_in_use
from orbiter_operator.sessions.models import DeploymentState
from orbiter_operator.sessions.streams import Record, SessionQueues, registry_key
from orbiter_operator.streams.reader import LAST_ID

TEAM = Keys.of_namespace("team")
WORKER = "team.alice"
REGISTRY = registry_key("orbiter-system", "orbiter-operator")
RECORD = Record("u", "team", "alice", WORKER, retain=False, prefix=TEAM.prefix)


@pytest.fixture
def talks(world):
    return Talks(world.api, world.redis, TEAM)


@pytest.fixture
def before(world):
    """What is said under the names without a prefix."""
    return Talks(world.api, world.redis)


def streams(talks):
    status = talks.status("alice")
    return status.get("inputStream"), status.get("outputStream")


OURS = TEAM.po_input(WORKER), TEAM.po_output(WORKER)
OLD = BARE.po_input(WORKER), BARE.po_output(WORKER)


def deployment(prefix, replicas):
    return DeploymentState(name="alice", uid="d", owner="u", replicas=replicas, prefix=prefix)


@pytest.mark.parametrize(
    ("own", "stream", "found", "place"),
    [
        (BARE, None, None, BARE),
        (BARE, OURS[0], deployment(TEAM.prefix, 1), BARE),
        (TEAM, None, None, TEAM),
        (TEAM, OLD[0], None, TEAM),
        (TEAM, OLD[0], deployment("", 0), TEAM),
        (TEAM, OLD[0], deployment("", 1), BARE),
        (TEAM, OURS[0], deployment(TEAM.prefix, 1), TEAM),
        (TEAM, OURS[0], deployment("{other}:", 1), BARE),
    ],
)
def test_a_session_is_where_its_worker_is_until_it_sleeps(own, stream, found, place):
    assert keys_in_use(own, {"status": {"inputStream": stream}}, found, ()) == place


@pytest.mark.integration
async def test_a_session_wakes_answers_and_sleeps_under_its_namespaces_keys(world, talks):
    talks.apply("alice", userId=7)
    async with running_sessions(world.api, world.server, key_prefixes=True) as running:
        await talks.until("alice", "Asleep")
        assert streams(talks) == OURS
        await talks.send("alice")
        assert await talks.answered("alice") == ["re: hello"]
        await talks.until("alice", "Asleep")
        found = world.api.get("deployments", NAMESPACE, "alice")
        (container,) = found["spec"]["template"]["spec"]["containers"]
        environment = {item["name"]: item.get("value") for item in container["env"]}
        assert environment["KEY_PREFIX"] == "{team}:"
        assert environment["SESSION_RECORD_PREFIX"] == TEAM.session_records()
        assert environment["SNAPSHOT_KEY"] == TEAM.po_snapshot(WORKER)
        assert not await world.redis.exists(*BARE.po_keys(WORKER))
        assert running.metric("orbiter_session_turns_total") == 1
        talks.change("alice", operatingMode="Suspended")
        await talks.until("alice", "Suspended")
        assert await world.redis.hget(TEAM.po_hold(WORKER), "reason") == "Suspended"
        talks.delete("alice")

        async def gone():
            return not await world.redis.exists(*TEAM.po_keys(WORKER), REGISTRY)

        await eventually(gone)


@pytest.mark.integration
async def test_what_another_namespace_says_of_a_worker_is_not_heard(world, talks):
    talks.apply("alice")
    async with running_sessions(world.api, world.server, key_prefixes=True) as running:
        await talks.until("alice", "Asleep")
        busy = WorkerLifecycleEvent(worker_id=WORKER, event="busy")
        heard = []
        running.sessions._observer.hear = lambda worker, event: heard.append((worker, event))
        for keys in (Keys.of_namespace("other"), BARE, TEAM):
            running.sessions.heard(busy, keys)
        assert heard == [(WORKER, "busy")]


async def converse(world, before, **settings):
    """A conversation under the names without a prefix, asleep."""
    before.apply("alice", userId=7)
    async with running_sessions(world.api, world.server, **settings):
        await before.send("alice")
        assert await before.answered("alice") == ["re: hello"]
        await before.until("alice", "Asleep")
    await world.redis.set(BARE.po_snapshot(WORKER), "memory")
    await world.redis.rpush(BARE.po_turns(WORKER), "{}")
    await world.redis.set(f"{BARE.session_records('team')}7", '{"session_id": "s"}')


@pytest.mark.integration
async def test_a_session_that_sleeps_takes_all_it_has_to_its_new_keys(world, talks, before):
    await converse(world, before)
    turns = before.status("alice")["turns"]
    await before.send("alice", "while nobody was there")
    async with running_sessions(world.api, world.server, key_prefixes=True):
        assert await talks.answered("alice", 2) == ["re: hello", "re: while nobody was there"]
        # The worker of before may have answered while it ended: the status is what says it moved.
        await eventually(lambda: streams(talks) == OURS)
        await talks.until("alice", "Asleep")
        assert talks.status("alice")["turns"] == turns + 1
    assert await world.redis.get(TEAM.po_snapshot(WORKER)) == "memory"
    assert await world.redis.lrange(TEAM.po_turns(WORKER), 0, -1) == ["{}"]
    assert await world.redis.get(TEAM.session_record(7)) == '{"session_id": "s"}'
    left = (*BARE.po_keys(WORKER), f"{BARE.session_records('team')}7")
    assert not await world.redis.exists(*left)
    assert max(world.sessions.runs.values()) == 1


@pytest.mark.integration
async def test_a_session_that_is_awake_stays_until_it_sleeps(world, talks, before):
    before.apply("alice")
    async with running_sessions(world.api, world.server):
        await before.send("alice", "sleep=3")
        await before.until_in_turn("alice")
    async with running_sessions(world.api, world.server, key_prefixes=True):
        await before.send("alice", "second")
        await before.until("alice", "Busy")
        assert streams(before) == OLD
        await eventually(lambda: streams(talks) == OURS)
        assert await talks.answered("alice", 2) == ["re: sleep=3", "re: second"]
        await talks.until("alice", "Asleep")
    assert max(world.sessions.runs.values()) == 1
    assert world.sessions.beside == 1


@pytest.mark.integration
async def test_who_still_writes_under_the_old_name_is_answered_all_the_same(world, talks, before):
    await converse(world, before)
    async with running_sessions(world.api, world.server, key_prefixes=True, resync=0.2):
        await eventually(lambda: streams(talks) == OURS)
        await before.send("alice", "late")
        assert await talks.answered("alice", 2) == ["re: hello", "re: late"]


@pytest.mark.integration
async def test_a_session_deleted_before_it_moved_leaves_nothing(world, talks, before):
    await converse(world, before)
    before.delete("alice")
    async with running_sessions(world.api, world.server, key_prefixes=True):

        async def gone():
            return not await world.redis.exists(
                *BARE.po_keys(WORKER), *TEAM.po_keys(WORKER), REGISTRY
            )

        await eventually(gone)


@pytest.mark.integration
async def test_moving_twice_or_after_a_crash_changes_nothing(redis):
    queues, migration = SessionQueues(redis, REGISTRY), Migration(redis)
    await queues.observe(RECORD._replace(prefix=""))
    message = encode(POWorkerInput(user_id=1, prompt="hello"))
    held = await redis.xadd(OLD[0], message)
    await redis.xreadgroup(PO_GROUP, "w", {OLD[0]: ">"})
    waits = await redis.xadd(OLD[0], message)
    for _ in range(2):
        await migration.move(WORKER, 7, TEAM)
    found = await queues.observe(RECORD)
    assert (found.pending, found.undelivered) == (1, 1)
    assert [entry for entry, _ in await redis.xrange(OURS[0])] == [held, waits]
    assert not await redis.exists(*OLD)


@pytest.mark.integration
async def test_what_comes_late_is_put_behind_what_is_there(redis):
    queues, migration = SessionQueues(redis, REGISTRY), Migration(redis)
    await queues.observe(RECORD)
    await redis.xadd(OURS[0], {"data": "first"})
    for number in range(250):
        await redis.xadd(OLD[0], {"data": str(number)})
    await redis.xadd(OLD[0], {str(number): "" for number in range(5000)})
    await redis.set(BARE.po_snapshot(WORKER), "old")
    await redis.set(TEAM.po_snapshot(WORKER), "new")
    assert await migration.left_behind([WORKER, "team.bob"]) == [WORKER]
    await migration.move(WORKER, 7, TEAM)
    told = [fields["data"] for _, fields in await redis.xrange(OURS[0])]
    assert told == ["first", *map(str, range(250))]
    ((_, letter),) = await redis.xrange(dead_letter(OURS[0]))
    assert "too many fields" in letter["reason"]
    assert await redis.get(TEAM.po_snapshot(WORKER)) == "new"
    assert await migration.left_behind([WORKER]) == []


RELEASED = BARE.session_record(7)
"""Where the first version has a user's record, of whichever namespace."""


async def has_record(redis, kind, session):
    """A record as a front end, or a worker, has put it there."""
    if kind == "hash":
        await redis.hset(RELEASED, mapping={"session_id": session, "theirs": "1"})
    else:
        await redis.set(RELEASED, kind.replace("SESSION", session), ex=1000)


@pytest.mark.integration
@pytest.mark.parametrize("kind", ['{"session_id": "SESSION", "theirs": 1}', "hash"])
async def test_the_record_of_the_first_version_goes_with_the_session_that_it_names(redis, kind):
    await has_record(redis, kind, "s-1")
    await redis.hset(BARE.po_state(WORKER), "session_id", "s-1")
    kept = await redis.dump(RELEASED)
    for _ in range(2):
        await Migration(redis).move(WORKER, 7, TEAM)
    assert await redis.dump(TEAM.session_record(7)) == kept
    assert not await redis.exists(RELEASED)
    assert (await redis.ttl(TEAM.session_record(7)) > 900) == (kind != "hash")


@pytest.mark.integration
@pytest.mark.parametrize("kind", ['{"session_id": "SESSION"}', "hash", "{", "[]", "[" * 9999])
async def test_a_record_that_names_another_session_is_anothers(redis, kind):
    await has_record(redis, kind, "of the namespace that has no keys of its own")
    await redis.hset(BARE.po_state(WORKER), "session_id", "s-1")
    await Migration(redis).move(WORKER, 7, TEAM)
    assert await redis.exists(RELEASED)
    assert not await redis.exists(TEAM.session_record(7))


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["{}", '{"session_id": null}', '{"session_id": ""}'])
async def test_a_session_that_has_said_nothing_takes_no_record(redis, kind):
    await has_record(redis, kind, "")
    await Migration(redis).move(WORKER, 7, TEAM)
    await redis.hset(BARE.po_state(WORKER), "session_id", "")
    await Migration(redis).move(WORKER, 7, TEAM)
    assert await redis.exists(RELEASED)


def asleep(namespace, name, stream):
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"},
        "spec": {"userId": 1},
        "status": {"replicas": 0, "inputStream": stream, "pendingMessages": 0},
    }


def resync_of(redis, keys, *sessions):
    """A comparison of these sessions, and the queue that it puts keys on."""
    queue = WorkQueue(time.monotonic)
    store = SessionCache(lambda key: None)
    for obj in sessions:
        store.put(obj)
    queues, migration = SessionQueues(redis, REGISTRY), Migration(redis)
    kept = {"store": store, "queues": queues, "migration": migration, "queue": queue}
    return SessionResync(**kept, kube=None, namespaces=(), keys=keys), queue


@pytest.mark.integration
@pytest.mark.parametrize("named", [OURS[0], OLD[0], "nobody's", {"deep": [1]}, 7, ""])
async def test_a_status_that_names_anothers_stream_speaks_for_nobody_else(redis, named):
    alice, mallory = asleep("team", "alice", OURS[0]), asleep("other", "mallory", named)
    resync, queue = resync_of(redis, Keys.of_namespace, alice, mallory)
    await SessionQueues(redis, REGISTRY).observe(RECORD, hold=None)
    await redis.xadd(OURS[0], {"data": "{}"})
    await resync.compare_streams()
    assert session_key("team", "alice") in queue._queued


@pytest.mark.integration
async def test_a_stream_that_takes_no_more_entries_stops_nobody_elses_comparison(redis):
    alice = asleep("team", "alice", OURS[0])
    bob = asleep("team", "bob", TEAM.po_input("team.bob"))
    resync, queue = resync_of(redis, Keys.of_namespace, alice, bob)
    for name in ("alice", "bob"):
        record = RECORD._replace(uid=name, name=name, worker_id=f"team.{name}")
        await SessionQueues(redis, REGISTRY).observe(record, hold=None)
    await redis.xadd(OURS[0], {"data": "{}"}, id=LAST_ID)
    await redis.xadd(OLD[0], {"data": "{}"})
    await redis.xadd(TEAM.po_input("team.bob"), {"data": "{}"})
    await resync.compare_streams()
    assert session_key("team", "bob") in queue._queued
    assert await redis.xlen(OLD[0]) == 1


@pytest.mark.integration
@pytest.mark.parametrize("named", [OURS[0], "{other}:worker:po:team.alice:input"])
async def test_a_session_without_keys_of_its_own_is_moved_nowhere(redis, named):
    resync, _ = resync_of(redis, lambda namespace: BARE, asleep("team", "alice", named))
    entry = await redis.xadd(OLD[0], {"data": "{}"})
    await redis.hset(BARE.po_state(WORKER), "state", "ready")
    await resync.compare_streams()
    assert [found for found, _ in await redis.xrange(OLD[0])] == [entry]
    assert await redis.hget(BARE.po_state(WORKER), "state") == "ready"


@pytest.mark.integration
async def test_an_operator_killed_at_any_moment_of_the_move_loses_no_message(world, talks, before):
    await converse(world, before)
    await before.send("alice", "second")
    operator = None

    async def kill(verb, plural, body):
        if operator is not None and plural in ("posessions", "deployments") and verb != "list":
            operator.kill_now()

    async def is_over():
        # The later ones may find nothing left to write, so that nobody kills them.
        return operator.process.returncode is not None or len(await talks.answers("alice")) > 1

    for _ in range(3):
        world.api.after = kill
        operator = await world.start_operator(key_prefixes=True)
        await eventually(is_over)
        operator.kill_now()
        await operator.process.wait()
    operator, world.api.after = None, None
    await world.start_operator(key_prefixes=True)
    assert await talks.answered("alice", 2, seconds=60) == ["re: hello", "re: second"]
    assert max(world.sessions.runs.values()) == 1
