"""What the workers say, read from a real Redis: each once, none lost, nonsense put aside."""

import asyncio
from functools import partial

import pytest
from support.eventually import eventually
from support.observed import NOW, output
from support.queues import open_groups
from support.redis_server import client_of

from orbiter_contracts import (
    DeveloperWorkerInput,
    GitWorkspace,
    WorkerLifecycleEvent,
    Workspace,
    encode,
)
from orbiter_contracts.queues import BARE, OPERATOR_GROUP
from orbiter_operator.kube.names import Key, task_name
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.streams import intake as dispatching
from orbiter_operator.streams.intake import Intake
from orbiter_operator.streams.outputs import Consumer
from orbiter_operator.streams.pending_outputs import PendingOutputs
from orbiter_operator.streams.tenants import Tenants
from orbiter_operator.tasks.job import build_task

pytestmark = pytest.mark.integration
TASK = Key("team", "fix")
BOUND = {"agenttask": "team/fix", "attempt": "1"}


class Bench:
    """A consumer and what it has told."""

    def __init__(self, redis, reader):
        self.redis = redis
        self.outputs = PendingOutputs()
        self.keys = []
        self.dead = []
        self.connections = []
        self.consumer = Consumer(
            redis=redis,
            reader=reader,
            tenants=Tenants(),
            pending=self.outputs,
            enqueue=self.keys.append,
            connected=lambda: self.connections.append(1),
            dead=self.dead.append,
        )

    async def pending(self, stream):
        return (await self.redis.xpending(stream, OPERATOR_GROUP))["pending"]


@pytest.fixture
async def bench(redis_server, redis):
    async with client_of(redis_server) as reader:
        made = Bench(redis, reader)
        parts = [
            asyncio.create_task(made.consumer.run()),
            asyncio.create_task(made.consumer.run_acknowledger()),
        ]
        await eventually(lambda: made.consumer.reachable)
        yield made
        await end(parts)


async def test_an_output_is_pending_and_is_acknowledged_when_it_is_settled(bench):
    await bench.redis.xadd(BARE.developer_output, encode(output(), **BOUND))
    (pending,) = await eventually(lambda: bench.outputs.of(TASK))
    assert pending.output.request_id == output().request_id
    assert bench.keys == [TASK]
    assert await bench.pending(BARE.developer_output) == 1
    bench.outputs.settle(TASK, (pending,))
    bench.consumer.settled((pending,))

    async def nothing_is_pending():
        return await bench.pending(BARE.developer_output) == 0

    await eventually(nothing_is_pending)
    assert bench.outputs.of(TASK) == ()


async def test_an_output_of_a_standalone_worker_is_not_our_business(bench):
    await bench.redis.xadd(BARE.developer_output, encode(output()))
    await bench.redis.xadd(BARE.developer_output, encode(output(), **BOUND))
    await eventually(lambda: bench.outputs.of(TASK))

    async def only_ours_is_pending():
        return await bench.pending(BARE.developer_output) == 1

    await eventually(only_ours_is_pending)


async def test_an_output_that_cannot_be_read_still_has_its_task_reconciled(bench):
    await bench.redis.xadd(BARE.developer_output, {"data": "nonsense", **BOUND})
    (pending,) = await eventually(lambda: bench.outputs.of(TASK))
    assert pending.output is None
    assert bench.dead == [BARE.developer_output]


async def test_a_worker_that_says_it_is_busy_is_a_hint(bench):
    event = WorkerLifecycleEvent(worker_id="team.fix-1", event="busy", timestamp=NOW)
    await bench.redis.xadd(BARE.lifecycle, encode(event, **BOUND))
    await eventually(lambda: bench.keys)
    assert bench.outputs.busy_since(TASK, 1, NOW) == NOW
    assert bench.outputs.busy_since(TASK, 2, NOW) is None


async def test_a_lifecycle_event_that_cannot_be_read_is_a_dead_letter(bench):
    await bench.redis.xadd(BARE.lifecycle, {"data": "{}", **BOUND})

    async def letters():
        return await bench.redis.xrange(f"{BARE.lifecycle}:dead")

    ((_, fields),) = await eventually(letters)
    assert "worker_id" in fields["reason"]


async def test_what_an_earlier_leader_left_unacknowledged_is_read_first(redis_server, redis):
    await open_groups(redis)
    await redis.xadd(BARE.developer_output, encode(output(), **BOUND))
    await redis.xreadgroup(OPERATOR_GROUP, "operator", {BARE.developer_output: ">"})
    async with client_of(redis_server) as reader:
        made = Bench(redis, reader)
        part = asyncio.create_task(made.consumer.run())
        await eventually(lambda: made.outputs.of(TASK))
        await end([part])


async def test_the_groups_are_made_anew_when_redis_has_lost_them(bench):
    await bench.redis.flushall()
    await eventually(lambda: len(bench.connections) > 1)
    await bench.redis.xadd(BARE.developer_output, encode(output(), **BOUND))
    await eventually(lambda: bench.outputs.of(TASK))


async def test_the_claim_on_an_adopted_entry_is_renewed_and_only_while_it_is_ours(
    redis_server, redis, monkeypatch
):
    monkeypatch.setattr(dispatching, "RENEW_SECONDS", 0.05)
    await open_groups(redis)
    ours = await redis.xadd(BARE.developer_input, {"data": "x", "agenttask": "team/other"})
    theirs = await redis.xadd(BARE.developer_input, {"data": "y", "agenttask": "team/other"})
    group = dispatching.DEVELOPER_GROUP
    await redis.xreadgroup(group, "operator", {BARE.developer_input: ">"}, count=1)
    await redis.xreadgroup(group, "worker-7", {BARE.developer_input: ">"}, count=1)
    renewals = []

    def may_act():
        renewals.append(1)

    async with client_of(redis_server) as reader:
        dispatcher = Intake(
            redis=redis,
            reader=reader,
            kube=None,
            tenants=Tenants(),
            namespace="team",
            build=partial(build_task, agent={}),
            free_slots=lambda namespace: 0,
            allowed=may_act,
            dead=renewals.append,
        )
        part = asyncio.create_task(dispatcher.run())
        await eventually(lambda: len(renewals) > 4)
        held = await redis.xpending_range(BARE.developer_input, group, "-", "+", 10)
        await end([part])
    owners = {item["message_id"]: item["consumer"] for item in held}
    assert owners == {ours: "operator", theirs: "worker-7"}
    idle = {item["message_id"]: item["time_since_delivered"] for item in held}
    assert idle[ours] < idle[theirs]


def test_an_entry_becomes_the_same_task_however_often_it_is_read():
    assert task_name("1-0") == task_name("1-0") != task_name("1-1")


def test_a_message_from_outside_chooses_no_agent():
    message = {"task_id": "t", "prompt": "do it", "agent": {"type": "cursor"}, "type": "cursor"}
    task = build_task(
        "1-0", DeveloperWorkerInput.model_validate(message), "team", agent={"type": "codex"}
    )
    assert task["spec"]["agent"] == {"type": "codex"}
    assert "cursor" not in str(task)


def test_the_task_of_an_entry_says_what_the_entry_says():
    message = DeveloperWorkerInput(
        request_id="theirs",
        task_id="t-1",
        project_id="p-1",
        prompt="do it",
        timeout=60,
        workspace=Workspace(git=GitWorkspace(url="https://example.com/r.git", push="Always")),
    )
    task = build_task("1-0", message, "team", agent={"type": "codex"})
    assert task["spec"] == {
        "prompt": "do it",
        "agent": {"type": "codex"},
        "timeoutSeconds": 60,
        "taskId": "t-1",
        "projectId": "p-1",
        "workspace": {"git": {"url": "https://example.com/r.git", "push": "Always"}},
    }
    assert task["metadata"]["annotations"] == {
        "orbiter.dev/entry": "1-0",
        "orbiter.dev/request-id": "theirs",
    }
