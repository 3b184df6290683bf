"""`agent.auth` without a cluster: a gateway's address, a token of the same file, no other way."""

import json

import pytest

from orbiter.cli.task.manifest import read_manifest
from orbiter.cli.task.requirements import check_environment
from orbiter.cli.task.settings import environment
from orbiter.cli.ui.outcome import UsageError

KEY = {"secretKeyRef": {"name": "gateway", "key": "token"}}
GATEWAY = {"type": "Gateway", "gateway": {"baseURL": "http://127.0.0.1:8080", "tokenFrom": KEY}}
OAUTH = {"type": "OAuthToken", "oauthToken": {"tokenFrom": KEY}}
BEDROCK = {
    "type": "Bedrock",
    "bedrock": {"roleARN": "arn:aws:iam::123456789012:role/agents", "region": "eu-central-1"},
}
SECRET = """---
apiVersion: v1
kind: Secret
metadata: {name: gateway}
stringData: {token: of-the-file}
"""


@pytest.fixture
def told(tmp_path):
    """The environment of a worker whose agent goes this way."""

    def _told(auth, own, secret=SECRET, kind="claude", **agent):
        meta = "apiVersion: orbiter.dev/v1alpha1\nkind: AgentTask\nmetadata: {name: a}\n"
        spec = {"prompt": "go", "agent": {"type": kind, "auth": auth, **agent}}
        file = tmp_path / "task.yaml"
        file.write_text(f"{meta}spec: {json.dumps(spec)}\n{secret}")
        manifest = read_manifest(file)
        found = environment(manifest, own, tmp_path)
        check_environment(manifest, found, uid=1000)
        return found

    return _told


def test_a_gateway_has_its_token_from_the_file_and_no_key_of_ours(told):
    found = told(GATEWAY, {"ANTHROPIC_API_KEY": "ours", "PATH": "p"})
    assert found == {
        "PATH": "p",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:8080",
        "ANTHROPIC_AUTH_TOKEN": "of-the-file",
    }


def test_a_subscriptions_token_may_be_in_our_environment(told):
    own = {"CLAUDE_CODE_OAUTH_TOKEN": "ours"}
    assert told(OAUTH, own, secret="") == own
    with pytest.raises(UsageError, match="Secret gateway with key token is not in the file"):
        told(OAUTH, {}, secret="")


def test_api_keys_are_looked_for_as_ever(told):
    own = {"ANTHROPIC_API_KEY": "ours", "ANTHROPIC_BASE_URL": "http://127.0.0.1:8080"}
    assert told({"type": "APIKey"}, own) == own


@pytest.mark.parametrize(
    ("auth", "agent", "sentence"),
    [
        (BEDROCK, {}, "the token for it is a cluster's; name a way"),
        (BEDROCK, {"kind": "codex"}, "which codex does not have; write APIKey or Gateway"),
        (GATEWAY, {"credentialsSecretRef": {"name": "keys"}}, "leave one of the two out"),
        ({"type": "Bedrock"}, {}, "spec.agent.auth: Value error, type Bedrock needs auth.bedrock"),
    ],
)
def test_a_way_that_is_none_here_is_told_before_anything_starts(told, auth, agent, sentence):
    with pytest.raises(UsageError, match=sentence):
        told(auth, {}, **agent)
