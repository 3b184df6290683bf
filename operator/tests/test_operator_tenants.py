"""Namespaces with keys of their own: each is served in its own streams, and speaks for itself."""

import asyncio

import pytest
from support.eventually import eventually
from support.observed import NOW, output
from support.queues import open_groups

from orbiter_contracts import (
    DeveloperWorkerInput,
    InvalidMessageError,
    Route,
    WorkerLifecycleEvent,
    encode,
)
from orbiter_contracts.attempts import request_id
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, OPERATOR_GROUP, Keys, dead_letter
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.settings import Settings
from orbiter_operator.streams import outputs
from orbiter_operator.streams.client import blocking_client, redis_client
from orbiter_operator.streams.outputs import Consumer
from orbiter_operator.streams.pending_outputs import PendingOutputs
from orbiter_operator.streams.tenants import Inboxes, Tenants, keys_of, memory

TEAM, OTHER = Keys.of_namespace("team"), Keys.of_namespace("other")
BOUND = {"agenttask": "team/fix", "attempt": "1"}
TASK = Key("team", "fix")


def tenants_of(*namespaces, bare=()):
    """Tenants with keys of their own; attempts of the namespaces `bare` began without."""
    return Tenants(Keys.of_namespace, namespaces, lambda route: route.namespace in bare)


@pytest.mark.parametrize(
    ("prefixes", "namespace", "prefix"),
    [
        (False, "team-a", ""),
        (True, "team-a", "{team-a}:"),
        (True, "shared", ""),
    ],
)
def test_a_namespace_has_its_own_keys_but_for_the_one_that_entries_are_adopted_in(
    prefixes, namespace, prefix
):
    settings = Settings(key_prefixes=prefixes, adopt_namespace="shared")
    assert keys_of(settings)(namespace).prefix == prefix


def test_the_keys_without_a_prefix_are_always_served_and_each_namespace_once():
    tenants = tenants_of("team")
    news = tenants.subscribe()
    tenants.see("team")
    assert not news.is_set()
    tenants.see("other")
    assert news.is_set()
    assert tenants.served == (BARE, TEAM, OTHER)
    shared = Tenants()
    shared.see("team")
    assert shared.served == (BARE,)


@pytest.mark.parametrize("namespace", ["team", "old"])
def test_a_namespace_speaks_for_its_own_tasks(namespace):
    tenants_of(bare=("old",)).check(Keys.of_namespace(namespace), Route(namespace, "fix", 1))


def test_an_attempt_that_began_without_a_prefix_ends_there():
    tenants_of(bare=("old",)).check(BARE, Route("old", "fix", 1))


@pytest.mark.parametrize("keys", [BARE, OTHER, Keys.of_namespace("old")])
@pytest.mark.parametrize("namespace", ["team", "No.Namespace"])
def test_nobody_speaks_for_another_namespace(keys, namespace):
    with pytest.raises(InvalidMessageError, match="is no task of this stream, which is of"):
        tenants_of(bare=("old",)).check(keys, Route(namespace, "fix", 1))


class Bench:
    """A consumer of some tenants, and what it has told."""

    def __init__(self, url, tenants):
        self.redis, self.reader = redis_client(url), blocking_client(url)
        self.pending, self.keys, self.dead, self.heard = PendingOutputs(), [], [], []
        self.consumer = Consumer(
            redis=self.redis,
            reader=self.reader,
            tenants=tenants,
            pending=self.pending,
            enqueue=self.keys.append,
            connected=lambda: None,
            dead=self.dead.append,
            heard=lambda event, keys: self.heard.append((event.worker_id, keys)),
        )

    async def close(self):
        await self.redis.aclose()
        await self.reader.aclose()


@pytest.fixture
async def reading(redis_server, redis):
    """Start consumers; they end with the test."""
    benches, tasks = [], []

    async def start(tenants):
        bench = Bench(redis_server.url, tenants)
        benches.append(bench)
        tasks.append(asyncio.create_task(bench.consumer.run()))
        tasks.append(asyncio.create_task(bench.consumer.run_acknowledger()))
        await eventually(lambda: bench.consumer.reachable)
        return bench

    yield start
    await end(tasks)
    for bench in benches:
        await bench.close()


async def letters(redis, stream):
    return [fields for _, fields in await redis.xrange(dead_letter(stream))]


@pytest.mark.integration
async def test_outputs_of_all_namespaces_are_told_and_acknowledged_where_they_are(redis, reading):
    bench = await reading(tenants_of("team", "other"))
    routed = {"agenttask": "other/fix", "attempt": "1"}
    await redis.xadd(TEAM.developer_output, encode(output(), **BOUND), id="7-1")
    await redis.xadd(OTHER.developer_output, encode(output(), **routed), id="7-1")
    (ours,) = await eventually(lambda: bench.pending.of(TASK))
    (theirs,) = await eventually(lambda: bench.pending.of(Key("other", "fix")))
    assert (ours.stream, theirs.stream) == (TEAM.developer_output, OTHER.developer_output)
    bench.consumer.settled((ours,))

    async def acknowledged():
        stream = TEAM.developer_output
        return (await redis.xpending(stream, OPERATOR_GROUP))["pending"] == 0

    await eventually(acknowledged)
    assert (await redis.xpending(OTHER.developer_output, OPERATOR_GROUP))["pending"] == 1


@pytest.mark.integration
async def test_an_output_and_a_busy_for_another_namespace_are_dead_letters(redis, reading):
    bench = await reading(tenants_of("team", "other"))
    busy = encode(WorkerLifecycleEvent(worker_id="w", event="busy", timestamp=NOW), **BOUND)
    for keys in (OTHER, BARE):
        await redis.xadd(keys.developer_output, encode(output(), **BOUND))
        await redis.xadd(keys.developer_output, {"data": "nonsense", **BOUND})
        await redis.xadd(keys.lifecycle, busy)
        for stream, count in ((keys.developer_output, 2), (keys.lifecycle, 1)):

            async def put_aside(stream=stream, count=count):
                return len(await letters(redis, stream)) == count

            await eventually(put_aside)
        (letter,) = await letters(redis, keys.lifecycle)
        assert "team/fix is no task of this stream" in letter["reason"]
    assert bench.pending.of(TASK) == ()
    assert bench.pending.busy_since(TASK, 1, NOW) is None
    assert bench.keys == []


@pytest.mark.integration
async def test_a_worker_without_a_task_is_heard_with_the_keys_it_speaks_by(redis, reading):
    bench = await reading(tenants_of("team"))
    event = encode(WorkerLifecycleEvent(worker_id="team.alice", event="ready"))
    await redis.xadd(TEAM.lifecycle, event)
    await redis.xadd(BARE.lifecycle, event)
    await eventually(lambda: len(bench.heard) == 2)
    assert set(bench.heard) == {("team.alice", TEAM), ("team.alice", BARE)}


@pytest.mark.integration
async def test_a_namespace_that_is_new_is_read_at_once(redis, reading):
    tenants = tenants_of("other")
    bench = await reading(tenants)
    await open_groups(redis, TEAM)
    await redis.xadd(TEAM.developer_output, encode(output(), **BOUND))
    await redis.xreadgroup(OPERATOR_GROUP, "operator", {TEAM.developer_output: ">"})
    tenants.see("team")
    # Sooner than a read that blocks already (five seconds) would have ended.
    await eventually(lambda: len(bench.pending.of(TASK)) == 1, seconds=4)
    await redis.xadd(TEAM.developer_output, encode(output(), **BOUND))
    await eventually(lambda: len(bench.pending.of(TASK)) == 2)


@pytest.mark.integration
async def test_more_namespaces_than_one_read_has_room_for_are_read_by_another(
    redis, reading, monkeypatch
):
    monkeypatch.setattr(outputs, "READ_AT_ONCE", 2)
    tenants = tenants_of("team")
    bench = await reading(tenants)
    for namespace in ("other", "third", "fourth"):
        tenants.see(namespace)
        routed = {"agenttask": f"{namespace}/fix", "attempt": "1"}
        await redis.xadd(Keys.of_namespace(namespace).developer_output, encode(output(), **routed))
        await eventually(lambda name=namespace: bench.pending.of(Key(name, "fix")))
    await redis.xadd(TEAM.developer_output, encode(output(), **BOUND))
    await eventually(lambda: bench.pending.of(TASK))


@pytest.mark.integration
async def test_what_is_no_stream_or_has_lost_its_group_stops_no_other_namespace(redis, reading):
    await redis.set(OTHER.developer_output, "no stream")
    bench = await reading(tenants_of("other", "team"))
    await redis.xgroup_destroy(TEAM.lifecycle, OPERATOR_GROUP)
    await redis.delete(BARE.developer_output)
    for count in (1, 2):
        await redis.xadd(TEAM.developer_output, encode(output(), **BOUND))
        await eventually(lambda count=count: len(bench.pending.of(TASK)) == count)
    await redis.delete(TEAM.developer_output)
    await redis.set(TEAM.developer_output, "no stream")
    third = Key("third", "fix")
    await redis.xadd(BARE.lifecycle, encode(WorkerLifecycleEvent(worker_id="w", event="ready")))
    await eventually(lambda: ("w", BARE) in bench.heard)
    assert bench.pending.of(third) == ()


@pytest.mark.integration
async def test_a_stream_with_much_to_read_does_not_keep_the_others_waiting(redis_server, redis):
    client, reader = redis_client(redis_server.url), blocking_client(redis_server.url)
    inboxes = Inboxes(client, reader, DEVELOPER_GROUP, "operator")
    for keys in (TEAM, OTHER):
        await open_groups(redis, keys)
    for _ in range(12):
        await redis.xadd(TEAM.developer_input, {"data": "x" * 1_000_000})
    await redis.xadd(OTHER.developer_input, {"data": "small"})
    streams = (TEAM.developer_input, OTHER.developer_input)
    read = [
        (inbox.stream, [len(entry.fields["data"]) for entry in entries])
        async for inbox, entries in inboxes.read(streams, 100, 1000)
    ]
    assert (OTHER.developer_input, [5]) in read
    assert sum(len(sizes) for stream, sizes in read if stream == TEAM.developer_input) < 12
    await client.aclose()
    await reader.aclose()


# The whole program, with ORBITER_KEY_PREFIXES.


@pytest.mark.integration
async def test_a_task_has_an_attempt_in_the_streams_of_its_namespace(world):
    await world.start_operator(key_prefixes=True)
    world.apply("fix")
    status = await world.until("fix", "Completed")
    assert status["inputStream"] == TEAM.developer_input
    assert status["outputStream"] == TEAM.developer_output
    assert status["result"]["summary"] == "all done"
    (job,) = world.api.objects["jobs"].values()
    environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "KEY_PREFIX", "value": "{team}:"} in environment
    assert await world.redis.xlen(TEAM.developer_output) == 1
    assert await world.redis.xlen(BARE.developer_output) == 0
    assert await world.redis.keys("agenttask:*") == []


@pytest.mark.integration
async def test_retries_questions_and_cancellation_under_a_prefix(world):
    await world.start_operator(key_prefixes=True)
    world.apply("flaky", "flaky=1", retry={"limit": 2, "backoffSeconds": 1})
    world.apply("stopped", "sleep=30")
    world.apply("asks", "ask")
    await world.until("stopped", "Running")
    world.api.patch("agenttasks", "team", "stopped", {"spec": {"desiredState": "Cancelled"}})
    await world.until("stopped", "Cancelled")
    asked = await world.until("asks", "InputRequired")
    uid = world.api.get("agenttasks", "team", "asks")["metadata"]["uid"]
    assert await world.redis.exists(TEAM.task_snapshot(uid))
    answer = {"id": asked["inputRequest"]["id"], "text": "ok main"}
    world.api.patch("agenttasks", "team", "asks", {"spec": {"input": [answer]}})
    await world.until("asks", "Completed")
    assert world.node.prompts["team/asks", 2] == "ok main"
    assert (await world.until("flaky", "Completed"))["attempts"] == 2

    async def forgotten():
        return not await world.redis.exists(TEAM.task_snapshot(uid))

    await eventually(forgotten)


@pytest.mark.integration
async def test_entries_of_a_namespace_become_tasks_there_whatever_the_others_do(world):
    await world.start_operator(
        key_prefixes=True, watch_namespaces="team,other,third", adopt_namespace="third"
    )
    for number in range(300):
        flood = DeveloperWorkerInput(task_id=f"flood-{number}", prompt="sleep=5")
        await world.redis.xadd(OTHER.developer_input, encode(flood))
    await world.redis.xadd(OTHER.developer_input, {"data": "nonsense", **BOUND})
    await world.redis.xadd(
        TEAM.developer_input, encode(DeveloperWorkerInput(task_id="good", prompt="ok"))
    )
    await world.redis.xadd(
        BARE.developer_input, encode(DeveloperWorkerInput(task_id="bare", prompt="ok"))
    )
    name = await eventually(lambda: world.adopted("good"))
    status = await world.until(name, "Completed")
    assert status["outputStream"] == TEAM.developer_output
    bare = await eventually(lambda: world.adopted("bare"))
    found = {obj["metadata"]["namespace"] for obj in world.api.objects["agenttasks"].values()}
    assert found == {"team", "other", "third"}

    def phase():
        return (world.api.get("agenttasks", "third", bare).get("status") or {}).get("phase")

    await eventually(lambda: phase() == "Completed")


@pytest.mark.integration
async def test_an_entry_that_names_another_namespaces_task_is_a_dead_letter(world):
    await world.start_operator(key_prefixes=True, watch_namespaces="team,other")
    world.apply("fix", "sleep=1")
    await world.until("fix", "Running")
    uid = world.api.get("agenttasks", "team", "fix")["metadata"]["uid"]
    forged = output().model_copy(update={"request_id": request_id(uid, 1)})
    await world.redis.xadd(OTHER.developer_input, encode(forged, **BOUND))
    await world.redis.xadd(OTHER.developer_output, encode(forged, **BOUND))
    for stream in (OTHER.developer_input, OTHER.developer_output):
        (letter,) = await eventually(lambda stream=stream: letters(world.redis, stream))
        assert "spoken for in its own streams alone" in letter["reason"]
    status = await world.until("fix", "Completed")
    assert status["result"]["summary"] == "all done"


@pytest.mark.integration
async def test_attempts_of_before_the_prefixes_end_where_they_began(world):
    operator = await world.start_operator()
    world.apply("ends", "sleep=3")
    world.apply("asks", "ask sleep=1")
    world.apply("crashes", "sleep=2 crash", retry={"limit": 1, "backoffSeconds": 1})
    world.apply("deleted", "sleep=30")
    for name in ("ends", "deleted", "crashes"):
        await world.until(name, "Running")
    await world.until("asks", "InputRequired")
    await operator.end()
    uid = world.api.get("agenttasks", "team", "asks")["metadata"]["uid"]
    for name in ("ends", "asks", "crashes", "deleted"):
        # Their statuses are those of a version that named no streams.
        gone = {"status": {"inputStream": None, "outputStream": None}}
        world.api.patch("agenttasks", "team", name, gone)
    await world.start_operator(key_prefixes=True)
    answer = {"id": world.status("asks")["inputRequest"]["id"], "text": "ok then"}
    world.api.patch("agenttasks", "team", "asks", {"spec": {"input": [answer]}})
    world.api.remove("agenttasks", "team", "deleted")
    assert (await world.until("ends", "Completed"))["attempts"] == 1
    status = await world.until("asks", "Completed")
    assert (status["attempts"], status["inputStream"]) == (2, TEAM.developer_input)
    assert world.node.prompts["team/asks", 2] == "ok then"
    status = await world.until("crashes", "Failed")
    assert (status["attempts"], status["reason"]) == (2, "WorkerCrashed")
    assert status["outputStream"] == TEAM.developer_output

    async def nothing_waits():
        return not await world.redis.xlen(BARE.developer_input)

    await eventually(nothing_waits)
    assert not await world.redis.exists(BARE.task_snapshot(uid))
    assert await world.redis.xlen(dead_letter(BARE.developer_output)) == 0


@pytest.mark.integration
async def test_malformed_entries_of_one_namespace_stop_no_other(world):
    operator = await world.start_operator(key_prefixes=True, watch_namespaces="team,other")
    entry = {b"data": b"\xff\xfe", b"agenttask": b"other/x", b"attempt": b"9" * 5000}
    for stream in (OTHER.developer_input, OTHER.developer_output, OTHER.lifecycle):
        await world.redis.xadd(stream, entry)
    world.apply("fix")
    await world.until("fix", "Completed")
    for stream in (OTHER.developer_input, OTHER.developer_output, OTHER.lifecycle):
        await eventually(lambda stream=stream: world.binary.xlen(dead_letter(stream)))
    assert operator.process.returncode is None


async def test_what_redis_holds_and_may_hold_is_known_where_there_is_a_limit(redis):
    without = await memory(redis)
    assert without["orbiter_redis_memory_bytes"] > 0
    assert "orbiter_redis_memory_max_bytes" not in without
    await redis.config_set("maxmemory", 1 << 30)
    try:
        assert (await memory(redis))["orbiter_redis_memory_max_bytes"] == 1 << 30
    finally:
        await redis.config_set("maxmemory", 0)
