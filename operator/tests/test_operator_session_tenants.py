"""Sessions of two namespaces: neither has anything of the other's, whatever its spec says."""

import pytest
from support.eventually import eventually
from support.fake_session_node import long_ago
from support.running_sessions import running_sessions
from support.talks import NAMESPACE, Talks

from orbiter_contracts.queues import BARE
from orbiter_operator.sessions.cache import worker_id_of
from orbiter_operator.sessions.models import worker_id_error
from orbiter_operator.sessions.streams import registry_key

REGISTRY = registry_key("orbiter-system", "orbiter-operator")


@pytest.fixture
def talks(world):
    return Talks(world.api, world.redis)


def intrude(world, created=None, namespace="other", name="thief", **spec):
    """A session in another namespace."""
    meta = {"namespace": namespace, "name": name}
    if created:
        meta["creationTimestamp"] = created
    idle = {"scaleToZeroAfterSeconds": 0}
    whole = {"userId": 99, "agent": {"type": "claude"}, "idle": idle, **spec}
    world.api.put("posessions", {"metadata": meta, "spec": whole})


def status_of(world, namespace="other", name="thief"):
    return world.api.get("posessions", namespace, name).get("status") or {}


def reason_of(world):
    conditions = status_of(world).get("conditions") or ()
    return next((item for item in conditions if item["type"] == "Available"), {})


@pytest.mark.integration
@pytest.mark.parametrize("created", [long_ago(), None], ids=["made first", "made second"])
async def test_a_session_with_anothers_worker_id_is_refused_and_the_other_answers(
    world, talks, created
):
    intrude(world, created, workerId="team.alice")
    talks.apply("alice", created=None if created else long_ago())
    async with running_sessions(world.api, world.server):
        await eventually(lambda: status_of(world).get("phase") == "Failed")
        condition = reason_of(world)
        assert condition["reason"] == "InvalidSpec"
        assert "spec.workerId is 'team.alice'" in condition["message"]
        assert "write other.thief or leave it out" in condition["message"]
        await talks.send("alice")
        assert await talks.answered("alice") == ["re: hello"]
        await talks.until("alice", "Asleep")
        assert world.api.get("deployments", "other", "thief") is None
        assert not await world.redis.exists(BARE.po_hold("team.alice"))


@pytest.mark.integration
async def test_deleting_a_session_that_was_refused_leaves_the_others_keys(world, talks):
    talks.apply("alice")
    intrude(world, workerId="team.alice")
    await world.redis.set(BARE.po_snapshot("team.alice"), "memory")
    async with running_sessions(world.api, world.server):
        await eventually(lambda: status_of(world).get("phase") == "Failed")
        world.api.remove("posessions", "other", "thief")

        async def forgotten():
            return len(await world.redis.hgetall(REGISTRY)) == 1

        await eventually(forgotten)
        assert (
            await world.redis.exists(BARE.po_snapshot("team.alice"), BARE.po_input("team.alice"))
            == 2
        )


@pytest.mark.integration
async def test_what_the_registry_says_of_another_namespace_is_not_deleted_either(world):
    record = (
        '{"uid": "u9", "namespace": "other", "name": "thief", "worker_id": "team.alice",'
        ' "retain": false}'
    )
    await world.redis.hset(REGISTRY, "u9", record)
    await world.redis.set(BARE.po_snapshot("team.alice"), "memory")
    async with running_sessions(world.api, world.server):

        async def forgotten():
            return await world.redis.hget(REGISTRY, "u9") is None

        await eventually(forgotten)
        assert await world.redis.exists(BARE.po_snapshot("team.alice"))


@pytest.mark.integration
async def test_two_namespaces_may_have_the_same_user(world, talks):
    intrude(world, long_ago(), userId=77, name="bob")
    talks.apply("bob", userId=77)
    async with running_sessions(world.api, world.server):
        await talks.send("bob")
        assert await talks.answered("bob") == ["re: hello"]
        await eventually(lambda: status_of(world, name="bob").get("phase") == "Asleep")


@pytest.mark.integration
async def test_a_second_session_of_one_worker_id_does_not_hold_the_first(world, talks):
    talks.apply("older", created=long_ago(), workerId="team.shared")
    talks.apply("newer", workerId="team.shared")
    async with running_sessions(world.api, world.server):
        await talks.until_reason("newer", "DuplicateWorkerId")
        assert not await world.redis.exists(BARE.po_hold("team.shared"))
        talks.change("older", operatingMode="Suspended")
        await eventually(lambda: world.redis.exists(BARE.po_hold("team.shared")))
        talks.delete("newer")

        async def forgotten():
            return len(await world.redis.hgetall(REGISTRY)) == 1

        await eventually(forgotten)
        assert (
            await world.redis.exists(BARE.po_hold("team.shared"), BARE.po_output("team.shared"))
            == 2
        )


@pytest.mark.parametrize("worker_id", ["team.alice", "team.x", "team.A-b_c.d", "team." + "a" * 123])
def test_a_worker_id_begins_with_the_namespace_and_a_dot(worker_id):
    assert worker_id_error(NAMESPACE, "alice", worker_id) is None
    obj = {"metadata": {"namespace": NAMESPACE, "name": "n"}, "spec": {"workerId": worker_id}}
    assert worker_id_of(obj) == worker_id


@pytest.mark.parametrize(
    "worker_id",
    [
        *("alice", "team", "team.", "teams.alice", "other.alice", ".alice", "TEAM.alice", "", " "),
        *("team.alice:input", "team.a b", "team.\n", "team.\u00e9", "team." + "a" * 124, "tea.m"),
    ],
)
def test_any_other_worker_id_is_refused_and_never_reaches_redis(worker_id):
    why = worker_id_error(NAMESPACE, "alice", worker_id)
    assert "write team.alice or leave it out" in why
    assert len(why) < 300
    obj = {"metadata": {"namespace": NAMESPACE, "name": "n"}, "spec": {"workerId": worker_id}}
    assert worker_id_of(obj) == "team.n"
