"""Sessions with profiles: read at each wake and kept until they sleep."""

import pytest
from support.eventually import eventually
from support.running_sessions import DEFAULTS, running_sessions
from support.talks import Talks

from orbiter_operator.profiles.models import CLUSTER, NAMESPACED, Profile
from orbiter_operator.profiles.wiring import profile_error
from orbiter_operator.sessions.observe import read_session_spec

pytestmark = pytest.mark.integration
NAMESPACE = "team"
STAYS = {"scaleToZeroAfterSeconds": 900}
CACHE = {"name": "tools", "persistentVolumeClaim": {"claimName": "tools"}}
FIXED = {"spec": {"serviceAccountName": "agents", "volumes": [CACHE]}}


@pytest.fixture
def talks(world):
    return Talks(world.api, world.redis)


@pytest.fixture
async def operator(world):
    async with running_sessions(world.api, world.server) as running:
        yield running


def put(world, name, namespace="", **spec):
    plural = "agentprofiles" if namespace else "clusteragentprofiles"
    if world.api.get(plural, namespace, name) is not None:
        return world.api.patch(plural, namespace, name, {"spec": spec})
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return world.api.put(plural, {"metadata": meta, "spec": spec})


def deployment(world, name):
    return world.api.get("deployments", NAMESPACE, name)


def pod_of(world, name):
    return deployment(world, name)["spec"]["template"]["spec"]


def model_of(world, name):
    [worker] = pod_of(world, name)["containers"]
    return {item["name"]: item.get("value") for item in worker["env"]}.get("AGENT_MODEL")


def revisions(world):
    return world.api.objects["controllerrevisions"]


async def test_a_session_has_what_its_profiles_say_and_its_status_names_them(world, talks):
    put(world, "default", podTemplate=FIXED)
    put(world, "house", NAMESPACE, agent={"model": "large"})
    async with running_sessions(world.api, world.server):
        talks.apply("alice", profileRef={"name": "house"})
        await talks.send("alice", "hello")
        assert await talks.answered("alice") == ["re: hello"]
        profile = (await talks.until("alice", "Asleep"))["profile"]
    assert (profile["kind"], profile["name"], profile["generation"]) == (NAMESPACED, "house", 1)
    assert profile["base"] == {"name": "default", "generation": 1}
    assert model_of(world, "alice") == "large"
    assert pod_of(world, "alice")["serviceAccountName"] == "agents"
    assert CACHE in pod_of(world, "alice")["volumes"]
    revision = revisions(world)[NAMESPACE, profile["revision"]]
    [owner] = revision["metadata"]["ownerReferences"]
    session = world.api.get("posessions", NAMESPACE, "alice")
    assert (owner["kind"], owner["uid"]) == ("POSession", session["metadata"]["uid"])
    [kept, base] = revision["data"]["profiles"]
    assert (kept["spec"], base["spec"]) == ({"agent": {"model": "large"}}, {"podTemplate": FIXED})


async def test_a_change_holds_from_the_next_wake_on(world, operator, talks):
    put(world, "house", NAMESPACE, agent={"model": "first"})
    talks.apply("alice", profileRef={"name": "house"}, idle=STAYS)
    await talks.send("alice", "one")
    await talks.answered("alice")
    await talks.until("alice", "Ready")
    put(world, "house", NAMESPACE, agent={"model": "second"})
    # It is looked at again, and goes on with what it has.
    await talks.send("alice", "two")
    await talks.answered("alice", 2)
    await eventually(lambda: talks.status("alice").get("turns") == 2)
    assert model_of(world, "alice") == "first"
    assert talks.status("alice")["profile"]["generation"] == 1
    talks.change("alice", idle={"scaleToZeroAfterSeconds": 0})
    await talks.until("alice", "Asleep")
    await talks.send("alice", "three")
    await talks.answered("alice", 3)
    await eventually(lambda: model_of(world, "alice") == "second")
    await eventually(lambda: talks.status("alice")["profile"]["generation"] == 2)
    # Nobody needs the first any more.
    await eventually(lambda: len(revisions(world)) == 1)


async def test_an_operator_that_begins_anew_leaves_an_awake_session_its_profile(world, talks):
    put(world, "house", NAMESPACE, agent={"model": "first"})
    async with running_sessions(world.api, world.server):
        talks.apply("alice", profileRef={"name": "house"}, idle=STAYS)
        await talks.send("alice", "one")
        await talks.answered("alice")
        await talks.until("alice", "Ready")
    put(world, "house", NAMESPACE, agent={"model": "second"})
    before = deployment(world, "alice")["metadata"]["resourceVersion"]
    async with running_sessions(world.api, world.server):
        await talks.send("alice", "two")
        await talks.answered("alice", 2)
        await eventually(lambda: talks.status("alice").get("turns") == 2)
        assert deployment(world, "alice")["metadata"]["resourceVersion"] == before
        assert talks.status("alice")["profile"]["generation"] == 1


async def test_the_end_of_a_profile_ends_no_session_that_is_awake(world, operator, talks):
    put(world, "house", NAMESPACE, agent={"model": "first"})
    talks.apply("alice", profileRef={"name": "house"}, idle=STAYS)
    await talks.send("alice", "one")
    await talks.answered("alice")
    await talks.until("alice", "Ready")
    world.api.remove("agentprofiles", NAMESPACE, "house")
    await talks.send("alice", "two")
    await talks.answered("alice", 2)
    talks.change("alice", idle={"scaleToZeroAfterSeconds": 0})
    reported = await talks.until_reason("alice", "ProfileMissing")
    assert reported["message"] == (
        "AgentProfile house does not exist here; create it, and the session goes on"
    )
    # A worker that is about to end may still take one.
    await eventually(lambda: not world.api.objects["pods"])
    await talks.send("alice", "three")
    await eventually(lambda: talks.status("alice").get("pendingMessages") == 1)
    assert talks.replicas("alice") == 0
    put(world, "house", NAMESPACE, agent={"model": "third"})
    assert (await talks.answered("alice", 3))[-1] == "re: three"
    assert model_of(world, "alice") == "third"


async def test_a_session_waits_for_its_profile_and_its_messages_with_it(world, operator, talks):
    talks.apply("early", profileRef={"kind": CLUSTER, "name": "strict"})
    await talks.until_reason("early", "ProfileMissing")
    assert deployment(world, "early") is None
    await talks.send("early", "hello")
    put(world, "strict", agent={"model": "large"})
    assert await talks.answered("early") == ["re: hello"]
    assert model_of(world, "early") == "large"


async def test_another_name_in_the_spec_of_an_awake_session_holds_at_once(world, operator, talks):
    put(world, "house", NAMESPACE, agent={"model": "first"})
    put(world, "strict", agent={"model": "second"})
    talks.apply("alice", profileRef={"name": "house"}, idle=STAYS)
    await talks.send("alice", "one")
    await talks.answered("alice")
    await talks.until("alice", "Ready")
    talks.change("alice", profileRef={"kind": CLUSTER, "name": "strict"})
    await eventually(lambda: model_of(world, "alice") == "second")
    await eventually(lambda: talks.status("alice")["profile"]["name"] == "strict")
    talks.change("alice", profileRef=None)
    await eventually(lambda: model_of(world, "alice") is None)
    await eventually(lambda: "profile" not in talks.status("alice"))
    await eventually(lambda: not revisions(world))


async def test_a_default_that_comes_while_it_is_awake_waits_until_it_sleeps(world, operator, talks):
    talks.apply("alice", idle=STAYS)
    await talks.send("alice", "one")
    await talks.answered("alice")
    await talks.until("alice", "Ready")
    put(world, "default", agent={"model": "large"})
    await talks.send("alice", "two")
    await talks.answered("alice", 2)
    assert model_of(world, "alice") is None
    talks.change("alice", idle={"scaleToZeroAfterSeconds": 0})
    await talks.until("alice", "Asleep")
    await talks.send("alice", "three")
    await talks.answered("alice", 3)
    await eventually(lambda: model_of(world, "alice") == "large")


async def test_a_profile_that_somebody_else_has_kept_is_named_and_not_used(world, operator, talks):
    talks.apply("alice", profileRef={"name": "house"})
    await talks.until_reason("alice", "ProfileMissing")

    async def forge(verb, plural, body):
        if (verb, plural) == ("create", "controllerrevisions"):
            meta = {"name": body["metadata"]["name"], "namespace": NAMESPACE}
            world.api.put("controllerrevisions", {"metadata": meta, "data": {}})

    world.api.before = forge
    put(world, "house", NAMESPACE, agent={"model": "good"})
    reported = await talks.until_reason("alice", "ProfileConflict")
    assert "exists and is not this POSession's; delete it" in reported["message"]


def judged(kind, said):
    return profile_error(kind, said, DEFAULTS._replace(images={"claude": "c", "codex": "x"}))


def read(own, base=None, **said):
    """A session's spec with its profile, and why it cannot be run."""
    meta = {"name": "house", "uid": "u", "generation": 1}
    used = Profile.read(meta, said, judged)
    if base is not None:
        used = used.model_copy(update={"base": Profile.read(meta, base, judged, CLUSTER)})
    place = {"namespace": NAMESPACE, "name": "alice"}
    images = DEFAULTS._replace(images={"claude": "c", "codex": "x"})
    return read_session_spec(place, {"userId": 7, **own}, images, used)


@pytest.mark.parametrize("whose", ["namespace", "cluster"])
def test_a_session_keeps_its_agent_and_a_profile_of_another_is_not_for_it(whose):
    said = {"agent": {"type": "codex"}}
    profiles = {"base": said} if whose == "cluster" else said
    _, why = read({"agent": {"type": "claude"}}, **profiles)
    assert (why or "").startswith("spec.agent.type is 'claude', and that of ")
    assert read({"agent": {"type": "codex"}}, **profiles)[1] is None
    said["allowOverrides"] = ["type"]
    spec, why = read({"agent": {"type": "claude"}}, **profiles)
    assert (spec.agent.type, why) == ("claude", None)


def test_the_rules_are_those_of_tasks_and_a_timeout_is_for_tasks_alone():
    spec, why = read({"agent": {"maxTurns": 3}}, agent={"maxTurns": 5}, timeoutSeconds=60)
    assert (spec.agent.max_turns, why) == (3, None)
    _, why = read({"agent": {"model": "b"}}, agent={"model": "a"})
    assert (why or "").startswith("spec.agent.model is 'b': leave it out, or have AgentProfile")
    own = {"podTemplate": {"spec": {"nodeSelector": {"disk": "ssd"}}}}
    _, why = read(own, base={"podTemplate": FIXED})
    assert "have ClusterAgentProfile house let it be said" in (why or "")
