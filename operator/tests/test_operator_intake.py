"""Entries from outside with which the API server fails: none of them holds up the others."""

import asyncio
from functools import partial

import pytest
from support.eventually import eventually
from support.fake_api import RefusedRequestError
from support.queues import open_groups

from orbiter_contracts import DeveloperWorkerInput, encode
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, Keys
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.streams import intake as dispatching
from orbiter_operator.streams.attempts import CONSUMER
from orbiter_operator.streams.client import blocking_client, redis_client
from orbiter_operator.streams.intake import Intake
from orbiter_operator.streams.reader import id_before
from orbiter_operator.streams.tenants import Tenants
from orbiter_operator.tasks.job import build_task

pytestmark = pytest.mark.integration


@pytest.fixture
async def poisoned(api):
    """Set to have the API server no longer fail with the task of the entry `poison`."""
    repaired = asyncio.Event()

    async def refuse(verb, plural, body):
        poison = verb == "create" and plural == "agenttasks" and body["spec"]["taskId"] == "poison"
        if poison and not repaired.is_set():
            raise RefusedRequestError(500, "InternalError", "admission webhook: EOF")

    api.before = refuse
    return repaired


@pytest.fixture
async def dispatcher(redis_server, redis, kube, monkeypatch):
    monkeypatch.setattr(dispatching, "ASIDE_SECONDS", 0.05)
    monkeypatch.setattr(dispatching, "_PAUSE_SECONDS", 0.01)
    await open_groups(redis)
    client, reader = redis_client(redis_server.url), blocking_client(redis_server.url)
    made = Intake(
        redis=client,
        reader=reader,
        kube=kube,
        tenants=Tenants(),
        namespace="team",
        build=partial(build_task, agent={"type": "claude"}),
        free_slots=lambda namespace: 100,
        allowed=lambda: None,
        dead=lambda stream: None,
    )
    yield made
    await client.aclose()
    await reader.aclose()


def adopted(api):
    return {obj["spec"]["taskId"] for obj in api.objects["agenttasks"].values()}


async def test_an_entry_with_which_the_api_server_keeps_failing_holds_up_nobody(
    api, redis, poisoned, dispatcher
):
    for name in ("poison", "good", "better"):
        await redis.xadd(
            BARE.developer_input, encode(DeveloperWorkerInput(task_id=name, prompt="ok"))
        )
    part = asyncio.create_task(dispatcher.run())
    await eventually(lambda: adopted(api) == {"good", "better"})
    poisoned.set()
    await eventually(lambda: "poison" in adopted(api))
    await end([part])
    assert await redis.exists(f"{BARE.developer_input}:dead") == 0


async def test_what_another_worker_has_taken_meanwhile_is_left_to_it(
    api, redis, poisoned, dispatcher
):
    poison = encode(DeveloperWorkerInput(task_id="poison", prompt="ok"))
    theirs = await redis.xadd(BARE.developer_input, poison)
    good = encode(DeveloperWorkerInput(task_id="good", prompt="ok"))
    await redis.xadd(BARE.developer_input, good)
    part = asyncio.create_task(dispatcher.run())
    await eventually(lambda: adopted(api) == {"good"})
    refuse = api.before

    async def take(verb, plural, body):
        # while a request is on its way, so that none is with what was read before
        if (verb, plural) == ("create", "agenttasks"):
            await redis.xack(BARE.developer_input, DEVELOPER_GROUP, theirs)
            taken.set()
        await refuse(verb, plural, body)

    taken = asyncio.Event()
    api.before = take
    async with asyncio.timeout(60):
        await taken.wait()
    api.before = refuse
    poisoned.set()
    ours = await redis.xadd(BARE.developer_input, poison)
    await eventually(lambda: adopted(api) == {"good", "poison"})
    await end([part])
    made = {obj["metadata"]["annotations"]["orbiter.dev/entry"] for obj in _tasks(api)}
    assert ours in made
    assert theirs not in made


def _tasks(api):
    return api.objects["agenttasks"].values()


@pytest.mark.parametrize(
    ("entry", "before"), [("5-3", "5-2"), ("5-0", f"4-{2**64 - 1}"), ("0-1", "0-0")]
)
def test_reading_after_the_id_before_an_entry_begins_with_it(entry, before):
    assert id_before(entry) == before


TEAM, OTHER = Keys.of_namespace("team"), Keys.of_namespace("other")


@pytest.fixture
async def two_namespaces(redis_server, redis, kube, monkeypatch):
    """The intake of two namespaces with keys of their own; `slots` are the free ones of each."""
    monkeypatch.setattr(dispatching, "_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(dispatching, "_FULL_SECONDS", 0.05)
    client, reader = redis_client(redis_server.url), blocking_client(redis_server.url)
    slots = {"team": 100, "other": 100}
    made = Intake(
        redis=client,
        reader=reader,
        kube=kube,
        tenants=Tenants(Keys.of_namespace, ("team", "other")),
        namespace="",
        build=partial(build_task, agent={"type": "claude"}),
        free_slots=slots.__getitem__,
        allowed=lambda: None,
        dead=lambda stream: None,
    )
    part = asyncio.create_task(made.run())
    yield slots
    await end([part])
    await client.aclose()
    await reader.aclose()


async def put(redis, keys, *names):
    for name in names:
        message = DeveloperWorkerInput(task_id=name, prompt="ok")
        await redis.xadd(keys.developer_input, encode(message))


async def test_a_namespace_whose_quota_is_used_up_delays_no_other(api, redis, two_namespaces):
    raised = asyncio.Event()

    async def refuse(verb, plural, body):
        ours = plural == "agenttasks" and verb == "create"
        if ours and body["metadata"]["namespace"] == "other" and not raised.is_set():
            raise RefusedRequestError(403, "Forbidden", "exceeded quota: tasks")

    api.before = refuse
    await put(redis, OTHER, "waits", "waits too")
    await put(redis, TEAM, "first")
    await eventually(lambda: adopted(api) == {"first"})
    await put(redis, TEAM, "second")
    await eventually(lambda: adopted(api) == {"first", "second"})
    raised.set()
    await eventually(lambda: adopted(api) == {"first", "second", "waits", "waits too"})


async def test_a_namespace_without_a_slot_delays_no_other_and_keeps_its_entries(
    api, redis, two_namespaces
):
    two_namespaces |= {"other": 0, "team": 1}
    await put(redis, OTHER, "waits")
    await put(redis, TEAM, "ours")
    await eventually(lambda: adopted(api) == {"ours"})
    groups = await redis.xinfo_groups(OTHER.developer_input)
    assert groups[0]["last-delivered-id"] == "0-0"
    two_namespaces["other"] = 5
    await put(redis, OTHER, *(f"more {number}" for number in range(4)))
    await eventually(lambda: len(adopted(api)) == 6)


async def test_without_a_namespace_to_adopt_in_the_shared_entries_are_left_alone(
    api, redis, two_namespaces
):
    await put(redis, BARE, "foreign")
    await put(redis, TEAM, "ours")
    await eventually(lambda: adopted(api) == {"ours"})
    assert not await redis.xinfo_groups(BARE.developer_input)


async def test_all_that_is_held_is_told_from_a_dead_peers_however_much_it_is(
    redis, dispatcher, monkeypatch
):
    """What is not renewed for a minute, a standalone worker takes, and the task waits for ever."""
    monkeypatch.setattr(dispatching, "RENEW_SECONDS", 0.01)
    queue, idle = BARE.developer_input, 60_000
    async with redis.pipeline(transaction=False) as pipe:
        for number in range(2_500):
            pipe.xadd(queue, {"data": "{}"}, id=f"1-{number + 1}")
        await pipe.execute()
    await redis.xreadgroup(DEVELOPER_GROUP, CONSUMER, {queue: ">"}, count=2_500)
    ids = [f"1-{number + 1}" for number in range(2_500)]
    await redis.xclaim(queue, DEVELOPER_GROUP, CONSUMER, 0, ids, idle=idle, justid=True)
    await redis.xclaim(queue, DEVELOPER_GROUP, "another", 0, ["1-7"], idle=idle, justid=True)
    await dispatcher._open_sources()
    renewing = asyncio.create_task(dispatcher._renew())

    async def only_anothers_is_old():
        found = await redis.xpending_range(queue, DEVELOPER_GROUP, "-", "+", 3_000, idle=idle)
        return [(item["message_id"], item["consumer"]) for item in found] == [("1-7", "another")]

    await eventually(only_anothers_is_old)
    await end([renewing])
