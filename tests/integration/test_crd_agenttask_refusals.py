"""What the API server refuses as an AgentTask, and the sentence a person reads then."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import Cluster, CommandError, Object
from support.manifests import agent_task

from orbiter_contracts import AGENT_TYPES

pytestmark = pytest.mark.e2e

GIT = "https://git.example.com/team/shop.git"
HIDDEN = "correct-horse"
BEDROCK = {"roleARN": "arn:aws:iam::123456789012:role/agents", "region": "eu-central-1"}


def env(*variables: Object) -> Object:
    return {"agent": {"env": list(variables)}}


def git(**fields: Any) -> Object:
    return {"workspace": {"git": {"url": GIT, **fields}}}


def gateway(url: str, secret: str = "gateway") -> Object:
    """`agent.auth` of a gateway."""
    token = {"secretKeyRef": {"name": secret, "key": "token"}}
    return {"type": "Gateway", "gateway": {"baseURL": url, "tokenFrom": token}}


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("chart-crd-refusals") as name:
        yield name


def refusal(cluster: Cluster, namespace: str, manifest: Object) -> str:
    """What kubectl says when the API server refuses; nothing is stored either way."""
    with pytest.raises(CommandError) as refused:
        cluster.apply(manifest, "--dry-run=server", "--validate=strict", namespace=namespace)
    return str(refused.value)


REFUSED_SPECS: dict[str, tuple[Object, str]] = {
    "no prompt": (
        {"prompt": None},
        "spec: Invalid value: a task needs a prompt; write prompt, or promptFrom to take it from a "
        "ConfigMap",
    ),
    "empty prompt": ({"prompt": ""}, "prompt is empty; write what the agent should do"),
    "blank prompt": ({"prompt": " \n\t"}, "prompt is empty; write what the agent should do"),
    "two prompts": (
        {"prompt": "a", "promptFrom": {"configMapKeyRef": {"name": "c", "key": "d"}}},
        "write prompt or promptFrom, not both",
    ),
    "unknown agent": (
        {"agent": {"type": "cluade"}},
        'spec.agent.type: Invalid value: "cluade": unknown agent type; write one of '
        + ", ".join(AGENT_TYPES),
    ),
    "no time": (
        {"timeoutSeconds": 0},
        "timeoutSeconds must be from 1 to 604800 (a week); write for instance 1800 for half an "
        "hour",
    ),
    "negative time": ({"timeoutSeconds": -1}, "timeoutSeconds must be from 1"),
    "misspelt field": ({"promt": "b"}, 'unknown field "spec.promt"'),
    "misspelt field in the pod template": (
        {"podTemplate": {"sepc": {}}},
        'unknown field "spec.podTemplate.sepc"',
    ),
    "unknown push": (
        git(push="Sometimes"),
        'Unsupported value: "Sometimes": supported values: "Never", "Always"',
    ),
    "two workspaces": (
        {"workspace": {"git": {"url": GIT}, "emptyDir": {}}},
        "write exactly one of git, persistentVolumeClaim and emptyDir",
    ),
    "no workspace in workspace": (
        {"workspace": {}},
        "write exactly one of git, persistentVolumeClaim and emptyDir",
    ),
    "no size": (
        {"workspace": {"emptyDir": {"sizeLimit": "lots"}}},
        "write a quantity, for instance 500Mi or 10Gi",
    ),
    "a program as repository": (
        git(url="ext::sh -c id"),
        "write an https://, http://, ssh:// or git:// URL, or user@host:path",
    ),
    "an option as repository": (
        git(url="--upload-pack=id"),
        "write an https://, http://, ssh:// or git:// URL, or user@host:path",
    ),
    "an option as ref": (
        git(ref="--help"),
        "write the name of a branch or tag, or a commit id",
    ),
    "the same dependency twice": (
        {"dependsOn": ["b", "b"]},
        'spec.dependsOn[1]: Duplicate value: "b"',
    ),
    "itself as dependency": (
        {"dependsOn": ["refused"]},
        "a task cannot depend on itself; remove its own name from dependsOn",
    ),
    "going on with itself": (
        {"resumeFrom": "refused"},
        "a task cannot go on with itself; name another task in resumeFrom",
    ),
    "an artifact outside of the workspace": (
        {"artifacts": ["out", "../secret"]},
        "artifacts have no part that is empty, . or ..; what is outside of the workspace cannot be",
    ),
    "an artifact's absolute path": (
        {"artifacts": ["/etc/passwd"]},
        "artifacts are paths from the workspace on, none empty and none beginning with /",
    ),
    "an artifact with a line break": (
        {"artifacts": ["a\nb"]},
        "artifacts have no backslash and no control character",
    ),
    "a receiver with no address": (
        {"notify": [{"secretRef": {"name": "n"}}]},
        "write exactly one of url and urlFromSecret",
    ),
    "a receiver that nobody signs for": (
        {"notify": [{"url": "https://a.example.com"}]},
        "spec.notify[0].secretRef: Required value",
    ),
    "a receiver's address with a password": (
        {"notify": [{"url": f"https://me:{HIDDEN}@a.example.com", "secretRef": {"name": "n"}}]},
        "write a URL that begins with https://, without a user or password",
    ),
    "six receivers": (
        {"notify": [{"url": f"https://{n}.example", "secretRef": {"name": "n"}} for n in range(6)]},
        "spec.notify: Too many: 6: must have at most 5 items",
    ),
    "too many artifacts": (
        {"artifacts": [f"a{number}" for number in range(33)]},
        "must have at most 32 items",
    ),
    "unknown policy": (
        {"disruption": {"policy": "Retry"}},
        'Unsupported value: "Retry": supported values: "Resume", "Restart", "Fail"',
    ),
    "no disruption is too few": (
        {"disruption": {"limit": -1}},
        "disruption.limit must be from 0 to 1000; write policy: Fail if a disruption should end "
        "the attempt",
    ),
    "checkpoints all the time": (
        {"disruption": {"checkpointSeconds": 0}},
        "disruption.checkpointSeconds must be from 1 to 3600; write for instance 60",
    ),
    "too urgent": (
        {"priority": 2000000},
        "priority must be from -1000000 to 1000000",
    ),
    "variable without a value": (
        env({"name": "CI"}),
        "write exactly one of value and valueFrom",
    ),
    "variable with two values": (
        {
            **env(
                {
                    "name": "CI",
                    "value": "1",
                    "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}},
                }
            ),
        },
        "write exactly one of value and valueFrom",
    ),
    "variable of our own secret": (
        env({"name": "A", "valueFrom": {"secretKeyRef": {"name": "orbiter-redis", "key": "k"}}}),
        "orbiter-redis is a Secret of Orbiter itself; name one of your own",
    ),
    "a path as the name of a secret": (
        {"agent": {"credentialsSecretRef": {"name": "team/key"}}},
        "not the name of a Secret: write lower-case letters",
    ),
    "our own secret as credentials": (
        {"agent": {"credentialsSecretRef": {"name": "orbiter-redis"}}},
        "orbiter-redis is a Secret of Orbiter itself; name one of your own",
    ),
    "a way that the agent does not have": (
        {"agent": {"type": "codex", "auth": {"type": "Bedrock", "bedrock": BEDROCK}}},
        "this agent.type does not have that way to its model; write APIKey or Gateway, or",
    ),
    "keys beside a role": (
        {
            "agent": {
                "auth": {"type": "Bedrock", "bedrock": BEDROCK},
                "credentialsSecretRef": {"name": "keys"},
            }
        },
        "keys are no part of that auth.type; leave one of the two out",
    ),
    "a way without what belongs to it": (
        {"agent": {"auth": {"type": "Bedrock"}}},
        "auth.bedrock belongs to type: Bedrock and to no other; write both or none",
    ),
    "what belongs to another way": (
        {"agent": {"auth": gateway("https://llm.example.com") | {"type": "OAuthToken"}}},
        "auth.gateway belongs to type: Gateway and to no other; write both or none",
    ),
    "a way that is not there": (
        {"agent": {"auth": {"type": "Vertex"}}},
        'Unsupported value: "Vertex": supported values: "APIKey", "Bedrock", "Gateway"',
    ),
    "a role that is a name": (
        {"agent": {"auth": {"type": "Bedrock", "bedrock": {**BEDROCK, "roleARN": "agents"}}}},
        "no role; write its ARN, like arn:aws:iam::123456789012:role/agents",
    ),
    "a region that is none": (
        {"agent": {"auth": {"type": "Bedrock", "bedrock": {**BEDROCK, "region": "Frankfurt"}}}},
        "no region; write one like eu-central-1",
    ),
    "our own secret as a gateway's token": (
        {"agent": {"auth": gateway("https://llm.example.com", "orbiter-redis")}},
        "orbiter-redis is a Secret of Orbiter itself; name one of your own",
    ),
    "our own secret for git": (
        git(credentialsSecretRef={"name": "orbiter-redis"}),
        "orbiter-redis is a Secret of Orbiter itself; name one of your own",
    ),
    "variable twice": (
        env({"name": "CI", "value": "1"}, {"name": "CI", "value": "2"}),
        'spec.agent.env[1]: Duplicate value: {"name":"CI"}',
    ),
    "variable with a dash": (
        env({"name": "MY-CI", "value": "1"}),
        "write a variable name of letters, digits and _ that does not start with a digit",
    ),
    "no budget": (
        {"agent": {"maxCostUSD": 0}},
        "spec.agent.maxCostUSD in body should be greater than 0",
    ),
    "unknown desired state": (
        {"desiredState": "Paused"},
        'Unsupported value: "Paused": supported values: "Running", "Cancelled"',
    ),
}


@pytest.mark.parametrize("case", REFUSED_SPECS)
def test_a_mistake_is_refused_with_a_sentence(cluster: Cluster, namespace: str, case: str) -> None:
    spec, sentence = REFUSED_SPECS[case]
    assert sentence in refusal(cluster, namespace, agent_task("refused", **spec))


@pytest.mark.parametrize(
    "name",
    [
        *("REDIS_URL", "WORKER_ID", "TASK_ENTRY_ID", "AGENT_MODEL", "HOME", "PYTHONPATH"),
        *("SESSION_ID", "SNAPSHOT_KEY", "SESSION_RECORD_PREFIX", "SESSION_USERS", "KEY_PREFIX"),
        "REDIS_SCRIPTS",
    ],
)
def test_the_workers_own_variables_cannot_be_set(
    cluster: Cluster, namespace: str, name: str
) -> None:
    said = refusal(cluster, namespace, agent_task("refused", **env({"name": name, "value": "x"})))
    assert "this name is reserved for the worker itself; choose one that is not REDIS_URL" in said


@pytest.mark.parametrize(
    "url",
    [
        f"https://bot:{HIDDEN}@git.example.com/shop.git",
        f"HTTPS://{HIDDEN}@git.example.com/shop.git",
        f"ssh://git:{HIDDEN}@git.example.com/shop.git",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(
    cluster: Cluster, namespace: str, url: str
) -> None:
    said = refusal(cluster, namespace, agent_task("refused", **git(url=url)))
    assert "the URL contains credentials; write it without them and put them into a Secret" in said
    assert HIDDEN not in said


def test_a_name_too_long_for_a_label_is_refused(cluster: Cluster, namespace: str) -> None:
    said = refusal(cluster, namespace, agent_task("a" * 64))
    assert "metadata.name: Too long: may not be more than 63 bytes" in said


@pytest.mark.parametrize(
    "url",
    [
        GIT,
        "http://git.example.com:3000/shop.git?a=b@c",
        "ssh://git@git.example.com/shop.git",
        "git@git.example.com:team/shop.git",
    ],
)
def test_usual_repositories_are_taken(cluster: Cluster, namespace: str, url: str) -> None:
    cluster.apply(agent_task("git", **git(url=url)), "--dry-run=server", namespace=namespace)


@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{HIDDEN}@llm.example.com",
        f"https://llm.example.com/?token={HIDDEN}",
        f"ftp://{HIDDEN}",
    ],
)
def test_a_gateways_address_that_is_none_is_refused_and_not_repeated(
    cluster: Cluster, namespace: str, url: str
) -> None:
    said = refusal(cluster, namespace, agent_task("refused", agent={"auth": gateway(url)}))
    assert "write an http:// or https:// URL of host and path, without user, password" in said
    assert HIDDEN not in said


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "APIKey"},
        {"type": "Bedrock", "bedrock": BEDROCK},
        gateway("http://gateway.llm.svc:8080/anthropic"),
        {"type": "Gateway", "gateway": {"baseURL": "https://llm.example.com"}},
        {
            "type": "OAuthToken",
            "oauthToken": {"tokenFrom": {"secretKeyRef": {"name": "claude", "key": "token"}}},
        },
    ],
)
def test_each_way_to_a_model_is_taken_as_it_is(
    cluster: Cluster, namespace: str, auth: Object
) -> None:
    name = f"way-{auth['type'].lower()}-{len(str(auth))}"
    cluster.apply(agent_task(name, agent={"type": "claude", "auth": auth}), namespace=namespace)
    assert cluster.get("agenttask", name, namespace)["spec"]["agent"]["auth"] == auth
