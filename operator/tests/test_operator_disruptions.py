"""Pods, Jobs and queues are taken away while workers work: every attempt goes on, and once."""

from datetime import UTC, datetime

import pytest
from support.eventually import eventually
from support.operator_crashes import Killer, check_promises

from orbiter_contracts import Checkpoint, Usage, WorkerLifecycleEvent
from orbiter_contracts.checkpoints import CHECKPOINT_FIELD
from orbiter_contracts.queues import BARE

pytestmark = pytest.mark.integration
NAMESPACE = "team"
KEPT = Checkpoint(
    time=datetime(2026, 1, 2, tzinfo=UTC),
    generation=4,
    turns=14,
    cost_usd=0.31,
    workspace="Stored",
    session=True,
)


async def keep(world, name, checkpoint=KEPT):
    """What a worker does that makes a checkpoint."""
    obj = world.api.get("agenttasks", NAMESPACE, name)
    record = BARE.attempt_record(obj["metadata"]["uid"], 1)
    parts = BARE.attempt_checkpoint(obj["metadata"]["uid"], 1)
    await world.redis.hset(parts, mapping={"4:session": "said", "4:workspace": "done"})
    await world.redis.hset(record, CHECKPOINT_FIELD, checkpoint.model_dump_json())
    event = WorkerLifecycleEvent(worker_id=f"team.{name}-1", event="checkpointed")
    routing = {"agenttask": f"{NAMESPACE}/{name}", "attempt": "1"}
    await world.redis.xadd(BARE.lifecycle, {"data": event.model_dump_json(), **routing})
    await eventually(lambda: "checkpoint" in world.status(name))


async def outputs(world):
    return len(await world.redis.xrange(BARE.developer_output))


async def begun(world, name, **spec):
    """A task whose first worker works for ever, and whose next ones long enough to be seen."""
    world.apply(name, "hang once sleep=8", **spec)
    await world.until(name, "Running")
    # A pod runs before its worker has claimed anything; taken away by then it was nobody's first.
    await eventually(lambda: [run for run in world.node.runs if run.task == f"{NAMESPACE}/{name}"])
    await eventually(lambda: world.status(name).get("podName"))
    return world.status(name)


def working(world, name, *, other_than):
    """The pod that works on a task now; None while it is still the other one, or there is none."""
    status = world.status(name)
    pod = status.get("podName") if status.get("phase") == "Running" else None
    return None if pod == other_than else pod


async def test_an_evicted_pod_is_followed_by_the_jobs_next_one(world):
    await world.start_operator()
    await begun(world, "evicted")
    await keep(world, "evicted")
    assert world.status("evicted")["checkpoint"]["turns"] == 14
    world.node.evict_pod(NAMESPACE, world.status("evicted")["podName"])
    status = await world.until("evicted", "Completed", seconds=40)
    assert (status["attempts"], status["disruptions"]) == (1, 1)
    assert [job for _, job in world.api.objects["jobs"]] == ["evicted-1"]
    await eventually(lambda: world.events("evicted")[-1] == "Completed")
    assert world.events("evicted")[0] == "Evicted"
    assert await outputs(world) == 1
    assert world.phases("evicted")[-1] == "Completed"
    await check_promises(world, ["evicted"])


async def test_while_it_works_again_the_status_says_behind_what(world):
    await world.start_operator()
    world.apply("twice", "hang")
    await world.until("twice", "Running")
    await keep(world, "twice")
    gone = None
    for count in (1, 2):
        gone = await eventually(lambda gone=gone: working(world, "twice", other_than=gone))
        world.node.evict_pod(NAMESPACE, gone)
        words = f"resumed after Evicted ({count})"
        await eventually(lambda words=words: world.status("twice").get("message") == words)
    assert world.status("twice")["phase"] == "Running"


async def test_a_deleted_pod_is_followed_by_another_job_of_the_same_attempt(world):
    await world.start_operator()
    world.node.delete_pod(NAMESPACE, (await begun(world, "deleted"))["podName"])
    status = await world.until("deleted", "Completed", seconds=40)
    assert (status["attempts"], status["disruptions"]) == (1, 1)
    assert status["jobName"] == "deleted-1-r1"
    assert [run.attempt for run in world.node.runs] == [1, 1]
    assert await outputs(world) == 1


async def test_a_deleted_job_is_followed_by_another_one(world):
    await world.start_operator()
    await begun(world, "deleted")
    world.api.remove("jobs", NAMESPACE, "deleted-1")
    status = await world.until("deleted", "Completed", seconds=40)
    assert (status["jobName"], status["disruptions"]) == ("deleted-1-r1", 1)


async def test_a_crash_is_a_failure_and_a_disruption_no_attempt(world):
    """`retry.limit` counts what the agent did, never what the cluster did."""
    await world.start_operator()
    world.apply("both", "crash once sleep=0.1", retry={"limit": 1, "backoffSeconds": 1})
    await eventually(lambda: world.status("both").get("attempts") == 2)
    assert world.status("both").get("disruptions", 0) == 0


async def test_too_many_disruptions_are_an_end(world):
    await world.start_operator()
    world.apply("unlucky", "hang", disruption={"limit": 1})
    gone = None
    for _ in range(2):
        # By its name: a phase between two that are Running may be over before anybody looks.
        gone = await eventually(lambda gone=gone: working(world, "unlucky", other_than=gone))
        world.node.delete_pod(NAMESPACE, gone)
    status = await world.until("unlucky", "Failed")
    assert status["reason"] == "DisruptionLimitExceeded"
    assert await outputs(world) == 1


@pytest.mark.parametrize("how", ["evict", "delete"])
@pytest.mark.parametrize(
    ("when", "verb", "plural"),
    [
        ("before", "create", "jobs"),
        ("after", "create", "jobs"),
        ("before", "patch", "agenttasks"),
        ("after", "patch", "agenttasks"),
        ("before", "create", "events"),
    ],
)
async def test_an_operator_killed_meanwhile_counts_once_and_goes_on_once(
    world, how, when, verb, plural
):
    operator = await world.start_operator()
    status = await begun(world, "hit")
    killer = Killer(world, when, verb, plural, 1)
    killer.operator = operator
    take = world.node.evict_pod if how == "evict" else world.node.delete_pod
    take(NAMESPACE, status["podName"])
    status = await world.until("hit", "Completed", seconds=60)
    assert (status["attempts"], status["disruptions"]) == (1, 1)
    await check_promises(world, ["hit"])


async def test_a_task_goes_on_with_what_another_one_left(world):
    await world.start_operator()
    world.apply("old", "hang")
    await world.until("old", "Running")
    await keep(world, "old")
    world.api.patch("agenttasks", NAMESPACE, "old", {"spec": {"desiredState": "Cancelled"}})
    await world.until("old", "Cancelled")
    new = world.apply("new", "ok", resumeFrom="old")
    await world.until("new", "Completed")
    record = BARE.attempt_record(new["metadata"]["uid"], 1)
    text = await world.redis.hget(record, CHECKPOINT_FIELD)
    kept = Checkpoint.model_validate_json(text)
    assert (kept.generation, kept.turns, kept.cost_usd) == (4, 0, None)


async def test_a_task_says_what_is_wrong_with_what_it_was_to_go_on_with_and_others_go_on(world):
    await world.start_operator()
    world.apply("old", "hang")
    await world.until("old", "Running")
    await keep(world, "old")
    world.api.patch("agenttasks", NAMESPACE, "old", {"spec": {"desiredState": "Cancelled"}})
    await world.until("old", "Cancelled")
    parts = BARE.attempt_checkpoint(
        world.api.get("agenttasks", NAMESPACE, "old")["metadata"]["uid"], 1
    )
    await world.redis.delete(parts)
    await world.redis.set(parts, "in the way")
    world.apply("new", "ok", resumeFrom="old")
    world.apply("other", "ok")
    status = await world.until("new", "Failed")
    assert status["reason"] == "NothingToResume"
    assert "is damaged" in status["message"]
    await world.until("other", "Completed")


async def test_what_a_crashed_attempt_has_cost_is_counted_once(world):
    """The worker cannot say it any more; its attempt's record can."""
    await world.start_operator()
    world.apply("dies", "sleep=3 crash", retry={"limit": 1, "backoffSeconds": 1})
    await world.until("dies", "Running")
    usage = Usage(input_tokens=100, output_tokens=20, cost_usd=0.31, turns=14)
    await keep(world, "dies", KEPT.model_copy(update={"usage": usage}))
    status = await world.until("dies", "Failed", seconds=40)
    assert (status["attempts"], status["reason"]) == (2, "WorkerCrashed")
    counted = (
        status["usage"][name] for name in ("inputTokens", "outputTokens", "costUSD", "turns")
    )
    assert tuple(counted) == (100, 20, 0.31, 14)
    first = BARE.attempt_checkpoint(
        world.api.get("agenttasks", NAMESPACE, "dies")["metadata"]["uid"], 1
    )
    assert not await world.redis.exists(first)


async def test_what_a_cancelled_attempt_has_cost_is_counted_too(world):
    await world.start_operator()
    world.apply("stopped", "hang")
    await world.until("stopped", "Running")
    await keep(world, "stopped")
    usage = Usage(input_tokens=100, cost_usd=0.31, turns=14)
    record = BARE.attempt_record(
        world.api.get("agenttasks", NAMESPACE, "stopped")["metadata"]["uid"], 1
    )
    kept = KEPT.model_copy(update={"usage": usage})
    await world.redis.hset(record, CHECKPOINT_FIELD, kept.model_dump_json())
    world.api.patch("agenttasks", NAMESPACE, "stopped", {"spec": {"desiredState": "Cancelled"}})
    status = await world.until("stopped", "Cancelled")
    assert (status["usage"]["costUSD"], status["usage"]["inputTokens"]) == (0.31, 100)


@pytest.mark.parametrize("name", ["nobody", "works"])
async def test_a_task_that_can_go_on_with_nothing_says_so(world, name):
    await world.start_operator()
    world.apply("works", "ok")
    await world.until("works", "Completed")
    world.apply("new", "ok", resumeFrom=name)
    status = await world.until("new", "Failed")
    assert (status["reason"], name in status["message"]) == ("NothingToResume", True)
    assert "new-1" not in [job for _, job in world.api.objects["jobs"]]
