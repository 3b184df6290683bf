"""A worker's pod has nothing of Orbiter's own: neither its Secrets nor an identity."""

import pytest
from support.eventually import eventually
from support.running_sessions import running_sessions
from support.talks import Talks

pytestmark = pytest.mark.integration
NAMESPACE = "team"
OURS = {"secretKeyRef": {"name": "orbiter-redis", "key": "developer-url"}}
LEAK = {"agent": {"type": "claude", "env": [{"name": "LEAK", "valueFrom": OURS}]}}
TEMPLATE = {"podTemplate": {"spec": {"serviceAccountName": "default"}}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (LEAK, "spec.agent.env[LEAK].valueFrom.secretKeyRef.name"),
        (TEMPLATE, "spec.podTemplate.spec.serviceAccountName"),
    ],
)
async def test_a_task_that_wants_what_is_ours_has_failed_without_a_job(world, spec, field):
    await world.start_operator()
    world.apply("thief", **spec)
    world.apply("honest")
    status = await world.until("thief", "Failed")
    assert status["reason"] == "InvalidSpec"
    assert field in status["message"]
    await world.until("honest", "Completed")
    assert {name for _, name in world.api.objects["jobs"]} == {"honest-1"}


async def test_a_task_may_have_a_service_account_that_the_installation_allows(world):
    await world.start_operator(allowed_service_accounts="builder,default")
    world.apply("trusted", **TEMPLATE)
    await world.until("trusted", "Completed")


@pytest.mark.parametrize("template", [{"spec": {"containers": None}}, {"spec": {"volumes": "x"}}])
async def test_a_template_that_makes_no_pod_has_failed_with_a_sentence(world, template):
    await world.start_operator()
    world.apply("odd", podTemplate=template)
    status = await world.until("odd", "Failed")
    assert status["reason"] == "InvalidSpec"
    assert "spec.podTemplate.spec." in status["message"]


async def test_a_session_that_wants_what_is_ours_fails_and_recovers_with_its_template(world):
    talks = Talks(world.api, world.redis)
    volume = {"name": "loot", "secret": {"secretName": "orbiter-redis"}}
    talks.apply("alice", podTemplate={"spec": {"volumes": [volume]}})
    async with running_sessions(world.api, world.server):
        condition = await talks.until_reason("alice", "InvalidSpec")
        assert "spec.podTemplate.spec.volumes[loot].secret.secretName" in condition["message"]
        assert talks.status("alice")["phase"] == "Failed"
        await talks.send("alice")
        await eventually(lambda: talks.status("alice").get("pendingMessages") == 1)
        assert talks.replicas("alice") is None
        talks.change("alice", podTemplate=None)
        assert await talks.answered("alice") == ["re: hello"]
