"""The ways to a model that `agent.auth` has, as real CLIs take them; only the model is scripted.

A worker has the variables that the contracts give for a way, as the operator hands them to a pod
(operator/tests/test_operator_auth.py), and addresses on loopback.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from model_server.bedrock import Credentials
from redis.asyncio import Redis
from support.bedrock_doors import Doors, doors
from support.bedrock_wire import check_operation, check_signature
from support.queues import Queues
from support.real_agents import RealWorkers

from orbiter_contracts.auth import Auth

pytestmark = pytest.mark.integration

REGION, ROLE = "eu-central-1", "arn:aws:iam::123456789012:role/agents"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOlsic3RzLmFtYXpvbmF3cy5jb20iXX0.c2lnbmVk"
OAUTH = "sk-ant-oat01-scripted-token-of-a-subscription"
SCRIPT = "[[bash: env | sort; cat $AWS_WEB_IDENTITY_TOKEN_FILE]] [[say: {output}]] [[result]]"
NO_KEY = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": "", "OPENAI_API_KEY": ""}
TOKEN_OF_A_GATEWAY = "gateway-token"
KEPT = {"secretKeyRef": {"name": "token", "key": "token"}}


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture
async def server() -> AsyncIterator[Doors]:
    async with doors() as found:
        yield found


def told(auth: dict[str, object], token: str, kind: str = "claude") -> dict[str, str]:
    """What a worker is told of this way; a token of a Secret is this one."""
    found = Auth.model_validate(auth)
    values = found.variables(kind, None)
    handed_on = ",".join(("IS_SANDBOX", *found.handed_on(kind)))
    plain = {name: value if isinstance(value, str) else token for name, value in values.items()}
    return {**NO_KEY, **plain, "AGENT_ENV": handed_on}


def by_web_identity(server: Doors, token: Path) -> dict[str, str]:
    """What a worker is told for Bedrock, with its token in this file, and two addresses."""
    role = {"roleARN": ROLE, "region": REGION}
    way = told({"type": "Bedrock", "bedrock": role}, "")
    here = {"AWS_ENDPOINT_URL_STS": server.url, "ANTHROPIC_BEDROCK_BASE_URL": server.url}
    handed_on = ",".join((way["AGENT_ENV"], *here))
    file = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(token)}
    return {**way, **here, **file, "AGENT_ENV": handed_on}


def by_gateway(url: str, kind: str = "claude", *, token: bool = True) -> dict[str, str]:
    """What a worker is told for a gateway, with a token or without one."""
    gateway = {"baseURL": url, **({"tokenFrom": KEPT} if token else {})}
    return told({"type": "Gateway", "gateway": gateway}, TOKEN_OF_A_GATEWAY, kind)


@pytest.mark.parametrize("model", ["", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"])
async def test_claude_asks_bedrock_with_keys_that_sts_gave_it_for_the_token_in_its_file(
    model: str, claude_workers: RealWorkers, queues: Queues, server: Doors, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    await queues.task(SCRIPT)
    worker = claude_workers.start(AGENT_MODEL=model, **by_web_identity(server, token))
    assert await worker.exit_code() == 0
    output = await queues.output()
    assert (output.status, output.error) == ("success", None)
    [traded] = [request for request in server.received if request.target == "/"]
    told = (traded.form["RoleArn"], traded.form["WebIdentityToken"])
    assert told == (ROLE, TOKEN)
    key, secret, session = Credentials.of(TOKEN)
    asked = server.asked("/invoke-with-response-stream")
    assert len(asked) == 2
    for request in asked:
        assert request.headers["x-amz-security-token"] == session
        check_signature(request, server.url, key=key, secret=secret, region=REGION)
        if model:
            check_operation(request, model, stream=True)
    assert not [one for one in server.received if {"x-api-key"} & one.headers.keys()]


async def test_the_token_is_in_no_output_though_the_agent_prints_it_also_after_it_was_made_anew(
    claude_workers: RealWorkers, queues: Queues, server: Doors, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    renewed = TOKEN[::-1]
    anew = f"[[bash: printf %s {renewed} > {token}; printf %s {renewed} | rev]] {SCRIPT}"
    await queues.task(anew)
    worker = claude_workers.start(**by_web_identity(server, token))
    assert await worker.exit_code() == 0
    output = await queues.output()
    assert output.verdict is not None
    assert f"AWS_ROLE_ARN={ROLE}" in output.verdict.summary
    for published in (output.model_dump_json(), worker.output):
        assert TOKEN not in published
        assert renewed not in published


async def test_a_refused_token_ends_the_task_with_an_error_and_asks_no_model(
    claude_workers: RealWorkers, queues: Queues, server: Doors, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("")
    await queues.task(SCRIPT)
    environment = by_web_identity(server, tmp_path / "token")
    assert await claude_workers.start(**environment).exit_code(seconds=60) == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("error", "AgentError")
    assert server.asked("/invoke-with-response-stream") == []


async def test_claude_sends_a_subscriptions_token_as_bearer_and_no_key(
    claude_workers: RealWorkers, queues: Queues, server: Doors
) -> None:
    await queues.task("[[bash: env | sort]] [[say: {output}]] [[result]]")
    given = told({"type": "OAuthToken", "oauthToken": {"tokenFrom": KEPT}}, OAUTH)
    worker = claude_workers.start(**{**given, "ANTHROPIC_BASE_URL": server.url})
    assert await worker.exit_code() == 0
    output = await queues.output()
    assert output.status == "success"
    assert OAUTH not in output.model_dump_json() + worker.output
    asked = server.asked("/v1/messages")
    assert {request.headers["authorization"] for request in asked} == {f"Bearer {OAUTH}"}
    assert not [one for one in asked if "x-api-key" in one.headers]


@pytest.mark.parametrize("token", [True, False])
async def test_claude_asks_a_gateway_at_its_base_url_with_the_gateways_own_token(
    token: bool, claude_workers: RealWorkers, queues: Queues, server: Doors
) -> None:
    await queues.task("[[bash: env | sort]] [[say: {output}]] [[result]]")
    worker = claude_workers.start(**by_gateway(server.url, token=token))
    assert await worker.exit_code() == 0
    output = await queues.output()
    assert output.status == "success"
    assert TOKEN_OF_A_GATEWAY not in output.model_dump_json() + worker.output
    sent = {request.headers["authorization"] for request in server.asked("/v1/messages")}
    assert sent == {f"Bearer {TOKEN_OF_A_GATEWAY if token else 'none'}"}
    assert not [one for one in server.received if "x-api-key" in one.headers]


async def test_codex_asks_a_gateway_at_its_base_url_with_the_gateways_own_token(
    codex_workers: RealWorkers, queues: Queues, server: Doors
) -> None:
    await queues.task("[[bash: env | sort]] [[say: {output}]] [[result]]")
    worker = codex_workers.start(**by_gateway(f"{server.url}/v1", "codex"))
    assert await worker.exit_code() == 0
    output = await queues.output()
    assert output.status == "success"
    assert TOKEN_OF_A_GATEWAY not in output.model_dump_json() + worker.output
    asked = [one for one in server.asked("/v1/responses") if one.method == "POST"]
    assert len(asked) == 2
    assert {one.headers["authorization"] for one in asked} == {f"Bearer {TOKEN_OF_A_GATEWAY}"}


@pytest.mark.parametrize(
    ("model", "path", "base"),
    [
        ("large-one", "/v1/chat/completions", "/v1"),
        ("anthropic/large-one", "/v1/messages", ""),
    ],
)
async def test_droid_asks_a_gateway_for_the_model_of_the_task_and_nobody_else(
    model: str, path: str, base: str, factory_workers: RealWorkers, queues: Queues, server: Doors
) -> None:
    settings = factory_workers.home / ".factory" / "settings.json"
    settings.write_text("{}")
    gateway = {"baseURL": f"{server.url}{base}", "tokenFrom": KEPT}
    found = Auth.model_validate({"type": "Gateway", "gateway": gateway})
    values = found.variables("factory", model)
    given = {
        name: value if isinstance(value, str) else TOKEN_OF_A_GATEWAY
        for name, value in values.items()
    }
    await queues.task("[[bash: env | sort]] [[say: {output}]] [[result]]")
    worker = factory_workers.start(**{**NO_KEY, "FACTORY_API_KEY": "", **given}, AGENT_MODEL=model)
    assert await worker.exit_code(seconds=280) == 0
    output = await queues.output()
    assert (output.status, output.error) == ("success", None)
    assert TOKEN_OF_A_GATEWAY not in output.model_dump_json() + worker.output
    asked = [one for one in server.asked(path) if one.method == "POST"]
    assert len(asked) == 2
    assert {json.loads(one.raw)["model"] for one in asked} == {"large-one"}
    said = {one.headers.get("authorization") or one.headers["x-api-key"] for one in asked}
    assert {words.removeprefix("Bearer ") for words in said} == {TOKEN_OF_A_GATEWAY}
    assert settings.read_text() == "{}"
    own = factory_workers.home / ".worker-wrapper/factory/.factory/settings.json"
    assert TOKEN_OF_A_GATEWAY not in own.read_text()


async def test_an_orbiter_agent_asks_a_gateway_with_its_token_as_bearer(
    orbiter_workers: RealWorkers, queues: Queues, server: Doors
) -> None:
    await queues.task("[[say: by the gateway]] [[result]]")
    given = by_gateway(server.url, "orbiter")
    worker = orbiter_workers.start(AGENT_MODEL="anthropic:claude-sonnet-4-5", **given)
    assert await worker.exit_code() == 0
    assert (await queues.output()).status == "success"
    sent = {one.headers["authorization"] for one in server.asked("/v1/messages")}
    assert sent == {f"Bearer {TOKEN_OF_A_GATEWAY}"}
