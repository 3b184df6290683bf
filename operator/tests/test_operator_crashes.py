"""The operator is killed between any two steps: nothing lost, nothing twice, nothing run again."""

import pytest
from support.eventually import eventually
from support.operator_crashes import Killer, check_promises

from orbiter_contracts import DeveloperWorkerInput, encode
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP

pytestmark = pytest.mark.integration
NAMESPACE = "team"

STEPS = [
    ("before", "create", "jobs"),
    ("after", "create", "jobs"),
    ("before", "patch", "agenttasks"),
    ("after", "patch", "agenttasks"),
    ("before", "create", "events"),
    ("after", "create", "events"),
]


@pytest.mark.parametrize(("when", "verb", "plural"), STEPS)
@pytest.mark.parametrize("nth", [1, 4])
async def test_twenty_tasks_survive_a_kill_at_any_request(world, when, verb, plural, nth):
    killer = Killer(world, when, verb, plural, nth, max_concurrent_jobs=6)
    await killer.start()
    names = [f"task-{number:02d}" for number in range(20)]
    for name in names:
        world.apply(name, "ok sleep=0.05")
    for name in names:
        await world.until(name, "Completed", seconds=60)
    assert killer.restarting is not None, "the step never came"
    await check_promises(world, names)
    assert len(world.node.runs) == 20
    for name in names:
        await eventually(lambda name=name: world.events(name) == ["Completed"])


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_a_retry_survives_a_kill_at_every_write_of_the_status(world, nth):
    killer = Killer(world, "after", "patch", "agenttasks", nth)
    await killer.start()
    world.apply("flaky", "flaky=1 sleep=0.1", retry={"limit": 3, "backoffSeconds": 1})
    status = await world.until("flaky", "Completed", seconds=60)
    assert status["attempts"] == 2
    assert len(world.node.runs) == 2
    assert status["usage"]["costUSD"] == 0.02


@pytest.mark.parametrize(("when", "verb", "plural"), [
    ("before", "delete", "jobs"),
    ("after", "delete", "jobs"),
    ("before", "patch", "agenttasks"),
])  # fmt: skip
async def test_cancelling_survives_a_kill(world, when, verb, plural):
    operator = await world.start_operator()
    world.apply("long", "hang")
    await world.until("long", "Running")
    killer = Killer(world, when, verb, plural, 1)
    killer.operator = operator
    world.api.patch("agenttasks", NAMESPACE, "long", {"spec": {"desiredState": "Cancelled"}})
    await world.until("long", "Cancelled", seconds=60)
    assert killer.restarting is not None
    await eventually(lambda: world.api.get("jobs", NAMESPACE, "long-1") is None)
    await eventually(lambda: not world.node.running)
    await check_promises(world, ["long"])


async def test_a_crash_of_a_worker_that_is_seen_by_two_operators_is_published_once(world):
    killer = Killer(world, "before", "create", "events", 1)
    await killer.start()
    world.apply("dies", "oom sleep=0.1")
    await world.until("dies", "Failed", seconds=60)
    await check_promises(world, ["dies"])
    assert world.status("dies")["reason"] == "OOMKilled"


async def test_what_ended_while_no_operator_was_there_is_found_out(world):
    operator = await world.start_operator()
    world.apply("works", "ok sleep=0.4")
    world.apply("dies", "crash sleep=0.4")
    await world.until("works", "Running")
    await world.until("dies", "Running")
    await operator.end()
    await eventually(lambda: not world.node.running)
    world.api.remove("jobs", NAMESPACE, "works-1")
    await operator.start()
    await world.until("works", "Completed", seconds=30)
    assert (await world.until("dies", "Failed", seconds=30))["reason"] == "WorkerCrashed"


async def test_a_task_deleted_while_no_operator_was_there_leaves_no_entry(world):
    operator = await world.start_operator()
    obj = world.apply("gone", "hang")
    await world.until("gone", "Running")
    await operator.end()
    world.api.remove("agenttasks", NAMESPACE, "gone")
    await eventually(lambda: not world.node.running)
    assert await world.redis.exists(BARE.attempt_record(obj["metadata"]["uid"], 1))
    await operator.start()

    async def the_queue_is_empty():
        return await world.redis.xlen(BARE.developer_input) == 0

    await eventually(the_queue_is_empty)


async def test_an_entry_read_before_a_crash_becomes_a_task_after_it(world):
    await world.redis.xgroup_create(BARE.developer_input, DEVELOPER_GROUP, id="0", mkstream=True)
    message = DeveloperWorkerInput(task_id="t", prompt="ok", request_id="theirs")
    await world.redis.xadd(BARE.developer_input, encode(message))
    await world.redis.xreadgroup(DEVELOPER_GROUP, "operator", {BARE.developer_input: ">"})
    await world.start_operator(adopt_namespace=NAMESPACE)
    await eventually(lambda: world.api.objects["agenttasks"])
    ((_, name),) = world.api.objects["agenttasks"]
    assert (await world.until(name, "Completed"))["requestId"] == "theirs"
