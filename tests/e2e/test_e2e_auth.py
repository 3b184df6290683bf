"""Bedrock by workload identity on the cluster: a real token of a real API server, no key anywhere.

STS and Bedrock are the scripted model server's doors, as a pod. Whether the signature is right,
tests/integration/test_wrapper_real_doors.py computes anew.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import CommandError, Object
from support.installation import MODEL_URL
from support.mini_mcp import mini_server
from support.plugin import Plugin
from support.world import NAMESPACE, World, task

ROLE = "arn:aws:iam::123456789012:role/agents"
BEDROCK = {"type": "Bedrock", "bedrock": {"roleARN": ROLE, "region": "eu-central-1"}}
MODEL = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
PROFILE = "e2e-bedrock"
PAYLOAD = "cut -d. -f2 $AWS_WEB_IDENTITY_TOKEN_FILE; echo"
"""Prints what the token says, in base64; the worker takes a whole token out of every text."""


def profile(**agent: Any) -> Object:
    """A profile of the cluster: Bedrock, whose doors are here, and what is said beside."""
    doors = ("AWS_ENDPOINT_URL_STS", "ANTHROPIC_BEDROCK_BASE_URL")
    env = [{"name": name, "value": MODEL_URL} for name in doors]
    asks = {"type": "claude", "model": MODEL, "auth": BEDROCK, "env": env}
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "ClusterAgentProfile",
        "metadata": {"name": PROFILE},
        "spec": {"agent": asks | agent},
    }


@pytest.fixture
def bedrock(world: World) -> Iterator[str]:
    """The profile, as long as a test needs it."""
    world.apply(profile())
    yield PROFILE
    world.kubectl("delete", "clusteragentprofile", PROFILE, "--ignore-not-found")


def of_profile(name: str, profile: str, prompt: str) -> Object:
    """A prompt and a profile, and no word of a key."""
    made = task(name, prompt, profileRef={"kind": "ClusterAgentProfile", "name": profile})
    del made["spec"]["agent"]
    return made


def said_by(payload: str) -> Any:
    """What a token says, of its middle part."""
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def test_a_task_asks_bedrock_with_the_token_of_its_pod(world: World, bedrock: str) -> None:
    script = f"[[bash: {PAYLOAD}]]\n[[say: {{output}}]] [[result]]"
    world.apply(of_profile("by-bedrock", bedrock, script))
    status = world.wait("by-bedrock", "Completed")
    told = said_by(status["result"]["summary"].split()[0])
    assert told["aud"] == ["sts.amazonaws.com"]
    assert told["sub"] == f"system:serviceaccount:{NAMESPACE}:orbiter-worker"
    [job] = world.jobs("by-bedrock")
    pod = job["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    [worker] = pod["containers"]
    given = {item["name"] for item in worker["env"]}
    assert {"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "CLAUDE_CODE_USE_BEDROCK"} <= given
    assert not [name for name in given if name.startswith("ANTHROPIC_") and "KEY" in name]


SIX_LINES = """
apiVersion: orbiter.dev/v1alpha1
kind: AgentTask
metadata: {name: six-lines}
spec:
  profileRef: {kind: ClusterAgentProfile, name: e2e-bedrock}
  prompt: |
"""


def test_six_lines_have_bedrock_an_mcp_server_and_a_skill(world: World, bedrock: str) -> None:
    """All three come from the platform's profile; of skills see test_wrapper_real_skills, too."""
    skill = "---\nname: harbour\ndescription: How to write to the harbour.\n---\nSay ahoy.\n"
    for kind, name, data in (
        ("Secret", "six-mcp", {"stringData": {"token": "open-sesame"}}),
        ("ConfigMap", "six-harbour", {"data": {"SKILL.md": skill}}),
    ):
        meta = {"name": name, "namespace": NAMESPACE}
        world.apply({"apiVersion": "v1", "kind": kind, "metadata": meta, **data})
    skills = [{"name": "harbour", "configMapRef": {"name": "six-harbour"}}]
    world.apply(profile(mcpServers=[mini_server("six-mcp")], skills=skills))
    script = (
        "[[bash: cat ~/.claude/skills/harbour/SKILL.md]]",
        "[[tool: mcp__mini__told {}]]",
        "[[say: it {output}]] [[result]]",
    )
    told = SIX_LINES + "".join(f"    {line}\n" for line in script)
    world.kubectl("-n", NAMESPACE, "apply", "-f", "-", stdin=told)
    status = world.wait("six-lines", "Completed")
    assert "told [redacted], 11 long" in status["message"]
    [job] = world.jobs("six-lines")
    [worker] = job["spec"]["template"]["spec"]["containers"]
    assert "AWS_WEB_IDENTITY_TOKEN_FILE" in {item["name"] for item in worker["env"]}
    said = Plugin(world).run("transcript", "six-lines")
    assert "Say ahoy." in said


def test_the_token_itself_is_in_nothing_that_is_published(world: World, bedrock: str) -> None:
    script = "[[bash: cat $AWS_WEB_IDENTITY_TOKEN_FILE]]\n[[say: it is {output}]] [[result]]"
    world.apply(of_profile("token-printed", bedrock, script))
    status = world.wait("token-printed", "Completed")
    # Claude Code appends words of its own to what a tool has answered.
    assert status["result"]["summary"].startswith("it is [redacted]")
    assert "eyJ" not in json.dumps(status)


def test_the_api_server_takes_no_token_that_is_for_aws(world: World) -> None:
    words = ("create", "token", "orbiter-worker", "-n", NAMESPACE)
    for audience, good in (((), True), (("--audience", "sts.amazonaws.com"), False)):
        token = world.kubectl(*words, *audience).strip()
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token},
        }
        said = world.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(review))
        assert bool(json.loads(said)["status"].get("authenticated")) is good


def test_a_task_names_no_role_that_the_chart_does_not_list(world: World) -> None:
    made = task("own-role", "Say hello.", agent={"type": "claude", "auth": BEDROCK})
    with pytest.raises(CommandError) as refused:
        world.apply(made)
    assert "not one of the chart's workers.allowedAWSRoleARNs" in str(refused.value)
