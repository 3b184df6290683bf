"""How single tasks end, with the real Claude Code CLI in a real pod."""

import re

from support.world import NAMESPACE, World, busy, task, worker_container


def test_a_task_is_done_by_the_real_claude_code_cli(world: World) -> None:
    prompt = (
        "Count.\n[[bash: seq 1 3 | paste -sd+ | bc 2>/dev/null || echo 6]]\n"
        '[[result: {"summary": "the sum is 6", "data": {"sum": 6}}]]'
    )
    world.apply(task("success", prompt))
    status = world.wait("success", "Completed")
    assert status["result"]["summary"] == "the sum is 6"
    assert status["result"]["data"] == {"sum": 6}
    assert status["result"]["status"] == "success"
    assert status["message"] == "the sum is 6"
    assert status["usage"]["turns"] >= 2
    assert status["usage"]["inputTokens"] > 0
    assert status["usage"]["costUSD"] > 0
    assert status["durationMs"] > 0
    assert status["attempts"] == 1
    assert status["jobName"] == "success-1"
    assert status["podName"].startswith("success-1")
    conditions = {c["type"]: c for c in status["conditions"]}
    assert all(c["reason"] and c["status"] for c in conditions.values())
    world.until(
        "an Event that says so",
        lambda: any(event["reason"] == "Completed" for event in world.events("success")),
    )


def test_an_agent_without_a_result_block_has_failed_and_its_text_is_kept(world: World) -> None:
    world.apply(task("no-verdict", "[[say: I looked around and went home]]"))
    status = world.wait("no-verdict", "Failed")
    assert status["reason"] == "NoVerdict"
    assert "I looked around and went home" in status["result"]["summary"]


def test_a_refused_api_key_is_an_agent_error_with_the_clis_words(world: World) -> None:
    world.apply(task("agent-error", "[[status: 401]]"))
    status = world.wait("agent-error", "Failed", seconds=240)
    assert status["reason"] == "AgentError"
    assert "401" in status["message"]
    world.until(
        "a Warning", lambda: any(e["type"] == "Warning" for e in world.events("agent-error"))
    )


def test_an_agent_that_takes_too_long_is_stopped(world: World) -> None:
    world.apply(task("timeout", f"[[bash: {busy(610)}]]", timeoutSeconds=4))
    status = world.wait("timeout", "Failed")
    assert status["reason"] == "AgentTimeout"
    assert status["result"]["status"] == "timeout"
    assert re.search(r"after ([4-9]|1\d) s: its time was up", status["message"])
    world.until("its pod is gone or done", lambda: not world.pods("timeout"), 30)


def test_cancelling_stops_the_agent_and_its_descendants_within_20_seconds(world: World) -> None:
    world.apply(task("cancel", f"[[bash: setsid {busy(612)} & {busy(613)}]]"))
    world.wait("cancel", "Running")
    world.until(
        "the agent runs its tool",
        lambda: busy(612) in world.processes("cancel"),
    )
    world.cluster.patch("agenttask", "cancel", {"spec": {"desiredState": "Cancelled"}}, NAMESPACE)
    status = world.wait("cancel", "Cancelled", seconds=20)
    assert status["reason"] == "Cancelled"
    world.until("no pod of it is left", lambda: not world.pods("cancel"), 20)


def test_cancelling_a_task_that_has_not_begun_runs_nothing(world: World) -> None:
    world.apply(task("cancel-early", "[[say: never]]", desiredState="Cancelled"))
    status = world.wait("cancel-early", "Cancelled")
    assert not world.jobs("cancel-early")
    assert status.get("attempts", 0) == 0


def test_an_agent_killed_for_its_memory_is_explained(world: World) -> None:
    overlay = worker_container(
        resources={"limits": {"memory": "120Mi"}, "requests": {"memory": "64Mi"}}
    )
    world.apply(task("oom", "[[say: hi]]", podTemplate=overlay))
    status = world.wait("oom", "Failed")
    assert status["reason"] == "OOMKilled"
    assert "memory" in status["message"]


def test_a_failed_attempt_is_repeated_and_the_second_succeeds(world: World) -> None:
    prompt = (
        '[[attempt: 1]] [[result: {"status": "failure", "summary": "tests are red"}]]\n'
        '[[attempt: 2]] [[result: {"summary": "tests are green"}]]'
    )
    world.apply(task("retry", prompt, retry={"limit": 1, "backoffSeconds": 1}))
    status = world.wait("retry", "Completed")
    assert status["attempts"] == 2
    assert status["jobName"] == "retry-2"
    assert status["result"]["summary"] == "tests are green"
    jobs = world.jobs("retry")
    assert sorted(job["metadata"]["name"] for job in jobs) == ["retry-1", "retry-2"]


def test_an_image_that_does_not_exist_fails_with_its_name(world: World) -> None:
    image = "localhost/orbiter/no-such-worker:dev"
    world.apply(task("bad-image", "[[say: hi]]", podTemplate=worker_container(image=image)))
    status = world.wait("bad-image", "Failed")
    assert status["reason"] == "ImagePullFailed"
    assert image in status["message"]


def test_a_pod_that_fits_nowhere_waits_and_says_so(world: World) -> None:
    overlay = worker_container(resources={"requests": {"cpu": "1000"}})
    world.apply(task("too-big", "[[say: hi]]", podTemplate=overlay))
    status = world.wait("too-big", "Pending", reason="Unschedulable")
    assert "cpu" in status["message"].lower()


def test_a_pod_template_that_the_api_refuses_fails_with_its_words(world: World) -> None:
    overlay = worker_container(imagePullPolicy="Whenever")
    world.apply(task("bad-template", "[[say: hi]]", podTemplate=overlay))
    status = world.wait("bad-template", "Failed")
    assert status["reason"] == "JobRejected"
    assert "imagePullPolicy" in status["message"]


def test_deleting_a_task_stops_its_work_and_takes_its_entry_off_the_queue(world: World) -> None:
    world.apply(task("deleted", f"[[bash: {busy(611)}]]"))
    world.wait("deleted", "Running")
    world.cluster.delete("agenttask", "deleted", NAMESPACE)
    world.until("no pod of it is left", lambda: not world.pods("deleted"), 30)

    def entries() -> list[str]:
        with world.redis() as redis:
            found = redis.xrange("worker:developer:input")
        return [entry for entry, fields in found if fields.get("agenttask") == "e2e/deleted"]

    world.until("its entry is gone", lambda: not entries())
