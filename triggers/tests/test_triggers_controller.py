"""The whole controller against a fake API server: one task for each time, whatever happens."""

import asyncio
from datetime import timedelta

import pytest
from support.fake_api import Object, RefusedRequestError
from support.trigger_world import NAMESPACE, SIX, TriggerWorld

from orbiter_operator.kube.names import owner_reference
from orbiter_triggers.naming import KIND, SCHEDULED, TRIGGER, scheduled_name

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


async def known(world: TriggerWorld, name: str = "deps") -> None:
    await world.until(lambda: world.status(name).get("observedGeneration") is not None)


async def test_a_schedule_makes_a_task_at_its_time_and_says_so(world: TriggerWorld) -> None:
    trigger = world.apply()
    await known(world)
    assert world.tasks == []
    assert world.status()["nextScheduleTime"] == "2026-11-30T06:00:00.000Z"
    world.at(SIX)
    await world.until(lambda: world.outcomes() == ["Fired"])
    [task] = world.tasks
    assert task["metadata"]["name"] == scheduled_name("deps", trigger["metadata"]["uid"], SIX)
    assert task["metadata"]["annotations"] == {"orbiter.dev/scheduled-time": "2026-11-30T06:00:00Z"}
    assert task["spec"] == {"prompt": "Look at 2026-11-30T06:00:00Z."}
    status = world.status()
    assert status["lastScheduleTime"] == "2026-11-30T06:00:00.000Z"
    assert (status["active"], status["lastTask"]) == (1, task["metadata"]["name"])
    world.ends(task)
    await world.until(lambda: world.status().get("active") == 0)


async def test_an_hour_after_another_there_are_two_tasks(world: TriggerWorld) -> None:
    world.apply()
    await known(world)
    for moment in (SIX, SIX + HOUR):
        world.at(moment)
        wanted = f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"
        await world.until(lambda wanted=wanted: world.status().get("lastScheduleTime") == wanted)
    assert len(world.tasks) == 2


@pytest.mark.parametrize("verb", ["create", "patch"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_around_a_write_makes_no_second_task_and_loses_none(
    world: TriggerWorld, verb: str, when: str
) -> None:
    world.apply()
    await known(world)
    crashed = asyncio.Event()

    async def crash(asked: str, plural: str, body: Object | None) -> None:
        if not crashed.is_set() and asked == verb and plural in ("agenttasks", "agenttriggers"):
            crashed.set()
            world.kill_soon()
            if when == "before":
                raise RefusedRequestError(503, "ServiceUnavailable", "it is going down")

    setattr(world.api, when, crash)
    world.at(SIX)
    await asyncio.wait_for(crashed.wait(), 20)
    world.now = SIX + MINUTE
    await world.start()
    await world.until(lambda: world.status().get("lastScheduleTime"))
    assert len(world.tasks) == 1
    assert world.outcomes() == ["Fired"]


async def test_a_day_of_downtime_makes_one_task_and_tells_of_the_others(
    world: TriggerWorld,
) -> None:
    world.apply()
    await known(world)
    world.at(SIX)
    await world.until(lambda: world.outcomes() == ["Fired"])
    await world.stop()
    world.now = SIX + 24 * HOUR + MINUTE
    await world.start()
    await world.until(lambda: len(world.tasks) == 2)
    await world.until(lambda: world.outcomes() == ["Fired", "Missed", "Fired"])
    assert world.status()["missedRuns"] == 23
    message = world.status()["lastEvents"][1]["message"]
    assert message.startswith("23 times of the schedule make no task, from 2026-11-30T07:00:00Z on")


async def test_a_server_that_is_away_costs_time_and_no_task(world: TriggerWorld) -> None:
    world.apply()
    await known(world)
    left = 3

    async def fails(verb: str, plural: str, body: Object | None) -> None:
        nonlocal left
        if verb == "create" and plural == "agenttasks" and left:
            left -= 1
            raise RefusedRequestError(500, "InternalError", "etcd has no leader")

    world.api.before = fails
    world.at(SIX)
    await world.until(lambda: world.outcomes() == ["Fired"])
    assert len(world.tasks) == 1


async def test_a_task_that_is_refused_is_told_and_the_next_time_is_another_try(
    world: TriggerWorld,
) -> None:
    world.apply()
    await known(world)

    async def refuses(verb: str, plural: str, body: Object | None) -> None:
        if verb == "create" and plural == "agenttasks":
            raise RefusedRequestError(422, "Invalid", "spec.agent.type: unknown agent type")

    world.api.before = refuses
    world.at(SIX)
    await world.until(lambda: world.outcomes() == ["Refused"])
    [ready] = world.status()["conditions"]
    assert (ready["status"], ready["reason"]) == ("False", "TaskRefused")
    assert world.api.requests["create", "agenttasks"] == 1
    world.api.before = world.api.after
    world.at(SIX + HOUR)
    await world.until(lambda: world.outcomes() == ["Fired", "Refused"])
    assert world.status()["conditions"][0]["status"] == "True"


async def test_a_name_that_somebody_elses_task_has_is_told(world: TriggerWorld) -> None:
    trigger = world.apply()
    name = scheduled_name("deps", trigger["metadata"]["uid"], SIX)
    world.api.put("agenttasks", {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {}})
    await known(world)
    world.at(SIX)
    await world.until(lambda: world.outcomes() == ["Refused"])
    assert "is not this trigger's" in world.status()["lastEvents"][0]["message"]


async def test_forbid_waits_for_the_end_of_the_task_before(world: TriggerWorld) -> None:
    world.apply(cron={"concurrencyPolicy": "Forbid"})
    await known(world)
    world.at(SIX)
    await world.until(lambda: len(world.tasks) == 1)
    world.at(SIX + HOUR)
    await world.until(lambda: world.outcomes()[:1] == ["Waiting"])
    assert len(world.tasks) == 1
    world.ends(world.tasks[0], "Failed")
    await world.until(lambda: len(world.tasks) == 2)


async def test_replace_deletes_the_task_before(world: TriggerWorld) -> None:
    world.apply(cron={"concurrencyPolicy": "Replace"})
    await known(world)
    world.at(SIX)
    await world.until(lambda: world.outcomes() == ["Fired"])
    [first] = world.tasks
    world.at(SIX + HOUR)
    await world.until(lambda: world.outcomes() == ["Fired", "Fired"])
    [second] = world.tasks
    assert second["metadata"]["name"] != first["metadata"]["name"]


async def test_history_goes_when_it_is_an_hour_old(world: TriggerWorld) -> None:
    world.apply(historyLimits={"successful": 0, "failed": 1})
    await known(world)
    world.at(SIX)
    await world.until(lambda: len(world.tasks) == 1)
    world.ends(world.tasks[0])
    await world.until(lambda: world.status().get("active") == 0)
    assert len(world.tasks) == 1
    world.at(SIX + HOUR)
    await world.until(lambda: world.outcomes() == ["Fired", "Fired"])
    await world.until(lambda: len(world.tasks) == 1)
    assert world.tasks[0]["metadata"]["name"].startswith("deps-202611300700-")


async def test_what_passes_while_it_is_suspended_is_not_made_up_for(world: TriggerWorld) -> None:
    world.apply(suspend=True)
    await known(world)
    world.at(SIX + MINUTE)
    await world.until(lambda: world.outcomes() == ["Suspended"])
    world.apply(suspend=False)
    await world.until(
        lambda: world.status().get("conditions", [{}])[0].get("reason") == "AsExpected"
    )
    assert world.tasks == []


async def test_a_trigger_that_cannot_be_read_stops_no_other(world: TriggerWorld) -> None:
    world.api.put(
        "agenttriggers",
        {"metadata": {"name": "odd", "namespace": NAMESPACE}, "spec": ["no", "spec"]},
    )
    world.apply()
    await known(world)
    await known(world, "odd")
    world.at(SIX)
    await world.until(lambda: len(world.tasks) == 1)
    stalled = {each["type"]: each["status"] for each in world.status("odd")["conditions"]}
    assert stalled == {"Ready": "False", "Stalled": "True"}


async def test_a_task_that_says_a_time_of_no_calendar_stops_no_trigger(world: TriggerWorld) -> None:
    trigger = world.apply()
    await known(world)
    meta = {
        "name": "odd",
        "namespace": NAMESPACE,
        "labels": {TRIGGER: "deps"},
        "annotations": {SCHEDULED: "9999-12-31T23:59:59-14:00"},
        "ownerReferences": [owner_reference(KIND, "deps", trigger["metadata"]["uid"])],
    }
    world.api.put("agenttasks", {"metadata": meta, "spec": {"prompt": "x"}})
    await world.start()
    await world.until(lambda: world.status().get("active") == 1)
    world.at(SIX)
    await world.until(lambda: len(world.tasks) == 2)


async def test_one_that_is_made_anew_under_its_name_has_tasks_of_its_own(
    world: TriggerWorld,
) -> None:
    world.apply()
    await known(world)
    world.at(SIX)
    await world.until(lambda: len(world.tasks) == 1)
    world.api.remove("agenttriggers", NAMESPACE, "deps")
    world.now = SIX - MINUTE
    world.apply()
    await known(world)
    world.at(SIX)
    await world.until(lambda: len(world.tasks) == 2)


async def test_it_is_ready_when_it_follows_everything_and_counts_what_it_makes(
    world: TriggerWorld,
) -> None:
    world.apply()
    await known(world)
    await world.until(lambda: world.health.ready() == [])
    world.at(SIX)
    await world.until(lambda: world.outcomes() == ["Fired"])
    made = world.metrics.registry.get_sample_value(
        "orbiter_trigger_tasks_total", {"namespace": NAMESPACE}
    )
    assert made == 1.0
