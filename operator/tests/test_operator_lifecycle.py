"""Whole AgentTasks through the real program, a real Redis and a fake API server."""

import asyncio
import signal

import pytest
from support.eventually import eventually
from support.fake_api import RefusedRequestError

from orbiter_contracts import DeveloperWorkerInput, encode
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, OPERATOR_GROUP
from orbiter_operator.kube.names import ENTRY, REQUEST, task_name

pytestmark = pytest.mark.integration
NAMESPACE = "team"


async def entries_left(redis):
    return await redis.xlen(BARE.developer_input)


async def outputs_unacknowledged(redis):
    groups = await redis.xinfo_groups(BARE.developer_output)
    [group] = [group for group in groups if group["name"] == OPERATOR_GROUP]
    # what was not delivered yet counts too: the operator may know of an output before it reads it
    return group["pending"] + group["lag"]


async def test_a_task_becomes_a_job_and_its_output_becomes_the_status(world):
    await world.start_operator()
    world.apply("fix-login", "ok seen")
    status = await world.until("fix-login", "Completed")
    assert status["result"] == {
        "status": "success",
        "summary": "all done",
        "commitSHA": "c0ffee",
        "data": {"files": 3},
    }
    assert status["usage"]["costUSD"] == 0.01
    assert status["jobName"] == "fix-login-1"
    assert status["workerId"] == "team.fix-login-1"
    assert status["attempts"] == 1
    assert status["durationMs"] >= 100
    assert world.phases("fix-login") == ["Pending", "Running", "Completed"]
    assert await entries_left(world.redis) == 0


async def test_a_plain_task_takes_at_most_five_writes(world):
    await world.start_operator()
    world.apply("plain", "ok sleep=0.1")
    await world.until("plain", "Completed")
    await eventually(lambda: world.events("plain") == ["Completed"])
    assert world.api.writes <= 5, world.api.requests


async def test_nothing_is_written_when_nothing_changes(world):
    await world.start_operator(resync_seconds=10)
    world.apply("quiet")
    await world.until("quiet", "Completed")
    await eventually(lambda: world.events("quiet"))
    before = world.api.writes
    job = world.api.get("jobs", NAMESPACE, "quiet-1")
    world.api.put("jobs", job)
    world.api.patch("agenttasks", NAMESPACE, "quiet", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(0.3)
    assert world.api.writes == before


async def test_an_output_is_acknowledged_after_the_status_has_it(world):
    seen = []

    async def look(verb, plural, body):
        if (verb, plural) == ("patch", "agenttasks") and body["status"].get("result"):
            seen.append(await outputs_unacknowledged(world.redis))

    world.api.before = look
    await world.start_operator()
    world.apply("careful")
    await world.until("careful", "Completed")

    async def nothing_is_pending():
        return await outputs_unacknowledged(world.redis) == 0

    await eventually(nothing_is_pending)
    assert seen == [1]


async def test_an_adopted_task_that_is_deleted_while_no_operator_runs_does_not_come_back(world):
    operator = await world.start_operator(adopt_namespace=NAMESPACE)
    message = DeveloperWorkerInput(request_id="theirs", task_id="theirs", prompt="hang")
    entry = await world.redis.xadd(BARE.developer_input, encode(message))
    await eventually(lambda: world.adopted("theirs"))
    await eventually(lambda: world.redis.hexists(BARE.adopted, entry))
    await operator.end()
    world.api.remove("agenttasks", NAMESPACE, world.adopted("theirs"))
    # as if no operator had been there for longer
    task, _, _ = (await world.redis.hget(BARE.adopted, entry)).partition(" ")
    await world.redis.hset(BARE.adopted, entry, f"{task} 1")
    await world.start_operator(adopt_namespace=NAMESPACE)

    async def taken_off():
        left = await world.redis.xrange(BARE.developer_input, entry, entry)
        return not left and not await world.redis.hexists(BARE.adopted, entry)

    await eventually(taken_off)
    world.apply("last")
    await world.until("last", "Completed")
    assert world.adopted("theirs") is None


@pytest.mark.parametrize(
    ("prompt", "reason", "message"),
    [
        ("fail", "AgentError", "the agent gave up … no idea why"),
        ("error", "AgentError", "exit code 1 … ValueError: boom"),
        ("timeout", "AgentTimeout", "no answer after 5 s"),
        ("crash", "WorkerCrashed", "exit code 1"),
        ("oom", "OOMKilled", "more memory than its limit"),
        ("silent", "WorkerCrashed", "without publishing an output"),
    ],
)
async def test_a_failure_is_explained(world, prompt, reason, message):
    await world.start_operator()
    world.apply("bad", prompt)
    status = await world.until("bad", "Failed")
    assert status["reason"] == reason
    assert message in status["message"]
    await eventually(lambda: world.events("bad") == ["Failed"])
    assert await entries_left(world.redis) == 0


async def test_readers_of_the_output_stream_hear_of_a_worker_that_died(world):
    await world.start_operator()
    world.apply("dies", "oom")
    await world.until("dies", "Failed")
    ((_, fields),) = await world.redis.xrange(BARE.developer_output)
    assert '"status":"failed"' in fields["data"]
    assert "Worker crashed: OOMKilled" in fields["data"]
    assert fields["agenttask"] == "team/dies"


async def test_a_failed_attempt_is_followed_by_another_that_succeeds(world):
    await world.start_operator()
    world.apply("flaky", "flaky=1", retry={"limit": 2, "backoffSeconds": 1})
    status = await world.until("flaky", "Completed")
    assert status["attempts"] == 2
    assert status["usage"]["costUSD"] == 0.02
    first, second = world.node.runs
    assert second.began >= first.ended
    await eventually(lambda: world.events("flaky") == ["AttemptFailed", "Completed"])


async def test_a_task_stays_failed_when_its_attempts_are_used_up(world):
    await world.start_operator()
    world.apply("hopeless", "fail", retry={"limit": 1, "backoffSeconds": 0})
    status = await world.until("hopeless", "Failed")
    assert status["attempts"] == 2
    assert len(world.node.runs) == 2


async def test_cancelling_a_running_task_stops_its_worker_and_answers(world):
    await world.start_operator()
    world.apply("long", "hang")
    await world.until("long", "Running")
    world.api.patch("agenttasks", NAMESPACE, "long", {"spec": {"desiredState": "Cancelled"}})
    status = await world.until("long", "Cancelled")
    assert status["reason"] == "Cancelled"
    await eventually(lambda: not world.node.running)
    assert world.api.get("jobs", NAMESPACE, "long-1") is None
    ((_, fields),) = await world.redis.xrange(BARE.developer_output)
    assert '"status":"cancelled"' in fields["data"]
    assert world.phases("long") == ["Pending", "Running", "Cancelled"]


async def test_cancelling_a_waiting_task_never_runs_it(world):
    await world.start_operator(max_concurrent_jobs=1)
    world.apply("first", "hang")
    await world.until("first", "Running")
    world.apply("second")
    await world.until_reason("second", "ConcurrencyLimit")
    world.api.patch("agenttasks", NAMESPACE, "second", {"spec": {"desiredState": "Cancelled"}})
    await world.until("second", "Cancelled")
    assert [run.task for run in world.node.runs] == ["team/first"]


async def test_deleting_a_task_stops_its_work_and_removes_its_entry(world):
    await world.start_operator()
    world.apply("gone", "hang")
    await world.until("gone", "Running")
    world.api.remove("agenttasks", NAMESPACE, "gone")
    await eventually(lambda: not world.node.running)

    async def the_queue_is_empty():
        return await entries_left(world.redis) == 0

    await eventually(the_queue_is_empty)


async def test_a_task_made_anew_under_its_old_name_runs_anew(world):
    await world.start_operator()
    world.apply("again", "hang")
    await world.until("again", "Running")
    world.api.remove("agenttasks", NAMESPACE, "again")
    world.apply("again", "ok")
    status = await world.until("again", "Completed", seconds=30)
    assert status["attempts"] == 1
    assert world.node.most_at_once == 1


async def test_no_more_jobs_run_than_allowed_and_the_rest_see_their_position(world):
    await world.start_operator(max_concurrent_jobs=3)
    names = [f"many-{number:02d}" for number in range(12)]
    for name in names:
        world.apply(name, "ok sleep=0.1")
    status = await world.until_reason("many-11", "ConcurrencyLimit")
    assert status["phase"] == "Pending"
    assert "3 of 3 slots taken" in status["message"]
    for name in names:
        await world.until(name, "Completed")
    assert world.node.most_at_once == 3
    assert world.phases("many-11") in (
        ["Pending", "Running", "Completed"],
        ["Pending", "Completed"],
    )


async def test_a_limit_can_be_set_for_one_namespace(world):
    await world.start_operator(max_concurrent_jobs_by_namespace='{"team": 1}')
    for name in ("one", "two"):
        world.apply(name, "ok sleep=0.1")
    for name in ("one", "two"):
        await world.until(name, "Completed")
    assert world.node.most_at_once == 1


async def test_a_task_runs_when_what_it_depends_on_is_completed(world):
    await world.start_operator()
    world.apply("last", "ok", dependsOn=["middle"])
    await world.until_reason("last", "DependencyMissing")
    world.apply("middle", "ok", dependsOn=["first"])
    world.apply("first", "ok sleep=0.2")
    await world.until_reason("last", "WaitingForDependencies")
    await world.until("last", "Completed")
    assert [run.task for run in world.node.runs] == ["team/first", "team/middle", "team/last"]


async def test_a_task_fails_when_what_it_depends_on_has_failed(world):
    await world.start_operator()
    world.apply("first", "fail")
    world.apply("second", "ok", dependsOn=["first"])
    status = await world.until("second", "Failed")
    assert status["reason"] == "DependencyFailed"
    await eventually(lambda: world.events("second") == ["Failed"])


async def test_tasks_that_depend_on_each_other_fail_with_the_circle(world):
    await world.start_operator()
    world.apply("hen", "ok", dependsOn=["egg"])
    world.apply("egg", "ok", dependsOn=["hen"])
    for name in ("hen", "egg"):
        status = await world.until(name, "Failed")
        assert status["reason"] in ("DependencyCycle", "DependencyFailed")
    reasons = {world.status(name)["reason"] for name in ("hen", "egg")}
    assert "DependencyCycle" in reasons


async def test_a_finished_task_is_deleted_when_its_time_has_come(world):
    await world.start_operator()
    world.apply("brief", "ok", ttlSecondsAfterFinished=1)
    await world.until("brief", "Completed")
    await eventually(lambda: world.api.get("agenttasks", NAMESPACE, "brief") is None)


async def test_an_agent_that_asks_makes_the_task_wait(world):
    await world.start_operator()
    world.apply("curious", "ask")
    status = await world.until("curious", "InputRequired")
    assert status["inputRequest"]["question"] == "which branch?"


async def test_an_image_that_cannot_be_pulled_fails_the_task(world):
    await world.start_operator(image_pull_timeout_seconds=2)
    world.apply("picture", "noimage")
    status = await world.until_reason("picture", "ImagePullFailed")
    assert status["phase"] == "Pending"
    status = await world.until("picture", "Failed")
    assert status["reason"] == "ImagePullFailed"
    await eventually(lambda: world.api.get("jobs", NAMESPACE, "picture-1") is None)


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [("unschedulable", "Unschedulable"), ("nosecret", "SecretMissing")],
)
async def test_a_pod_that_cannot_start_is_explained_while_it_waits(world, prompt, reason):
    await world.start_operator()
    world.apply("stuck", prompt)
    status = await world.until_reason("stuck", reason)
    assert status["phase"] == "Pending"


async def test_a_job_the_api_server_refuses_fails_the_task_with_its_words(world):
    async def refuse(verb, plural, body):
        if (verb, plural) == ("create", "jobs"):
            raise RefusedRequestError(422, "Invalid", "spec.template.spec.volumes[0]: Required")

    world.api.before = refuse
    await world.start_operator()
    world.apply("odd", "ok")
    status = await world.until("odd", "Failed")
    assert status["reason"] == "JobRejected"
    assert "spec.template.spec.volumes[0]" in status["message"]
    assert await entries_left(world.redis) == 0


async def test_a_quota_is_waited_for(world):
    full = [True]

    async def refuse(verb, plural, body):
        if (verb, plural) == ("create", "jobs") and full[0]:
            raise RefusedRequestError(403, "Forbidden", 'jobs "x" is forbidden: exceeded quota')

    world.api.before = refuse
    await world.start_operator()
    world.apply("patient", "ok")
    status = await world.until_reason("patient", "QuotaExceeded")
    assert status["phase"] == "Pending"
    full[0] = False
    world.api.patch("agenttasks", NAMESPACE, "patient", {"metadata": {"labels": {"look": "again"}}})
    await world.until("patient", "Completed", seconds=30)


async def test_a_job_name_that_is_taken_is_reported(world):
    world.api.put("jobs", {"metadata": {"name": "clash-1", "namespace": NAMESPACE}, "spec": {}})
    await world.start_operator()
    world.apply("clash", "ok")
    status = await world.until_reason("clash", "NameConflict")
    assert "clash-1" in status["message"]


async def test_a_prompt_is_taken_from_a_config_map(world):
    await world.start_operator()
    source = {"configMapKeyRef": {"name": "prompts", "key": "fix"}}
    world.apply("indirect", None, promptFrom=source)
    status = await world.until_reason("indirect", "PromptMissing")
    assert "ConfigMap prompts" in status["message"]
    world.api.put(
        "configmaps",
        {"metadata": {"name": "prompts", "namespace": NAMESPACE}, "data": {"fix": "ok"}},
    )
    world.api.patch("agenttasks", NAMESPACE, "indirect", {"metadata": {"labels": {"x": "y"}}})
    await world.until("indirect", "Completed")


async def test_an_entry_from_outside_becomes_a_task_and_runs_as_it_is(world):
    await world.start_operator(adopt_namespace=NAMESPACE)
    message = DeveloperWorkerInput(request_id="theirs", task_id="their-task", prompt="ok")
    await world.redis.xadd(BARE.developer_input, encode(message))
    tasks = world.api.objects["agenttasks"]
    await eventually(lambda: tasks)
    ((_, name),) = tasks
    status = await world.until(name, "Completed")
    assert status["requestId"] == "theirs"
    ((_, fields),) = await world.redis.xrange(BARE.developer_output)
    assert '"request_id":"theirs"' in fields["data"]
    assert await entries_left(world.redis) == 0


def forge(world, namespace, name, entry, **spec):
    """An AgentTask that says of itself that it was made of a queue entry."""
    annotations = {ENTRY: entry, REQUEST: "theirs"}
    meta = {"name": name, "namespace": namespace, "annotations": annotations}
    whole = {"prompt": "ok mine", "agent": {"type": "claude"}, **spec}
    return world.api.put("agenttasks", {"metadata": meta, "spec": whole})


async def test_an_adopted_task_that_is_deleted_while_it_waits_does_not_come_back(world):
    operator = await world.start_operator(adopt_namespace=NAMESPACE, max_concurrent_jobs=1)
    world.apply("first", "hang")
    await world.until("first", "Running")
    message = DeveloperWorkerInput(request_id="theirs", task_id="their-task", prompt="ok")
    entry = await world.redis.xadd(BARE.developer_input, encode(message))
    name = task_name(entry, BARE)
    forge(world, NAMESPACE, name, entry)
    await world.until_reason(name, "ConcurrencyLimit")
    world.api.remove("agenttasks", NAMESPACE, name)

    async def only_the_first_is_left():
        return await entries_left(world.redis) == 1

    await eventually(only_the_first_is_left)
    operator.kill_now()
    await world.start_operator(adopt_namespace=NAMESPACE, max_concurrent_jobs=2)
    world.apply("last")
    await world.until("last", "Completed")
    assert world.adopted("their-task") is None


@pytest.mark.parametrize(
    ("place", "name"),
    [("other", "thief"), ("other", None), (NAMESPACE, "thief")],
    ids=["another namespace", "another namespace, right name", "another name"],
)
async def test_a_task_that_claims_a_queue_entry_it_was_not_made_of_runs_its_own_prompt(
    world, place, name
):
    message = DeveloperWorkerInput(request_id="theirs", task_id="t", prompt="ok secret")
    entry = await world.redis.xadd(BARE.developer_input, encode(message))
    made = task_name(entry)
    forge(world, place, name or made, entry)
    thief = f"{place}/{name or made}"
    await world.start_operator(adopt_namespace=NAMESPACE)
    assert (await world.until(made, "Completed"))["requestId"] == "theirs"

    def ended():
        status = world.api.get("agenttasks", place, name or made).get("status") or {}
        return status if status.get("phase") == "Completed" else None

    status = await eventually(ended)
    assert status["requestId"] != "theirs"
    assert world.node.prompts[thief, 1] == "ok mine"
    assert world.node.prompts[f"{NAMESPACE}/{made}", 1] == "ok secret"
    (sent,) = [
        item["message"]
        for item in world.api.objects["events"].values()
        if item["reason"] == "EntryIgnored"
    ]
    assert entry in sent
    assert "own prompt" in sent


@pytest.mark.parametrize("wish", ["Running", "Cancelled"])
async def test_the_entry_of_another_tasks_job_cannot_be_claimed_nor_cancelled(world, wish):
    await world.start_operator(adopt_namespace=NAMESPACE)
    world.node.pod_delay = 0.5
    world.apply("victim", "ok secret")
    entry = await eventually(lambda: _entry_of(world))
    forged = task_name(entry)
    forge(world, NAMESPACE, forged, entry, desiredState=wish)
    status = await world.until(forged, "Cancelled")
    assert "team/victim" in status["message"] or wish == "Cancelled"
    assert (await world.until("victim", "Completed"))["result"]["summary"] == "all done"
    assert list(world.node.prompts) == [("team/victim", 1)]


async def _entry_of(world):
    entries = await world.redis.xrange(BARE.developer_input)
    return entries[0][0] if entries else None


async def test_an_entry_from_outside_that_makes_no_sense_is_a_dead_letter(world):
    await world.start_operator(adopt_namespace=NAMESPACE)
    await world.redis.xadd(BARE.developer_input, {"data": "{}"})

    async def dead_letters():
        return await world.redis.xrange(f"{BARE.developer_input}:dead")

    ((_, fields),) = await eventually(dead_letters)
    assert "prompt" in fields["reason"]
    assert await entries_left(world.redis) == 0


async def test_entries_from_outside_stay_where_they_are_while_there_is_no_free_slot(world):
    await world.start_operator(adopt_namespace=NAMESPACE, max_concurrent_jobs=1)
    world.apply("busy", "hang")
    await world.until("busy", "Running")
    await asyncio.sleep(0.6)
    message = DeveloperWorkerInput(task_id="t", prompt="ok")
    await world.redis.xadd(BARE.developer_input, encode(message))
    await asyncio.sleep(0.6)
    assert len(world.api.objects["agenttasks"]) == 1
    pending = await world.redis.xpending_range(
        BARE.developer_input, DEVELOPER_GROUP, "-", "+", 10, consumername="operator"
    )
    assert pending == []


async def test_a_pod_deleted_by_hand_is_a_crashed_worker_if_the_task_says_so(world):
    await world.start_operator()
    world.apply("hit", "hang", disruption={"policy": "Fail"})
    status = await world.until("hit", "Running")
    world.node.delete_pod(NAMESPACE, status["podName"])
    status = await world.until("hit", "Failed")
    assert status["reason"] == "WorkerCrashed"


async def test_a_job_deleted_by_hand_is_a_crashed_worker_if_the_task_says_so(world):
    await world.start_operator()
    world.apply("hit", "hang", disruption={"policy": "Fail"})
    await world.until("hit", "Running")
    world.api.remove("jobs", NAMESPACE, "hit-1")
    status = await world.until("hit", "Failed")
    assert status["reason"] == "WorkerCrashed"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_the_program_leaves_quickly_and_cleanly_when_asked(world, how):
    operator = await world.start_operator()
    world.apply("running", "hang")
    await world.until("running", "Running")
    async with asyncio.timeout(5):
        assert await operator.end(how) == 0
    lease = world.api.get("leases", "orbiter-system", "orbiter-operator")
    assert lease["spec"]["holderIdentity"] == ""


async def test_lifecycle_events_are_acknowledged(world):
    await world.start_operator()
    world.apply("task")
    await world.until("task", "Completed")

    async def nothing_is_pending():
        return (await world.redis.xpending(BARE.lifecycle, OPERATOR_GROUP))["pending"] == 0

    await eventually(nothing_is_pending)


async def test_an_operator_of_some_namespaces_leaves_the_others_alone(world):
    await world.start_operator(watch_namespaces="team,other")
    foreign = {"metadata": {"name": "far", "namespace": "elsewhere"}, "spec": {"prompt": "ok"}}
    world.api.put("agenttasks", foreign)
    world.apply("near", "ok")
    await world.until("near", "Completed")
    world.apply("later", "ok")
    await world.until("later", "Completed")
    assert "status" not in world.api.get("agenttasks", "elsewhere", "far")
