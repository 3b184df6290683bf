"""The ways of an agent to its model: which it has, what each sets, and what is refused."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from orbiter_contracts import AGENT_TYPES, AGENTS
from orbiter_contracts.auth import GATEWAYS, NO_TOKEN, Auth, SecretKey, ways
from worker_wrapper.agents import load_agent

PAGE = Path(__file__).parents[2] / "docs/tasks.md"
ROLE = "arn:aws:iam::123456789012:role/team/agents"
KEY = {"secretKeyRef": {"name": "gateway", "key": "token"}}
BEDROCK = {"type": "Bedrock", "bedrock": {"roleARN": ROLE, "region": "eu-central-1"}}
GATEWAY = {"type": "Gateway", "gateway": {"baseURL": "https://llm.example.com/v1"}}
WITH_TOKEN = {"type": "Gateway", "gateway": {**GATEWAY["gateway"], "tokenFrom": KEY}}
OAUTH = {"type": "OAuthToken", "oauthToken": {"tokenFrom": KEY}}
SECRET = SecretKey(name="gateway", key="token")


def auth(said: dict[str, object]) -> Auth:
    return Auth.model_validate(said)


def test_each_agent_is_in_the_table_and_its_adapter_hands_on_what_a_way_sets() -> None:
    assert tuple(GATEWAYS) == AGENT_TYPES
    for kind, known in GATEWAYS.items():
        adapter = load_agent(kind)
        for each in known:
            assert each.token in adapter.credentials
            assert each.url in adapter.passes
    assert "CLAUDE_CODE_OAUTH_TOKEN" in load_agent("claude").credentials


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("claude", ("APIKey", "Bedrock", "Gateway", "OAuthToken")),
        ("codex", ("APIKey", "Gateway")),
        ("factory", ("APIKey", "Gateway")),
        ("gemini", ("APIKey", "Gateway")),
        ("opencode", ("APIKey", "Gateway")),
        ("orbiter", ("APIKey", "Gateway")),
        ("stranger", ("APIKey",)),
    ],
)
def test_an_agent_has_the_ways_of_its_cli(kind: str, found: tuple[str, ...]) -> None:
    assert ways(kind) == found


def test_the_page_has_each_agents_ways_and_a_gateways_variables() -> None:
    page = PAGE.read_text().partition("### Ways to the model\n")[2].partition("\n### ")[0]
    head, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| `")
    ]
    found = [cell.strip("`") for cell in head[1:]]
    assert found == list(ways("claude"))
    assert tuple(row[0].strip("`") for row in rows) == AGENT_TYPES
    for (kind, known), row in zip(GATEWAYS.items(), rows, strict=True):
        told = dict(zip(found, row[1:], strict=True))
        assert tuple(way for way, cell in told.items() if cell) == ways(kind)
        variables = [name for each in known for name in (each.url, each.token)]
        assert re.findall(r"`([A-Z_]+)`", told["Gateway"]) == variables


def test_keys_are_the_way_unless_another_is_said_and_set_nothing() -> None:
    assert auth({}).type == "APIKey"
    assert auth({}).variables("claude", None) == {}
    assert auth({}).reserved("claude") == frozenset()


def test_bedrock_is_a_role_a_region_and_the_file_of_a_token() -> None:
    assert auth(BEDROCK).variables("claude", "m") == {
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "AWS_REGION": "eu-central-1",
        "AWS_ROLE_ARN": ROLE,
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/run/secrets/aws/token",
    }
    assert auth(BEDROCK).secret is None


@pytest.mark.parametrize(
    ("kind", "model", "url", "token"),
    [
        ("claude", None, "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"),
        ("codex", "gpt-5", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("factory", "my-model", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("factory", "anthropic/claude-sonnet-4-5", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        ("gemini", None, "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
        ("opencode", None, "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        ("opencode", "openai/gpt-5", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("orbiter", "anthropic:claude-sonnet-4-5", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"),
        ("orbiter", "openai:gpt-4o", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    ],
)
def test_a_gateway_is_an_address_and_a_token_by_the_names_of_the_models_vendor(
    kind: str, model: str | None, url: str, token: str
) -> None:
    told = auth(WITH_TOKEN).variables(kind, model)
    assert told == {url: "https://llm.example.com/v1", token: SECRET}
    assert auth(GATEWAY).variables(kind, model)[token] == NO_TOKEN


def test_a_subscriptions_token_is_of_a_secret() -> None:
    assert auth(OAUTH).variables("claude", None) == {"CLAUDE_CODE_OAUTH_TOKEN": SECRET}


def test_variables_of_another_way_are_nobodys_to_set_beside_one() -> None:
    for said in (BEDROCK, WITH_TOKEN, OAUTH):
        assert {*AGENTS["claude"].variables} <= auth(said).reserved("claude")
    assert {"AWS_ROLE_ARN", "AWS_ACCESS_KEY_ID"} <= auth(BEDROCK).reserved("claude")
    assert "AWS_ACCESS_KEY_ID" not in auth(GATEWAY).reserved("claude")


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        (
            BEDROCK,
            "codex",
            "spec.agent.auth.type is 'Bedrock', which codex does not have; write APIKey or "
            "Gateway, or have an agent.type that has it: claude",
        ),
        (OAUTH, "gemini", "an agent.type that has it: claude"),
        (
            GATEWAY,
            "stranger",
            "spec.agent.auth.type is 'Gateway', which stranger does not have; write APIKey, or "
            "have an agent.type that has it: claude, codex, factory, gemini, opencode or orbiter",
        ),
    ],
)
def test_a_way_that_an_agent_does_not_have_is_told_with_those_that_have_it(
    said: dict[str, object], kind: str, sentence: str
) -> None:
    assert sentence in (auth(said).problem(kind, None, None) or "")
    assert auth(said).problem("claude", None, None) is None


def test_an_agent_without_a_model_of_its_own_at_a_gateway_is_told_to_name_one() -> None:
    why = auth(GATEWAY).problem("factory", None, None) or ""
    assert why.startswith("spec.agent.model is missing: factory has no model of its own")
    assert auth(GATEWAY).problem("factory", None, "my-model") is None
    assert auth({}).problem("factory", "keys", None) is None
    assert auth(GATEWAY).problem("codex", None, None) is None


@pytest.mark.parametrize("said", [BEDROCK, GATEWAY, OAUTH])
def test_keys_are_no_part_of_another_way(said: dict[str, object]) -> None:
    assert "spec.agent.credentialsSecretRef is 'keys'" in (
        auth(said).problem("claude", "keys", None) or ""
    )
    assert auth({"type": "APIKey"}).problem("claude", "keys", None) is None


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"type": "Vertex"}, "Input should be 'APIKey'"),
        ({"type": "Bedrock"}, "type Bedrock needs auth.bedrock; write it"),
        ({"type": "OAuthToken"}, "type OAuthToken needs auth.oauthToken; write it"),
        ({**BEDROCK, "type": "APIKey"}, "auth.bedrock belongs to type Bedrock"),
        ({**BEDROCK, **GATEWAY}, "auth.bedrock belongs to type Bedrock"),
        (
            {"type": "Bedrock", "bedrock": {"roleARN": "agents", "region": "eu-central-1"}},
            "'agents' is no role; write its ARN",
        ),
        (
            {"type": "Bedrock", "bedrock": {"roleARN": ROLE, "region": "../../x"}},
            "is no region; write one like eu-central-1",
        ),
    ],
)
def test_what_no_way_is_made_of_is_refused_with_the_next_step(
    said: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        auth(said)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter22@llm.example.com",
        "https://llm.example.com/?token=hunter22",
        "ftp://hunter22",
        "https://",
        "https://a b",
        "hunter22",
    ],
)
def test_an_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        auth({"type": "Gateway", "gateway": {"baseURL": url}})
    [told] = refused.value.errors(include_url=False, include_input=False)
    assert "http:// or https:// URL" in told["msg"]
    assert "hunter22" not in told["msg"]
