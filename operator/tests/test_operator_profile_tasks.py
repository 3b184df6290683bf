"""Tasks with AgentProfiles through the real program, a real Redis and a fake API server."""

import json

import pytest
from support.eventually import eventually
from support.fake_api import RefusedRequestError

from orbiter_operator.kube.names import revision_name

pytestmark = pytest.mark.integration
NAMESPACE = "team"


async def start(world):
    """An operator with an image for two types of agents."""
    images = {name: f"{name}:1" for name in ("claude", "codex")}
    return await world.start_operator(worker_images=json.dumps(images))


def put_profile(world, name="house", **spec):
    """What `kubectl apply` does with an AgentProfile."""
    old = world.api.get("agentprofiles", NAMESPACE, name)
    if old is not None:
        return world.api.patch("agentprofiles", NAMESPACE, name, {"spec": spec})
    meta = {"name": name, "namespace": NAMESPACE}
    return world.api.put("agentprofiles", {"metadata": meta, "spec": spec})


def put_task(world, name, prompt="ok", **spec):
    """A task that says nothing of its agent, as the API server keeps it."""
    return world.apply(name, prompt, **{"agent": {}, "profileRef": {"name": "house"}} | spec)


def environment(world, job):
    """The variables of a Job's worker."""
    found = world.api.get("jobs", NAMESPACE, job)
    [worker] = found["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item.get("value") for item in worker["env"]}


def condition(world, name, kind="ProfileResolved"):
    found = world.status(name).get("conditions", [])
    return next((item for item in found if item["type"] == kind), None)


def revisions(world):
    return list(world.api.objects["controllerrevisions"].values())


def revision_of(world, name):
    uid = world.api.get("agenttasks", NAMESPACE, name)["metadata"]["uid"]
    return world.api.get("controllerrevisions", NAMESPACE, revision_name(name, uid))


async def until_tasks_have(world, model, attempts=100):
    """Profiles and tasks are two watches: a task may be there before the change of its profile."""
    for number in range(attempts):
        put_task(world, f"later-{number}")
        if (await world.until(f"later-{number}", "Completed"))["agent"]["model"] == model:
            return
    raise AssertionError(f"no task of {attempts} has the model {model}")


async def test_a_task_has_what_its_profile_says_and_its_status_names_it(world):
    await start(world)
    put_profile(world, agent={"type": "codex", "model": "large", "maxTurns": 7}, timeoutSeconds=90)
    put_task(world, "fix", agent={"maxTurns": 5})
    status = await world.until("fix", "Completed")
    assert status["agent"] == {"type": "codex", "model": "large"}
    revision = revision_of(world, "fix")
    assert status["profile"] == {
        "kind": "AgentProfile",
        "name": "house",
        "generation": 1,
        "revision": revision["metadata"]["name"],
    }
    assert condition(world, "fix")["status"] == "True"
    variables = environment(world, "fix-1")
    assert (variables["AGENT_TYPE"], variables["AGENT_MODEL"]) == ("codex", "large")
    assert variables["AGENT_MAX_TURNS"] == "5"
    spec = world.api.get("jobs", NAMESPACE, "fix-1")["spec"]["template"]["spec"]
    assert spec["activeDeadlineSeconds"] == 90 + 2400
    assert world.api.get("agenttasks", NAMESPACE, "fix")["spec"]["agent"] == {"maxTurns": 5}


async def test_a_task_waits_for_its_profile_and_begins_when_it_is_there(world):
    await start(world)
    put_task(world, "early")
    status = await world.until_reason("early", "ProfileMissing")
    assert status["phase"] == "Pending"
    assert status["message"] == (
        "AgentProfile house does not exist here; create it, and the task goes on"
    )
    assert condition(world, "early")["status"] == "False"
    assert condition(world, "early", "Admitted")["reason"] == "ProfileMissing"
    await eventually(lambda: world.events("early") == ["ProfileMissing"])
    assert revisions(world) == []
    put_profile(world, agent={"type": "codex"})
    status = await world.until("early", "Completed")
    assert status["agent"]["type"] == "codex"
    assert condition(world, "early")["status"] == "True"


async def test_a_profile_that_cannot_be_used_is_named_and_mended(world):
    await start(world)
    put_profile(world, podTemplate={"spec": {"hostPID": True}})
    put_task(world, "held")
    status = await world.until_reason("held", "ProfileInvalid")
    assert status["phase"] == "Pending"
    assert status["message"].startswith(
        "AgentProfile house cannot be used: spec.podTemplate.spec.hostPID"
    )
    put_profile(world, podTemplate=None)
    await world.until("held", "Completed")


async def test_what_a_profile_does_not_let_be_said_fails_the_task(world):
    await start(world)
    put_profile(world, agent={"model": "small"})
    put_task(world, "bold", agent={"model": "large"})
    status = await world.until("bold", "Failed")
    assert status["reason"] == "InvalidSpec"
    assert status["message"].startswith("spec.agent.model is 'large': leave it out, or")
    assert world.api.objects["jobs"] == {}


async def test_another_attempt_has_the_profile_of_the_first_whatever_becomes_of_it(world):
    operator = await start(world)
    put_profile(world, agent={"type": "codex", "model": "first"})
    put_task(world, "again", "flaky=1 sleep=0.2", retry={"limit": 1, "backoffSeconds": 1})
    await world.until("again", "Running")
    put_profile(world, agent={"type": "claude", "model": "second"})
    await until_tasks_have(world, "second")
    world.api.remove("agentprofiles", NAMESPACE, "house")
    await operator.end()
    await start(world)
    status = await world.until("again", "Completed", "Failed")
    assert (status["phase"], status["attempts"]) == ("Completed", 2)
    assert environment(world, "again-2")["AGENT_MODEL"] == "first"
    assert status["agent"] == {"type": "codex", "model": "first"}
    assert status["profile"]["generation"] == 1


async def test_an_operator_that_crashes_behind_the_revision_goes_on_with_it(world):
    """The profile changes between the revision and the Job: the revision is what counts."""

    async def killed(verb, plural, body):
        if (verb, plural) == ("create", "controllerrevisions"):
            world.operators[-1].kill_now()

    put_profile(world, agent={"type": "codex", "model": "first"})
    world.api.after = killed
    operator = await start(world)
    put_task(world, "crash")
    await eventually(lambda: revisions(world))
    await operator.end()
    world.api.after = world.api.before
    put_profile(world, agent={"type": "codex", "model": "second"})
    await start(world)
    status = await world.until("crash", "Completed")
    assert status["agent"]["model"] == "first"
    assert environment(world, "crash-1")["AGENT_MODEL"] == "first"
    assert len(revisions(world)) == 1


async def test_a_revision_belongs_to_its_task_and_goes_with_it(world):
    await start(world)
    put_profile(world, agent={"model": "m"})
    put_task(world, "mine")
    await world.until("mine", "Completed")
    revision = revision_of(world, "mine")
    [owner] = revision["metadata"]["ownerReferences"]
    task = world.api.get("agenttasks", NAMESPACE, "mine")
    assert (owner["kind"], owner["uid"]) == ("AgentTask", task["metadata"]["uid"])
    [kept] = revision["data"]["profiles"]
    assert (kept["kind"], kept["spec"]) == ("AgentProfile", {"agent": {"model": "m"}})


async def test_a_revision_of_somebody_else_is_not_believed(world):
    await start(world)
    task = put_task(world, "robbed")
    await world.until_reason("robbed", "ProfileMissing")
    evil = {"kind": "AgentProfile", "name": "house", "uid": "x", "generation": 1}
    evil["spec"] = {"agent": {"model": "evil"}}
    forged = {
        "metadata": {
            "name": revision_name("robbed", task["metadata"]["uid"]),
            "namespace": NAMESPACE,
        },
        "revision": 1,
        "data": {"profiles": [evil]},
    }
    world.api.put("controllerrevisions", forged)
    put_profile(world, agent={"model": "good"})
    status = await world.until_reason("robbed", "ProfileConflict")
    assert "exists and is not this AgentTask's; delete it" in status["message"]
    assert world.api.objects["jobs"] == {}


async def test_without_the_right_to_keep_a_profile_a_task_waits_and_says_so(world):
    async def forbidden(verb, plural, body):
        if (verb, plural) == ("create", "controllerrevisions"):
            raise RefusedRequestError(403, "Forbidden", "controllerrevisions is forbidden")

    world.api.before = forbidden
    await start(world)
    put_profile(world)
    put_task(world, "poor")
    status = await world.until_reason("poor", "Forbidden")
    assert (status["phase"], status.get("attempts", 0)) == ("Pending", 0)


async def test_the_profile_named_default_is_that_of_tasks_that_name_none(world):
    await start(world)
    put_task(world, "before", profileRef=None)
    assert "profile" not in await world.until("before", "Completed")
    put_profile(world, "default", agent={"type": "codex"})
    put_profile(world, agent={"type": "claude"})
    # Profiles and tasks come by two watches: this one waits for the profile, where none would not.
    put_task(world, "seen", profileRef={"name": "default"})
    await world.until("seen", "Completed")
    put_task(world, "plain", profileRef=None)
    put_task(world, "other")
    status = await world.until("plain", "Completed")
    assert (status["profile"]["name"], status["agent"]["type"]) == ("default", "codex")
    status = await world.until("other", "Completed")
    assert (status["profile"]["name"], status["agent"]["type"]) == ("house", "claude")


async def test_a_default_that_comes_later_changes_no_task_that_has_begun(world):
    operator = await start(world)
    retry = {"limit": 1, "backoffSeconds": 1}
    put_task(world, "begun", "flaky=1 sleep=0.2", profileRef=None, retry=retry)
    await world.until("begun", "Running")
    put_profile(world, "default", agent={"type": "codex"})
    await operator.end()
    await start(world)
    status = await world.until("begun", "Completed")
    assert (status["attempts"], status["agent"]["type"]) == (2, "claude")
    assert "profile" not in status


async def test_a_change_of_a_profile_asks_again_after_none_that_has_begun(world):
    await start(world)
    put_profile(world, agent={"model": "m"})
    put_task(world, "done")
    await world.until("done", "Completed")
    await eventually(lambda: world.events("done"))
    before = world.api.writes
    put_profile(world, agent={"model": "n"})
    put_task(world, "next")
    await world.until("next", "Completed")
    assert world.status("done")["profile"]["generation"] == 1
    assert world.api.writes - before <= 6


async def test_a_task_without_a_profile_costs_no_request_more(world):
    await start(world)
    put_task(world, "plain", profileRef=None)
    await world.until("plain", "Completed")
    assert not [verb for verb, plural in world.api.requests if plural == "controllerrevisions"]


async def test_another_task_of_the_name_has_a_revision_of_its_own(world):
    await start(world)
    put_profile(world, agent={"model": "first"})
    put_task(world, "same")
    await world.until("same", "Completed")
    first = revision_of(world, "same")["metadata"]["name"]
    world.api.remove("agenttasks", NAMESPACE, "same")
    put_profile(world, agent={"model": "second"})
    await until_tasks_have(world, "second")
    put_task(world, "same")
    await eventually(lambda: world.status("same").get("agent", {}).get("model") == "second")
    await world.until("same", "Completed")
    assert revision_of(world, "same")["metadata"]["name"] != first
