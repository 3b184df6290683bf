"""Bedrock's and STS's doors of the scripted model, as botocore's own clients find them."""

import json
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import Session
from support.agent_clis import ModelServer

pytestmark = pytest.mark.integration

ROLE = "arn:aws:iam::123456789012:role/team/agents"
MODEL = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"


def sts(server: ModelServer) -> Any:
    return Session().create_client("sts", "eu-central-1", endpoint_url=server.url)


def runtime(server: ModelServer, token: str | None = None) -> Any:
    """A client with the keys that STS gives for a token, or with some that nobody gave."""
    keys = {"AccessKeyId": "AKIANOBODY", "SecretAccessKey": "x", "SessionToken": None}
    if token:
        asked = {"RoleArn": ROLE, "RoleSessionName": "test", "WebIdentityToken": token}
        keys = sts(server).assume_role_with_web_identity(**asked)["Credentials"]
    return Session().create_client(
        "bedrock-runtime",
        "eu-central-1",
        endpoint_url=server.url,
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )


def body(prompt: str) -> str:
    said = [{"role": "user", "content": prompt}]
    return json.dumps({"anthropic_version": "bedrock-2023-05-31", "messages": said})


def test_an_answer_comes_whole_and_names_the_model_of_the_path(model_server: ModelServer) -> None:
    client = runtime(model_server, "header.payload.signature")
    answer = json.load(client.invoke_model(modelId=MODEL, body=body("[[say: hello]]"))["body"])
    assert (answer["content"][0]["text"], answer["model"]) == ("hello", MODEL)


def test_a_stream_is_the_events_of_anthropics_api_in_frames(model_server: ModelServer) -> None:
    client = runtime(model_server, "header.payload.signature")
    asked = {"modelId": MODEL, "body": body("[[stream: 3 chunks]] [[say: abc]]")}
    frames = client.invoke_model_with_response_stream(**asked)["body"]
    events = [json.loads(frame["chunk"]["bytes"]) for frame in frames]
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert [delta["text"] for delta in deltas] == ["a", "b", "c"]


def test_keys_that_sts_did_not_give_are_refused(model_server: ModelServer) -> None:
    with pytest.raises(ClientError, match=r"security token .* is invalid"):
        runtime(model_server).invoke_model(modelId=MODEL, body=body("[[say: hello]]"))
    assert model_server.stats["statuses"] == {"403": 1}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"WebIdentityToken": "", "RoleArn": ROLE}, "InvalidIdentityToken"),
        ({"RoleArn": "arn:aws:iam::12:user/somebody"}, "ValidationError"),
    ],
)
def test_sts_refuses_what_is_no_token_or_no_role(
    changed: dict[str, str], code: str, model_server: ModelServer
) -> None:
    # botocore itself refuses an empty one
    config = {"config": Config(parameter_validation=False, signature_version=None)}
    client = Session().create_client("sts", "eu-central-1", endpoint_url=model_server.url, **config)
    asked = {"RoleSessionName": "test", "WebIdentityToken": "a.b.c", **changed}
    with pytest.raises(ClientError) as caught:
        client.assume_role_with_web_identity(**asked)
    assert caught.value.response["Error"]["Code"] == code
