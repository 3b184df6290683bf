"""Redis or the API server go away and come back; a second replica takes over."""

import asyncio
import signal

import pytest
from support.eventually import eventually
from support.fake_api import RefusedRequestError

from orbiter_contracts.queues import BARE

pytestmark = pytest.mark.integration
NAMESPACE = "team"


async def test_a_task_waits_while_redis_is_away_and_runs_when_it_is_back(own_world):
    own_world.server.kill()
    await own_world.start_operator()
    own_world.apply("patient")
    status = await own_world.until_reason("patient", "QueueUnavailable")
    assert status["phase"] == "Pending"
    assert "127.0.0.1" in status["message"]
    lines = len(own_world.phases("patient"))
    await asyncio.sleep(1)
    assert len(own_world.phases("patient")) == lines
    own_world.server.start()
    await own_world.until("patient", "Completed", seconds=40)


async def test_redis_may_restart_while_workers_run(own_world):
    await own_world.start_operator()
    names = [f"task-{number}" for number in range(5)]
    for name in names:
        own_world.apply(name, "ok sleep=1")
    for name in names:
        await own_world.until(name, "Running")
    own_world.server.kill()
    await asyncio.sleep(1.5)
    own_world.server.start()
    for name in names:
        await own_world.until(name, "Completed", seconds=40)
        assert own_world.phases(name) == ["Pending", "Running", "Completed"]
    assert len(own_world.node.runs) == 5


async def test_the_work_of_a_running_worker_survives_a_flush_of_redis(own_world):
    await own_world.start_operator()
    own_world.apply("works", "ok sleep=0.8")
    await own_world.until("works", "Running")
    await own_world.redis.flushall()
    await own_world.until("works", "Completed", seconds=40)


async def test_a_task_whose_entry_somebody_took_off_the_queue_is_still_answered(own_world):
    """With XTRIM or XDEL: a worker that finds its entry gone stops, and publishes nothing."""
    await own_world.start_operator()
    own_world.apply("trimmed", "silent sleep=0.8")
    await own_world.until("trimmed", "Running")
    await own_world.redis.xtrim(BARE.developer_input, maxlen=0, approximate=False)
    status = await own_world.until("trimmed", "Failed", seconds=40)
    assert status["reason"] == "WorkerCrashed"
    assert await own_world.redis.xlen(BARE.developer_output) == 1


async def test_a_worker_that_dies_after_a_flush_is_still_answered_if_the_task_says_so(own_world):
    await own_world.start_operator()
    own_world.apply("dies", "silent sleep=0.8", disruption={"policy": "Fail"})
    await own_world.until("dies", "Running")
    await own_world.redis.flushall()
    status = await own_world.until("dies", "Failed", seconds=40)
    assert status["reason"] == "QueueUnavailable"
    own_world.apply("next")
    await own_world.until("next", "Completed", seconds=40)


async def test_a_worker_that_dies_after_a_flush_is_followed_by_another(own_world):
    await own_world.start_operator()
    own_world.apply("dies", "silent once sleep=0.8")
    await own_world.until("dies", "Running")
    await own_world.redis.flushall()
    status = await own_world.until("dies", "Completed", seconds=40)
    assert (status["attempts"], status["disruptions"]) == (1, 1)
    await eventually(lambda: "QueueLost" in own_world.events("dies"))


async def test_the_password_of_redis_is_in_no_log_and_no_status(world):
    secret = "correct-horse"
    operator = await world.start_operator(
        redis_url=f"redis://operator:{secret}@127.0.0.1:{world.server.port}/0"
    )
    world.apply("locked-out")
    await world.until_reason("locked-out", "QueueUnavailable")
    assert secret not in operator.log.read_text()
    assert secret not in str(world.api.objects)


async def test_the_api_server_may_restart_while_workers_run(world):
    operator = await world.start_operator()
    world.apply("works", "ok sleep=1")
    await world.until("works", "Running")
    await world.api.stop()
    await asyncio.sleep(2)
    await world.api.start()
    await world.until("works", "Completed", seconds=40)
    world.apply("next")
    await world.until("next", "Completed", seconds=40)
    assert operator.process.returncode is None


async def test_a_watch_that_is_too_old_is_begun_anew(world):
    await world.start_operator()
    world.apply("first")
    await world.until("first", "Completed")
    world.api.forget_history()
    world.apply("second")
    await world.until("second", "Completed", seconds=40)


async def test_the_operator_waits_for_its_crds(world):
    world.api.crds = False
    operator = await world.start_operator()
    await eventually(lambda: "apply the CRDs" in operator.log.read_text())
    world.api.crds = True
    world.apply("patient")
    await world.until("patient", "Completed")


async def test_the_second_replica_takes_over_within_seconds_when_the_first_is_killed(world):
    first = await world.start_operator(identity="operator-a", lease_duration_seconds=3)
    world.apply("before")
    await world.until("before", "Completed")
    second = await world.start_operator(
        identity="operator-b", lease_duration_seconds=3, lease_renew_seconds=0.5
    )
    await eventually(lambda: "standing by" in second.log.read_text())
    await first.end(signal.SIGKILL)
    world.apply("after")
    await world.until("after", "Completed", seconds=10)


async def test_the_second_replica_takes_over_at_once_when_the_first_leaves(world):
    first = await world.start_operator(identity="operator-a", lease_duration_seconds=60)
    world.apply("before")
    await world.until("before", "Completed")
    second = await world.start_operator(identity="operator-b", lease_renew_seconds=0.2)
    await eventually(lambda: "standing by" in second.log.read_text())
    await first.end(signal.SIGTERM)
    world.apply("after")
    await world.until("after", "Completed", seconds=10)


async def test_a_replica_that_was_frozen_does_not_act_when_it_thaws(world):
    first = await world.start_operator(
        identity="operator-a", lease_duration_seconds=3, lease_renew_seconds=0.5
    )
    world.apply("before")
    await world.until("before", "Completed")
    first.process.send_signal(signal.SIGSTOP)
    await world.start_operator(
        identity="operator-b", lease_duration_seconds=3, lease_renew_seconds=0.5
    )
    world.apply("during", "ok sleep=0.2")
    await world.until("during", "Completed", seconds=20)
    first.process.send_signal(signal.SIGCONT)
    async with asyncio.timeout(10):
        assert await first.process.wait() == 1
    assert "is held by operator-b" in first.log.read_text()
    assert len([run for run in world.node.runs if run.task == "team/during"]) == 1


async def test_the_probes_tell_what_is_wrong_and_the_metrics_count(own_world):
    operator = await own_world.start_operator()
    own_world.apply("one")
    await own_world.until("one", "Completed")
    found = await operator.answers()
    assert found["healthz"] == (200, "ok")
    assert found["readyz"] == (200, "ok")
    text = found["metrics"][1]
    assert 'orbiter_tasks_finished_total{phase="Completed",reason="Succeeded"} 1.0' in text
    assert "orbiter_leader 1.0" in text
    assert 'orbiter_api_requests_total{resource="jobs",verb="create"} 1.0' in text
    assert "orbiter_cost_usd_total 0.01" in text
    own_world.server.kill()

    async def redis_is_missed():
        return (await operator.answers())["readyz"]

    async def not_ready():
        return (await redis_is_missed())[0] == 503

    await eventually(not_ready)
    assert "redis" in (await redis_is_missed())[1]
    assert (await operator.answers())["healthz"] == (200, "ok")
    own_world.server.start()


@pytest.mark.parametrize("kind", ["agenttasks", "posessions"])
async def test_a_broken_watch_is_not_ready_until_it_follows_again(world, kind):
    operator = await world.start_operator()
    world.apply("one")
    await world.until("one", "Completed")

    async def readyz():
        return (await operator.answers())["readyz"]

    async def not_ready():
        status, text = await readyz()
        return status == 503 and f"the watch of {kind} is interrupted" in text

    async def ready():
        return await readyz() == (200, "ok")

    await eventually(ready)
    whole = [False]

    async def refuse(verb, plural, body):
        if (verb, plural) == ("watch", kind) and not whole[0]:
            raise RefusedRequestError(503, "ServiceUnavailable", "etcd is away")

    world.api.before = refuse
    world.api.forget_history()
    await eventually(not_ready)
    whole[0] = True
    await eventually(ready)
    assert (await operator.answers())["healthz"] == (200, "ok")


async def test_bound_entries_survive_as_they_are_while_the_dispatcher_looks_on(world):
    await world.start_operator(adopt_namespace=NAMESPACE)
    world.apply("bound", "ok sleep=0.3")
    await world.until("bound", "Completed")
    assert len(world.api.objects["agenttasks"]) == 1
    assert await world.redis.xlen(f"{BARE.developer_input}:dead") == 0
