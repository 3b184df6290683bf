"""An agent that asks, on the cluster: the real CLI goes on in a new Job where it was."""

import json

from support.world import NAMESPACE, World, task

QUESTION = '[[result: {"status": "input_required", "summary": "looked", "question": "Which?"}]]'


def answer(world: World, name: str, text: str) -> None:
    """What `kubectl orbiter answer` does."""
    found = world.cluster.get("agenttask", name, NAMESPACE)
    asked = found["status"]["inputRequest"]["id"]
    given = [*found["spec"].get("input", []), {"id": asked, "text": text}]
    world.cluster.patch("agenttask", name, {"spec": {"input": given}}, NAMESPACE)


def pods(world: World, name: str) -> list[str]:
    """Names of the task's pods that have not ended."""
    found = world.cluster.list_all("pods", NAMESPACE, f"orbiter.dev/agenttask={name}")
    over = ("Succeeded", "Failed")
    return [item["metadata"]["name"] for item in found if item["status"]["phase"] not in over]


def test_answers_continue_the_same_session_in_new_jobs(world: World) -> None:
    world.apply(task("talk", f"[[remember: blue 42]]\n{QUESTION}"))
    status = world.wait("talk", "InputRequired")
    assert (status["message"], status["progress"]) == ("Which?", "looked")
    world.until("no pod while it waits", lambda: not pods(world, "talk"))
    answer(world, "talk", f"[[recall]]\n{QUESTION}")
    first = status["inputRequest"]["id"]
    world.cluster.wait_for(
        "agenttask",
        "talk",
        lambda found: found["status"].get("inputRequest", {}).get("id", first) != first,
        namespace=NAMESPACE,
    )
    answer(world, "talk", '[[recall]]\n[[result: {"summary": "{output}"}]]\n[[result]]')
    status = world.wait("talk", "Completed")
    assert status["attempts"] == 3
    assert status["jobName"] == "talk-3"
    assert "blue 42" in json.dumps(world.output_of("talk")), "the session was not resumed"
    with world.redis() as redis:
        uid = world.cluster.get("agenttask", "talk", NAMESPACE)["metadata"]["uid"]
        world.until("no session left", lambda: not redis.exists(f"agenttask:{uid}:snapshot"))


def test_a_question_nobody_answers_fails_the_task(world: World) -> None:
    world.apply(task("alone", QUESTION, inputTimeoutSeconds=2))
    status = world.wait("alone", "Failed")
    assert status["reason"] == "InputTimeout"
    assert status["message"] == "nobody answered within 2.0s: Which?"


def test_a_task_that_waits_for_an_answer_can_be_cancelled(world: World) -> None:
    world.apply(task("enough", QUESTION))
    world.wait("enough", "InputRequired")
    world.cluster.patch("agenttask", "enough", {"spec": {"desiredState": "Cancelled"}}, NAMESPACE)
    assert world.wait("enough", "Cancelled")["reason"] == "Cancelled"
