"""Agents that ask: whole tasks through the real program, a real Redis and a fake API server."""

import pytest
from support.eventually import eventually

from orbiter_contracts.attempts import request_id
from orbiter_contracts.queues import BARE
from orbiter_operator.runtime.supervisor import HINTS_SECONDS

pytestmark = pytest.mark.integration
NAMESPACE = "team"
LONGER_THAN_HINTS_WAIT = HINTS_SECONDS + 0.3
"""So that the operator hears of a turn before it is over."""


def answer(world, name, text):
    """What `kubectl orbiter answer` does."""
    given = (world.api.get("agenttasks", NAMESPACE, name)["spec"]).get("input", [])
    asked = world.status(name)["inputRequest"]["id"]
    patch = {"spec": {"input": [*given, {"id": asked, "text": text}]}}
    world.api.patch("agenttasks", NAMESPACE, name, patch)


def uid(world, name):
    return world.api.get("agenttasks", NAMESPACE, name)["metadata"]["uid"]


def job_env(world, job):
    (container,) = world.api.get("jobs", NAMESPACE, job)["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item.get("value") for item in container["env"]}


async def is_gone(world, key):
    return not await world.redis.exists(key)


async def test_an_answer_continues_the_session_in_a_new_job(world):
    world.node.turn_delay = LONGER_THAN_HINTS_WAIT
    await world.start_operator()
    world.apply("fix", "please ask")
    status = await world.until("fix", "InputRequired")
    assert status["inputRequest"]["question"] == "which branch?"
    assert status["message"] == "which branch?"
    await eventually(lambda: not world.node.running)
    answer(world, "fix", "ok main")
    status = await world.until("fix", "Completed")
    assert world.node.prompts == {("team/fix", 1): "please ask", ("team/fix", 2): "ok main"}
    assert status["attempts"] == 2
    assert "inputRequest" not in status
    assert status["usage"]["turns"] == 2
    assert world.phases("fix") == ["Pending", "Running", "InputRequired", "Running", "Completed"]
    first, second = job_env(world, "fix-1"), job_env(world, "fix-2")
    assert first["SESSION_ID"] == second["SESSION_ID"] == request_id(uid(world, "fix"), 1)
    assert first["SNAPSHOT_KEY"] == second["SNAPSHOT_KEY"] == BARE.task_snapshot(uid(world, "fix"))


async def test_a_round_costs_no_more_writes_than_its_two_lines(world):
    world.node.turn_delay = LONGER_THAN_HINTS_WAIT
    await world.start_operator()
    world.apply("cheap", "ask")
    await world.until("cheap", "InputRequired")
    await eventually(lambda: world.events("cheap") == ["InputRequired"])
    before = world.api.writes
    answer(world, "cheap", "ok")
    await world.until("cheap", "Completed")
    await eventually(lambda: world.events("cheap") == ["InputRequired", "Completed"])
    # the line Running may be written before the new Job's Pod is seen: its name is then a write
    needed = 4  # a Job, Running, Completed and its Event
    assert world.api.writes - before in (needed, needed + 1), world.api.requests


async def test_several_rounds_work_and_the_session_is_forgotten_at_the_end(world):
    await world.start_operator()
    world.apply("talk", "ask", retry={"limit": 1, "backoffSeconds": 0})
    for text in ("ask again", "ask once more", "fail"):
        await world.until("talk", "InputRequired")
        before = world.status("talk")["inputRequest"]["id"]
        answer(world, "talk", text)
        await eventually(
            lambda asked=before: world.status("talk").get("inputRequest", {}).get("id") != asked
        )
    status = await world.until("talk", "Failed")
    assert status["attempts"] == 5, "three questions, and two failures that retry.limit allows"
    assert world.node.prompts["team/talk", 5] == "fail"
    key = BARE.task_snapshot(uid(world, "talk"))
    await eventually(lambda: is_gone(world, key))


async def test_an_agent_whose_session_is_lost_is_told_everything_anew(world):
    await world.start_operator()
    world.apply("lost", "ask forgetful")
    await world.until("lost", "InputRequired")
    answer(world, "lost", "main")
    await eventually(lambda: ("team/lost", 2) in world.node.prompts)
    prompt = world.node.prompts["team/lost", 2]
    assert prompt.startswith("ask forgetful\n")
    assert prompt.endswith("You asked: which branch?\nAnswer 1: main")


async def test_nobody_answers_in_time(world):
    await world.start_operator()
    world.apply("alone", "ask", inputTimeoutSeconds=1)
    status = await world.until("alone", "Failed")
    assert status["reason"] == "InputTimeout"
    assert status["message"] == "nobody answered within 1.0s: which branch?"
    assert len(world.node.runs) == 1


async def test_a_task_is_cancelled_while_it_waits(world):
    await world.start_operator()
    world.apply("enough", "ask")
    await world.until("enough", "InputRequired")
    world.api.patch("agenttasks", NAMESPACE, "enough", {"spec": {"desiredState": "Cancelled"}})
    status = await world.until("enough", "Cancelled")
    assert status["reason"] == "Cancelled"
    key = BARE.task_snapshot(uid(world, "enough"))
    await eventually(lambda: is_gone(world, key))


async def test_a_deleted_task_leaves_no_session(world):
    await world.start_operator()
    world.apply("gone", "ask")
    await world.until("gone", "InputRequired")
    key = BARE.task_snapshot(uid(world, "gone"))
    assert await world.redis.exists(key)
    world.api.remove("agenttasks", NAMESPACE, "gone")
    await eventually(lambda: is_gone(world, key))


async def test_an_operator_that_was_away_sees_the_answer_and_the_deadline(world):
    first = await world.start_operator()
    world.apply("late", "ask")
    world.apply("hasty", "ask", inputTimeoutSeconds=1)
    await world.until("late", "InputRequired")
    await world.until("hasty", "InputRequired", "Failed")
    await first.end()
    answer(world, "late", "ok")
    await world.start_operator(identity="operator-1")
    await world.until("late", "Completed", seconds=30)
    assert (await world.until("hasty", "Failed"))["reason"] == "InputTimeout"


async def test_what_depends_on_it_waits_for_its_completion(world):
    await world.start_operator()
    world.apply("base", "ask")
    world.apply("next", "ok", dependsOn=["base"])
    await world.until("base", "InputRequired")
    assert world.status("next")["reason"] == "WaitingForDependencies"
    answer(world, "base", "ok")
    await world.until("next", "Completed")
