"""The primary dies: what the operator reads and writes goes on at the new one, each once."""

import asyncio

import pytest
from redis.exceptions import ReadOnlyError, RedisError
from support.eventually import eventually
from support.observed import output
from support.ports import free_port
from support.redis_server import client_of
from support.replicated import Replicated

from orbiter_contracts import encode
from orbiter_contracts.queues import BARE, OPERATOR_GROUP
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.sessions.wake import Waker
from orbiter_operator.streams.client import blocking_client, redis_client
from orbiter_operator.streams.outputs import Consumer
from orbiter_operator.streams.pending_outputs import PendingOutputs
from orbiter_operator.streams.tenants import Tenants

pytestmark = pytest.mark.integration
TASK = Key("team", "fix")
BOUND = {"agenttask": "team/fix", "attempt": "1"}


@pytest.fixture
async def clients(replicated: Replicated):
    redis, reader = redis_client(replicated.url), blocking_client(replicated.url)
    yield redis, reader
    await redis.aclose()
    await reader.aclose()


@pytest.fixture
async def running():
    parts = []
    yield lambda part: parts.append(asyncio.create_task(part))
    await end(parts)


async def written(command) -> bool:
    """Whether a command that writes was carried out."""
    try:
        return bool(await command)
    except RedisError:
        return False


async def test_outputs_of_before_and_after_the_fail_over_are_each_told_once(
    replicated, clients, running
):
    redis, reader = clients
    pending, keys, connections = PendingOutputs(), [], []
    consumer = Consumer(
        redis=redis,
        reader=reader,
        tenants=Tenants(),
        pending=pending,
        enqueue=keys.append,
        connected=lambda: connections.append(1),
        dead=keys.append,
    )
    running(consumer.run())
    running(consumer.run_acknowledger())
    await eventually(lambda: consumer.reachable)
    await redis.xadd(BARE.developer_output, encode(output(), **BOUND))
    await eventually(lambda: pending.of(TASK))

    watch = await replicated.fail_over()
    await eventually(lambda: consumer.reachable and len(connections) > 1)
    watch.say("the waiting reader goes on")

    async def published():
        return await written(redis.xadd(BARE.developer_output, encode(output(), **BOUND)))

    await eventually(published)
    watch.say("an output is published")
    outputs = await eventually(lambda: len(pending.of(TASK)) == 2 and pending.of(TASK))
    consumer.settled(outputs)

    async def nothing_is_pending():
        return (await redis.xpending(BARE.developer_output, OPERATOR_GROUP))["pending"] == 0

    await eventually(nothing_is_pending)
    assert await redis.xlen(BARE.developer_output) == 2


async def test_a_sleeping_session_is_woken_by_a_message_to_the_new_primary(
    replicated, clients, running
):
    redis, reader = clients
    woken = []
    waker = Waker(redis=redis, reader=reader, woken=lambda key, entry: woken.append(key))
    waker.watch("alice", BARE.po_input("alice"), "0-0")
    running(waker.run())
    watch = await replicated.fail_over()

    async def sent():
        return await written(redis.xadd(BARE.po_input("alice"), {"data": "{}"}))

    await eventually(sent)
    await eventually(lambda: woken)
    watch.say("the session is woken")
    assert woken == ["alice"]


async def test_a_primary_that_was_made_a_replica_is_left_for_the_new_one(replicated, clients):
    redis, _ = clients
    old = replicated.primary
    await redis.set("key", "before")
    await replicated.everything_replicated()
    await replicated.hand_over()

    async def written_at_the_new_one():
        return await written(redis.set("key", "after"))

    await eventually(written_at_the_new_one)
    assert replicated.primary is not old
    assert await redis.get("key") == "after"


async def test_a_server_that_became_a_replica_is_left_at_its_first_refusal(own_redis_server):
    redis = redis_client(own_redis_server.url)
    before = await redis.client_id()
    async with client_of(own_redis_server) as other:
        await other.replicaof("127.0.0.1", str(free_port()))
        with pytest.raises(ReadOnlyError):
            await redis.set("key", "value")
        await other.replicaof("no", "one")
    assert await redis.set("key", "value")
    assert await redis.client_id() != before
    await redis.aclose()
