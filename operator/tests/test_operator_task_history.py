"""What a store of tasks tells of an AgentTask: a history that only grows, in legal steps."""

import asyncio
from itertools import pairwise

import pytest
from support.eventually import eventually

from orbiter.tasks._internal.agent_tasks import open_question, read, request_id
from orbiter.tasks.state import TaskState, refusal
from orbiter_operator.runtime.reconciler import WORKERS

pytestmark = pytest.mark.integration
NAMESPACE = "team"


def answer(world, name, text):
    """Answer the question of a task."""
    obj = world.api.get("agenttasks", NAMESPACE, name)
    given = [*obj["spec"].get("input", []), {"id": open_question(obj), "text": text}]
    world.api.patch("agenttasks", NAMESPACE, name, {"spec": {"input": given}})


def stories(world, name):
    """The events of the task as each of its versions told them."""
    return [
        [(event.seq, event.new_state or dict(event.payload)) for event in read(obj).events]
        for _, _, plural, obj in world.api.history
        if plural == "agenttasks" and obj["metadata"]["name"] == name
    ]


async def test_the_history_of_a_task_only_grows_and_in_legal_steps(world):
    await world.start_operator()
    quick = {"retry": {"limit": 1, "backoffSeconds": 0}}
    world.apply("plain", "ok")
    world.apply("flaky", "flaky=1", **quick)
    world.apply("hopeless", "fail", **quick)
    world.apply("talk", "ask", **quick)
    world.apply("alone", "ask", inputTimeoutSeconds=1)
    world.apply("enough", "ask")
    world.apply("stopped", "hang")
    world.apply("never", "ok", dependsOn=["hopeless"])
    for text in ("ask", "fail", "never said"):
        await world.until("talk", "InputRequired", "Failed")
        if world.status("talk")["phase"] == "InputRequired":
            asked = world.status("talk")["inputRequest"]["id"]
            obj = world.api.get("agenttasks", NAMESPACE, "talk")
            assert asked == request_id(obj, world.status("talk")["attempts"])
            answer(world, "talk", text)
            await eventually(
                lambda asked=asked: world.status("talk").get("inputRequest", {}).get("id") != asked
            )
    await world.until("enough", "InputRequired")
    await world.until("stopped", "Running")
    for name in ("enough", "stopped"):
        world.api.patch("agenttasks", NAMESPACE, name, {"spec": {"desiredState": "Cancelled"}})
    ends = {
        "plain": ["running", "completed"],
        "flaky": ["running", "pending", "running", "completed"],
        "hopeless": ["running", "pending", "running", "failed"],
        "talk": [
            *("running", "input_required", "pending", "running", "input_required", "pending"),
            *("running", "pending", "running", "failed"),
        ],
        "alone": ["running", "input_required", "failed"],
        "enough": ["running", "input_required", "cancelled"],
        "stopped": ["running", "cancelled"],
        "never": ["failed"],
    }
    for name, expected in ends.items():
        await world.until(name, "Completed", "Failed", "Cancelled")
        histories = stories(world, name)
        for before, after in pairwise(histories):
            known = [step for step in before if "question" not in str(step)]
            again = [step for step in after[: len(before)] if "question" not in str(step)]
            assert known == again, name
        states = [what for _, what in histories[-1] if isinstance(what, TaskState)]
        assert states == expected, name
        for now, then in pairwise([TaskState.PENDING, *states]):
            assert refusal(now, then) is None, (name, states)


async def test_in_a_burst_jobs_come_before_the_line_that_says_that_one_starts(world):
    names = [f"burst-{number}" for number in range(60)]
    everybody = asyncio.Event()

    async def hold(verb, plural, body):
        if (verb, plural) == ("create", "jobs"):
            await everybody.wait()

    for name in names:
        world.apply(name, "seen ok")
    world.api.before = hold
    world.node.turn_delay = 1.0
    operator = await world.start_operator(max_concurrent_jobs=len(names))
    waiting = f"orbiter_workqueue_depth {len(names) - WORKERS}.0"

    async def all_are_known():
        # Its ports are in its log once it listens.
        listens = "metrics_port" in operator.log.read_text()
        return listens and waiting in (await operator.answers())["metrics"][1]

    await eventually(all_are_known)
    everybody.set()
    for name in names:
        await world.until(name, "Completed")
    made = [
        plural if plural == "jobs" else obj["status"]["phase"]
        for _, change, plural, obj in world.api.history
        if (plural == "jobs" and change == "ADDED")
        or (plural == "agenttasks" and obj.get("status", {}).get("phase"))
    ]
    assert made.count("jobs") == len(names)
    assert "Pending" not in made[: len(names) - WORKERS], "the last may still be on their way"
    assert all(world.phases(name)[-2:] == ["Running", "Completed"] for name in names)
