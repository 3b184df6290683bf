"""What a pod has of the way to its model, who may name which role, and what a spec may not add."""

import pytest
from support.observed import observed
from support.running_sessions import DEFAULTS as PLAIN

from orbiter_contracts import AGENT_TYPES
from orbiter_operator.kube.models import Profiled
from orbiter_operator.pods.auth import TOKEN_VOLUME
from orbiter_operator.profiles.models import CLUSTER, NAMESPACED, Profile
from orbiter_operator.profiles.wiring import profile_error
from orbiter_operator.sessions.deployment import build_template
from orbiter_operator.sessions.observe import read_session_spec
from orbiter_operator.tasks.job import build_job
from orbiter_operator.tasks.observe import read_spec

ROLE = "arn:aws:iam::123456789012:role/agents"
OTHER = "arn:aws:iam::123456789012:role/others"
BEDROCK = {"type": "Bedrock", "bedrock": {"roleARN": ROLE, "region": "eu-central-1"}}
OTHERS = {"type": "Bedrock", "bedrock": {"roleARN": OTHER, "region": "eu-central-1"}}
KEY = {"name": "gateway", "key": "token"}
FROM = {"tokenFrom": {"secretKeyRef": KEY}}
GATEWAY = {"type": "Gateway", "gateway": {"baseURL": "https://llm.example.com/v1", **FROM}}
OAUTH = {"type": "OAuthToken", "oauthToken": FROM}
DEFAULTS = PLAIN._replace(
    images=dict.fromkeys(AGENT_TYPES, "worker:1"),
    allowed_roles=(ROLE,),
    protected_secrets=("gateway-of-orbiter",),
    template_fields=("spec.containers", "spec.initContainers", "spec.volumes"),
)
UNLISTED = DEFAULTS._replace(allowed_roles=())
PROJECTED = {
    "name": TOKEN_VOLUME,
    "projected": {
        "sources": [
            {
                "serviceAccountToken": {
                    "audience": "sts.amazonaws.com",
                    "expirationSeconds": 3600,
                    "path": "token",
                }
            }
        ]
    },
}
MOUNT = {"name": TOKEN_VOLUME, "mountPath": "/run/secrets/aws", "readOnly": True}


def profile(kind=NAMESPACED, name="p", defaults=DEFAULTS, base=None, **said):
    meta = {"name": name, "uid": name, "generation": 1}
    found = Profile.read(meta, said, lambda k, s: profile_error(k, s, defaults), kind)
    return found.model_copy(update={"base": base})


def cluster(**said):
    return profile(CLUSTER, "all", UNLISTED, **said)


def read(used=None, defaults=DEFAULTS, **own):
    return read_spec({"prompt": "do it", **own}, defaults, used)


def why(used=None, defaults=DEFAULTS, **own):
    return read(used, defaults, **own)[1]


def pod_of(used=None, defaults=DEFAULTS, **own):
    """The pod of a task's Job; its profile is as it would be told of it."""
    found, problem = read(used, defaults, **own)
    assert problem is None
    told = used and Profiled(kind=used.kind, name=used.name, raw=used.raw)
    job = build_job(observed(spec=found, profile=told), 1, "1-0", defaults)
    return job["spec"]["template"]["spec"]


def worker_of(pod):
    [worker] = [item for item in pod["containers"] if item["name"] == "worker"]
    return worker


def environment(**own):
    found = worker_of(pod_of(**own))["env"]
    assert len({item["name"] for item in found}) == len(found)
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in found}


def test_bedrock_is_variables_and_one_token_that_the_api_server_does_not_take():
    pod = pod_of(agent={"auth": BEDROCK, "model": "eu.anthropic.claude"})
    assert [item for item in pod["volumes"] if "projected" in item] == [PROJECTED]
    assert MOUNT in worker_of(pod)["volumeMounts"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == "orbiter-worker"
    given = environment(agent={"auth": BEDROCK, "model": "eu.anthropic.claude"})
    assert given["CLAUDE_CODE_USE_BEDROCK"] == "1"
    assert (given["AWS_REGION"], given["AWS_ROLE_ARN"]) == ("eu-central-1", ROLE)
    assert given["AWS_WEB_IDENTITY_TOKEN_FILE"] == "/run/secrets/aws/token"
    assert given["AGENT_MODEL"] == "eu.anthropic.claude"
    handed_on = {name for name in given if name.startswith(("AWS_", "CLAUDE_"))}
    assert {*given["AGENT_ENV"].split(",")} == handed_on
    assert not any("API_KEY" in name for name in given)


def test_a_session_has_the_same():
    meta = {"namespace": "team", "name": "alice", "uid": "u"}
    said = {"agent": {"type": "claude", "auth": BEDROCK}}
    spec, problem = read_session_spec(meta, said, DEFAULTS)
    assert problem is None
    where = ("team", "alice", "u", "alice", spec, DEFAULTS, ("s", "k"))
    pod = build_template(*where)["spec"]
    assert PROJECTED in pod["volumes"]
    assert MOUNT in worker_of(pod)["volumeMounts"]
    assert "allowedAWSRoleARNs" in (read_session_spec(meta, said, UNLISTED)[1] or "")


def test_nobody_else_of_the_pod_has_the_token():
    git = {"url": "https://x/y", "push": "Always", "credentialsSecretRef": {"name": "git"}}
    helper = {"name": "helper", "image": "helper:1"}
    overlay = {"spec": {"containers": [helper], "initContainers": [{**helper, "name": "first"}]}}
    agent = {"auth": BEDROCK}
    pod = pod_of(agent=agent, workspace={"git": git}, podTemplate=overlay)
    mounted = {
        container["name"]
        for container in (*pod["containers"], *pod["initContainers"])
        if any(item["name"] == TOKEN_VOLUME for item in container.get("volumeMounts") or ())
    }
    assert {item["name"] for item in pod["initContainers"]} == {"first", "git-clone", "git-push"}
    assert mounted == {"worker"}
    for container in pod["initContainers"]:
        assert not any("AWS" in item["name"] for item in container.get("env") or ())


@pytest.mark.parametrize(
    ("kind", "model", "url", "token"),
    [
        ("claude", None, "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"),
        ("codex", None, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("gemini", None, "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
        ("opencode", "openai/gpt-5", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    ],
)
def test_a_gateway_is_an_address_and_a_token_of_a_secret(kind, model, url, token):
    given = environment(agent={"type": kind, "model": model, "auth": GATEWAY})
    assert given[url] == "https://llm.example.com/v1"
    assert given[token] == {"secretKeyRef": KEY}
    assert {token, "REDIS_URL"} == {*given["SECRET_ENV"].split(",")}
    assert "AGENT_ENV" not in given


def test_a_gateway_without_a_token_is_told_that_there_is_none():
    auth = {"type": "Gateway", "gateway": {"baseURL": "http://gateway.llm"}}
    given = environment(agent={"auth": auth})
    assert given["ANTHROPIC_AUTH_TOKEN"] == "none"
    assert given["SECRET_ENV"] == "REDIS_URL"


def test_a_subscriptions_token_is_of_a_secret_and_known_as_one():
    given = environment(agent={"auth": OAUTH})
    assert given["CLAUDE_CODE_OAUTH_TOKEN"] == {"secretKeyRef": KEY}
    assert "CLAUDE_CODE_OAUTH_TOKEN" in given["SECRET_ENV"].split(",")


def test_without_a_way_a_pod_is_as_it_was():
    plain = pod_of(agent={"credentialsSecretRef": {"name": "keys"}})
    said = pod_of(agent={"credentialsSecretRef": {"name": "keys"}, "auth": {"type": "APIKey"}})
    assert plain == said
    assert not any("projected" in item for item in plain["volumes"])


@pytest.mark.parametrize(
    ("agent", "sentence"),
    [
        (
            {"type": "codex", "auth": BEDROCK},
            "spec.agent.auth.type is 'Bedrock', which codex does not have; write APIKey or Gateway",
        ),
        ({"type": "factory", "auth": GATEWAY}, "spec.agent.model is missing: factory has no"),
        ({"type": "gemini", "auth": OAUTH}, "an agent.type that has it: claude"),
        (
            {"auth": BEDROCK, "credentialsSecretRef": {"name": "keys"}},
            "spec.agent.credentialsSecretRef is 'keys', and spec.agent.auth.type 'Bedrock'",
        ),
        ({"auth": {"type": "Bedrock"}}, "spec.agent.auth: Value error, type Bedrock needs"),
        (
            {"auth": {"type": "OAuthToken", "oauthToken": {"tokenFrom": {"secretKeyRef": {}}}}},
            "spec.agent.auth.oauthToken.tokenFrom.secretKeyRef.name: Field required",
        ),
        (
            {"auth": BEDROCK, "env": [{"name": "AWS_ROLE_ARN", "value": OTHER}]},
            "spec.agent.env is 'AWS_ROLE_ARN', which auth.type Bedrock says for the agent",
        ),
        (
            {"auth": BEDROCK, "env": [{"name": "AWS_ACCESS_KEY_ID", "value": "AKIA"}]},
            "spec.agent.env is 'AWS_ACCESS_KEY_ID', which auth.type Bedrock says",
        ),
        (
            {"auth": GATEWAY, "env": [{"name": "ANTHROPIC_API_KEY", "value": "sk"}]},
            "spec.agent.env is 'ANTHROPIC_API_KEY', which auth.type Gateway says",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_field_value_and_next_step(agent, sentence):
    assert sentence in (why(agent=agent) or "")


@pytest.mark.parametrize("name", ["orbiter-redis", "gateway-of-orbiter", "../x"])
@pytest.mark.parametrize(("auth", "part"), [(GATEWAY, "gateway"), (OAUTH, "oauthToken")])
def test_a_token_is_of_no_secret_of_orbiters_own_and_of_no_path(name, auth, part):
    source = {"tokenFrom": {"secretKeyRef": {**KEY, "name": name}}}
    found = why(agent={"auth": {**auth, part: {**auth[part], **source}}})
    assert found is not None
    assert found.startswith(f"spec.agent.auth.{part}.tokenFrom.secretKeyRef.name is {name!r}")


@pytest.mark.parametrize(
    ("pod", "where"),
    [
        ({"volumes": [{"name": TOKEN_VOLUME, "emptyDir": {}}]}, "volumes"),
        (
            {"containers": [{"name": "h", "volumeMounts": [{**MOUNT, "mountPath": "/t"}]}]},
            "containers[h].volumeMounts",
        ),
        (
            {"initContainers": [{"name": "h", "volumeMounts": [MOUNT]}]},
            "initContainers[h].volumeMounts",
        ),
    ],
)
def test_a_spec_gets_no_hold_of_the_token_whatever_the_chart_allows(pod, where):
    found = why(agent={"auth": BEDROCK}, podTemplate={"spec": pod})
    assert found is not None
    assert f"spec.podTemplate.spec.{where}[{TOKEN_VOLUME}].name" in found


@pytest.mark.parametrize(
    "token",
    [
        PROJECTED["projected"]["sources"][0]["serviceAccountToken"],
        {"path": "token"},
        {"audience": "sts.amazonaws.com", "path": "other"},
    ],
)
def test_a_spec_has_no_token_of_its_own_not_even_the_same(token):
    volume = {"name": "mine", "projected": {"sources": [{"serviceAccountToken": token}]}}
    for agent in ({}, {"auth": BEDROCK}):
        found = why(agent=agent, podTemplate={"spec": {"volumes": [volume]}})
        assert found is not None
        assert "a token, which a worker does not get" in found


def test_a_podtemplate_sets_no_variable_of_the_way():
    env = [{"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": "/workspace/mine"}]
    overlay = {"spec": {"containers": [{"name": "worker", "env": env}]}}
    assert "containers[worker].env is 'AWS_WEB_IDENTITY" in (
        why(agent={"auth": BEDROCK}, podTemplate=overlay) or ""
    )
    # That of the installation's or the cluster's profile has no such word either: it is set last.
    used = cluster(agent={"auth": BEDROCK}, podTemplate=overlay)
    found = {item["name"]: item.get("value") for item in worker_of(pod_of(used))["env"]}
    assert found["AWS_WEB_IDENTITY_TOKEN_FILE"] == "/run/secrets/aws/token"


def test_a_mount_in_the_tokens_place_is_taken_away():
    mine = {"name": "workspace", "mountPath": "/run/secrets/aws"}
    overlay = {"spec": {"containers": [{"name": "worker", "volumeMounts": [mine]}]}}
    pod = pod_of(agent={"auth": BEDROCK}, podTemplate=overlay)
    there = [
        item for item in worker_of(pod)["volumeMounts"] if item["mountPath"] == "/run/secrets/aws"
    ]
    assert there == [MOUNT]


def test_a_task_and_a_namespaces_profile_name_the_roles_that_the_chart_lists():
    assert why(agent={"auth": BEDROCK}) is None
    assert profile(agent={"auth": BEDROCK}).error is None
    sentence = (
        f"spec.agent.auth.bedrock.roleARN is '{OTHER}', not one of the chart's "
        "workers.allowedAWSRoleARNs; name a ClusterAgentProfile that has it"
    )
    assert sentence in (why(agent={"auth": OTHERS}) or "")
    assert sentence in (profile(agent={"auth": OTHERS}).error or "")
    assert "workers.allowedAWSRoleARNs" in (why(defaults=UNLISTED, agent={"auth": BEDROCK}) or "")


def test_the_clusters_profile_names_any_role_and_its_tasks_have_it():
    used = cluster(agent={"auth": OTHERS})
    assert used.error is None
    found = worker_of(pod_of(used, UNLISTED))["env"]
    assert {"name": "AWS_ROLE_ARN", "value": OTHER} in found
    beneath = profile(base=used)
    spec, problem = read(beneath, UNLISTED)
    assert problem is None
    assert spec.agent.auth.bedrock.role_arn == OTHER


@pytest.mark.parametrize("own", [BEDROCK, {"type": "APIKey"}, GATEWAY])
def test_a_task_says_another_way_than_its_profile_where_that_lets_it(own):
    fixed = cluster(agent={"auth": OTHERS})
    sentence = (
        f"spec.agent.auth is {own['type']!r}: leave it out, or have ClusterAgentProfile all let it "
        "be said (allowOverrides)"
    )
    assert why(fixed, agent={"auth": own}) == sentence
    open_to_it = cluster(agent={"auth": OTHERS}, allowOverrides=["auth"])
    spec, problem = read(open_to_it, agent={"auth": own})
    assert problem is None
    assert spec.agent.auth.type == own["type"]
    # What it may say itself is a role of the chart's list, whatever a profile lets be said.
    assert "allowedAWSRoleARNs" in (why(open_to_it, UNLISTED, agent={"auth": BEDROCK}) or "")


def test_the_same_way_is_no_other_and_one_that_only_one_says_holds():
    used = cluster(agent={"auth": BEDROCK})
    assert why(used, agent={"auth": BEDROCK}) is None
    spec, problem = read(cluster(agent={"model": "m"}), agent={"auth": GATEWAY})
    assert (problem, spec.agent.auth.type) == (None, "Gateway")


def test_keys_do_not_slip_in_beside_the_way_of_a_profile():
    used = cluster(agent={"auth": BEDROCK})
    found = why(used, agent={"credentialsSecretRef": {"name": "mine"}})
    assert "leave one of the two out, here and in the profiles" in (found or "")


def test_a_way_that_the_tasks_agent_has_not_is_refused_though_the_profile_says_it():
    used = cluster(agent={"auth": BEDROCK})
    assert "which codex does not have" in (why(used, agent={"type": "codex"}) or "")
