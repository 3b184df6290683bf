"""`kubectl orbiter` on the real cluster, run by the real kubectl as its plugin."""

import json
from collections.abc import Iterator

import pytest
from support.plugin import CALL_SECONDS, Plugin
from support.session_world import SessionWorld, clear_sessions, front_end
from support.world import NAMESPACE, World, task

from orbiter_contracts.input_requests import digest

QUESTION = '[[result: {"status": "input_required", "summary": "looked", "question": "Which?"}]]'
BUSY = "[[bash: tail -n 4242 -f /dev/null]]"


@pytest.fixture(scope="module")
def plugin(world: World) -> Plugin:
    return Plugin(world)


@pytest.fixture(scope="module")
def alice(world: World) -> Iterator[str]:
    """A session that sleeps."""
    clear_sessions(world)
    with front_end(world) as redis:
        talks = SessionWorld(world, redis)
        talks.apply("alice", idle=60, streaming="Enabled")
        talks.wait("alice", "Asleep")
        yield "alice"
    clear_sessions(world)


def test_the_doctor_finds_nothing_wrong_here(plugin: Plugin) -> None:
    found = json.loads(plugin.run("doctor", "--json"))
    assert [each for each in found if each["verdict"] != "ok"] == []
    assert len(found) == 10


def test_a_task_is_handed_in_answered_and_described(plugin: Plugin) -> None:
    prompt = f"[[remember: blue 42]]\n{QUESTION}"
    with plugin.start("submit", prompt, "--name", "asks", "--wait") as child:
        told, _ = child.communicate(timeout=CALL_SECONDS)
    assert child.returncode == 4
    assert "Which?" in told
    assert "kubectl orbiter answer asks TEXT" in told
    told = plugin.run("answer", "at/asks", "[[recall]]\n[[result]]", "--wait")
    assert "Completed" in told
    assert "blue 42" in told
    shown = plugin.run("describe", "asks")
    assert "asks in namespace e2e" in shown
    assert "Completed (Succeeded)" in shown
    assert '"event": "answered"' in plugin.run("logs", "asks", "--tail", "3")
    assert json.loads(plugin.run("usage", "asks", "--json"))["attempts"] == 2


def test_what_tasks_have_cost_is_summed_up(plugin: Plugin, world: World) -> None:
    """Of those that are there; what was deleted only a budget knows of."""
    world.apply(task("costs", "[[result]]"))
    world.wait("costs", "Completed")
    usages = [status.get("usage") or {} for status in world.tasks().values()]
    known = sum(usage.get("costUSD") or 0.0 for usage in usages)
    found = json.loads(plugin.run("cost", "--by", "namespace,kind", "-o", "json"))
    rows = {row["keys"]["kind"]: row for row in found["rows"]}
    assert rows["task"]["tasks"] == len(usages)
    assert rows["task"]["cost_usd"] == pytest.approx(known)
    assert rows["task"]["keys"]["namespace"] == NAMESPACE
    last = plugin.run("cost", "--by", "label:team", "-A").splitlines()[-1]
    assert last.startswith("TOTAL")


def test_a_task_is_watched_and_cancelled(plugin: Plugin) -> None:
    assert plugin.run("submit", BUSY, "--name", "endless") == "agenttask/endless created\n"
    with plugin.start("watch", "endless", "--timeout", f"{CALL_SECONDS}s") as watcher:
        assert watcher.stdout is not None
        next(line for line in watcher.stdout if "Running" in line)
        plugin.run("cancel", "endless", "--wait")
        told = watcher.stdout.read()
    assert watcher.returncode == 5
    assert "Cancelled" in told
    assert plugin.run("cancel", "endless") == "agenttask/endless is cancelled\n"


CAREFUL = """
name: careful
model: anthropic:claude-sonnet-4-5
tools: [workspace]
approval: [run_command]
"""


def test_what_is_approved_is_the_call_that_was_shown_and_a_retry_asks_again(
    plugin: Plugin, world: World
) -> None:
    command = {"command": "kill -9 $PPID", "timeout": 25.0}
    prompt = f"[[tool: run_command {json.dumps(command)}]]\n[[result]]"
    made = task("careful", prompt, retry={"limit": 1, "backoffSeconds": 0})
    agent_file = {"configMapKeyRef": {"name": "careful", "key": "agent"}}
    made["spec"]["agent"] |= {"type": "orbiter", "fileFrom": agent_file}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"agent": CAREFUL}}
    world.apply(config | {"metadata": {"name": "careful", "namespace": NAMESPACE}}, made)
    status = world.wait("careful", "InputRequired")
    asked = status["inputRequest"]
    (call,) = asked["calls"]
    assert (asked["kind"], call["tool"]) == ("approval", "run_command")
    # the API server has made 25 of 25.0, and it is the same call
    assert call["digest"] == digest("run_command", call["arguments"])
    told = plugin.run("answer", "careful", "maybe", code=1)
    assert "is no answer: type `approve`" in told
    # its process is killed by the command: the next attempt asks, and does not run it again
    plugin.run("answer", "careful", "approve", "--wait", code=4)
    again = world.wait("careful", "InputRequired")["inputRequest"]
    assert "what was approved may have run already" in again["question"]
    (given,) = world.cluster.get("agenttask", "careful", NAMESPACE)["spec"]["input"]
    assert json.loads(given["text"])["digest"] == call["digest"]
    plugin.run("answer", "careful", "no, it has", "--wait")
    world.wait("careful", "Completed")


def test_a_task_that_has_ended_is_tried_again(plugin: Plugin) -> None:
    plugin.run("submit", "[[result]]", "--name", "quick", "--wait")
    told = plugin.run("retry", "quick", "--name", "quick-again", "--max-cost", "2", "--wait")
    assert "Completed" in told
    assert "is Completed: only one that failed" in plugin.run("retry", "quick", "--resume", code=1)


def test_a_sleeping_session_answers_and_remembers(plugin: Plugin, alice: str) -> None:
    assert plugin.run("chat", alice, "--once", "[[remember: blue 42]]").endswith("blue 42\n")
    output = json.loads(plugin.run("chat", f"pos/{alice}", "--json", "--once", "[[recall]]"))
    assert (output["status"], "blue 42" in output["text"]) == ("success", True)
    assert f"(it was {output['session_id']})" in plugin.run("rotate", alice)
    assert "I remember nothing" in plugin.run("chat", alice, "--once", "[[recall]]")
    assert '"event": "answered"' in plugin.run("logs", alice)
    assert json.loads(plugin.run("usage", alice, "--json"))["turns"] >= 3


def test_a_session_that_cannot_answer_says_so(plugin: Plugin, world: World, alice: str) -> None:
    world.cluster.patch("posession", alice, {"spec": {"operatingMode": "Suspended"}}, NAMESPACE)
    assert "is suspended" in plugin.run("chat", alice, "--once", "hi", code=4)
    assert "no POSession 'nobody'" in plugin.run("chat", "nobody", "--once", "hi", code=3)
