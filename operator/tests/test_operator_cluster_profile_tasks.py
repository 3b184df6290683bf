"""Tasks with ClusterAgentProfiles through the real program, a real Redis and a fake API server."""

import json

import pytest

from orbiter_operator.kube.names import revision_name

pytestmark = pytest.mark.integration
NAMESPACE = "team"
CACHE = {"name": "tools", "persistentVolumeClaim": {"claimName": "tools"}}
FIXED = {"spec": {"serviceAccountName": "agents", "volumes": [CACHE]}}


async def start(world, **settings):
    images = {name: f"{name}:1" for name in ("claude", "codex")}
    return await world.start_operator(worker_images=json.dumps(images), **settings)


def put(world, name, namespace="", **spec):
    """What `kubectl apply` does with a profile of the cluster, or of a namespace."""
    plural = "agentprofiles" if namespace else "clusteragentprofiles"
    if world.api.get(plural, namespace, name) is not None:
        return world.api.patch(plural, namespace, name, {"spec": spec})
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return world.api.put(plural, {"metadata": meta, "spec": spec})


def put_task(world, name, prompt="ok", profile=None, **spec):
    reference = {"kind": "ClusterAgentProfile", "name": profile} if profile else None
    return world.apply(name, prompt, **{"agent": {}, "profileRef": reference} | spec)


def pod_of(world, job):
    return world.api.get("jobs", NAMESPACE, job)["spec"]["template"]["spec"]


async def test_a_task_of_any_namespace_has_what_the_clusters_profile_says(world):
    await start(world)
    agent = {"type": "codex", "credentialsSecretRef": {"name": "house-credentials"}}
    put(world, "strict", agent=agent, podTemplate=FIXED)
    put_task(world, "fix", profile="strict")
    status = await world.until("fix", "Completed")
    revision = revision_name(
        "fix", world.api.get("agenttasks", NAMESPACE, "fix")["metadata"]["uid"]
    )
    assert status["profile"] == {
        "kind": "ClusterAgentProfile",
        "name": "strict",
        "generation": 1,
        "revision": revision,
    }
    assert status["agent"] == {"type": "codex"}
    pod = pod_of(world, "fix-1")
    assert pod["serviceAccountName"] == "agents"
    assert CACHE in pod["volumes"]
    # A Secret of that name in the task's namespace, where its pod is.
    [worker] = pod["containers"]
    sources = {item["name"]: item.get("valueFrom") for item in worker["env"]}
    assert sources["OPENAI_API_KEY"]["secretKeyRef"]["name"] == "house-credentials"
    assert world.api.get("jobs", NAMESPACE, "fix-1")["metadata"]["namespace"] == NAMESPACE


async def test_a_task_waits_for_a_profile_of_the_cluster_and_begins_when_it_is_there(world):
    await start(world)
    put(world, "strict", NAMESPACE, agent={"type": "codex"})
    put_task(world, "early", profile="strict")
    status = await world.until_reason("early", "ProfileMissing")
    assert status["message"] == (
        "ClusterAgentProfile strict does not exist; create it, and the task goes on"
    )
    put(world, "strict", agent={"model": "house"})
    status = await world.until("early", "Completed")
    assert status["agent"] == {"type": "claude", "model": "house"}


async def test_a_namespaces_default_is_laid_over_the_clusters(world):
    await start(world)
    put(world, "default", agent={"model": "large", "maxTurns": 9}, podTemplate=FIXED)
    put(world, "default", NAMESPACE, agent={"maxTurns": 5})
    # Both kinds come by watches of their own: these wait for them, where no name would not.
    put_task(world, "seen", profile="default")
    await world.until("seen", "Completed")
    put_task(world, "named", profileRef={"name": "default"})
    status = await world.until("named", "Completed")
    assert status["profile"]["kind"] == "AgentProfile"
    assert status["profile"]["base"] == {"name": "default", "generation": 1}
    assert status["agent"]["model"] == "large"
    condition = next(c for c in status["conditions"] if c["type"] == "ProfileResolved")
    assert condition["message"] == (
        "AgentProfile default as it was at generation 1 over ClusterAgentProfile default as it was "
        "at generation 1"
    )
    [worker] = pod_of(world, "named-1")["containers"]
    variables = {item["name"]: item.get("value") for item in worker["env"]}
    assert variables["AGENT_MAX_TURNS"] == "5"
    assert pod_of(world, "named-1")["serviceAccountName"] == "agents"


async def test_a_namespaces_profile_that_says_more_holds_its_tasks_until_it_is_mended(world):
    await start(world)
    put(world, "default", agent={"model": "small"})
    put_task(world, "first", profile="default")
    await world.until("first", "Completed")
    put(world, "house", NAMESPACE, agent={"model": "large"}, allowOverrides=["*"])
    put_task(world, "held", profileRef={"name": "house"})
    status = await world.until_reason("held", "ProfileInvalid")
    assert status["message"].startswith(
        "AgentProfile house cannot be used: spec.agent.model is 'large': leave it out, or have "
        "ClusterAgentProfile default let it be said"
    )
    put(world, "default", agent={"model": "small"}, allowOverrides=["model"])
    status = await world.until("held", "Completed")
    assert status["agent"]["model"] == "large"


async def test_what_the_cluster_has_fixed_no_task_says_otherwise(world):
    await start(world)
    put(world, "strict", agent={"model": "small"})
    put_task(world, "bold", profile="strict", agent={"model": "large"})
    status = await world.until("bold", "Failed")
    assert status["reason"] == "InvalidSpec"
    assert status["message"].startswith("spec.agent.model is 'large': leave it out, or have Clust")


@pytest.mark.parametrize("keyed", [True, False])
async def test_a_retry_has_the_clusters_profile_of_the_first_attempt(world, keyed):
    settings = {"redis_master_key": "k" * 32} if keyed else {}
    operator = await start(world, **settings)
    put(world, "strict", agent={"model": "first"}, podTemplate=FIXED)
    retry = {"limit": 1, "backoffSeconds": 1}
    put_task(world, "again", "flaky=1 sleep=0.2", profile="strict", retry=retry)
    await world.until("again", "Running")
    [revision] = world.api.objects["controllerrevisions"].values()
    assert ("seal" in revision["data"]) is keyed
    world.api.remove("clusteragentprofiles", "", "strict")
    await operator.end()
    await start(world, **settings)
    status = await world.until("again", "Completed", "Failed")
    assert (status["phase"], status["attempts"]) == ("Completed", 2)
    assert pod_of(world, "again-2")["serviceAccountName"] == "agents"
    assert status["profile"]["generation"] == 1


async def test_an_operator_of_named_namespaces_reads_the_clusters_profiles_too(world):
    await start(world, watch_namespaces=NAMESPACE)
    put(world, "strict", agent={"type": "codex"})
    put_task(world, "fix", profile="strict")
    status = await world.until("fix", "Completed")
    assert status["agent"]["type"] == "codex"


async def test_a_role_of_aws_is_the_clusters_profile_to_name_and_no_tasks(world):
    await start(world)
    role = {"roleARN": "arn:aws:iam::123456789012:role/agents", "region": "eu-central-1"}
    auth = {"type": "Bedrock", "bedrock": role}
    put(world, "bedrock", agent={"type": "claude", "auth": auth})
    put_task(world, "fix", profile="bedrock")
    put_task(world, "own", agent={"auth": auth})
    await world.until("fix", "Completed")
    pod = pod_of(world, "fix-1")
    [token] = [item["projected"] for item in pod["volumes"] if "projected" in item]
    [source] = token["sources"]
    assert source["serviceAccountToken"]["audience"] == "sts.amazonaws.com"
    [worker] = pod["containers"]
    given = {item["name"]: item.get("value") for item in worker["env"]}
    assert given["AWS_ROLE_ARN"] == role["roleARN"]
    status = await world.until("own", "Failed")
    assert status["reason"] == "InvalidSpec"
    assert "not one of the chart's workers.allowedAWSRoleARNs" in status["message"]
