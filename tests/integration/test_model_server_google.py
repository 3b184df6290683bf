"""Google's API of the scripted model: as its own SDK types it, and asked by the real gemini CLI."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from google.genai import types
from support.agent_clis import ModelServer
from support.google_wire import check_types

pytestmark = pytest.mark.integration

MODEL = "/v1beta/models/gemini-2.5-pro"
TOOLS = [{"functionDeclarations": [{"name": "run_shell_command"}]}]
CLI = {"user-agent": "GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64; terminal)"}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def post(
    server: ModelServer, verb: str, *contents: dict[str, Any], **more: Any
) -> tuple[int, list[dict[str, Any]]]:
    """Ask; return the answer, or the pieces of a stream."""
    headers = more.pop("headers", {})
    body = {"contents": list(contents), **more}
    check_types(body)
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    connection.request("POST", f"{MODEL}:{verb}", json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
    return answer.status, [json.loads(line) for line in lines]


def typed(answers: list[dict[str, Any]]) -> list[types.GenerateContentResponse]:
    """The same as the SDK has it, which knows no other fields."""
    return [types.GenerateContentResponse.model_validate(answer) for answer in answers]


def test_an_answer_comes_whole(model_server: ModelServer) -> None:
    said = user({"text": "[[say: hello]]\n[[usage: 7 in, 3 out]]"})
    status, answers = post(model_server, "generateContent", said)
    (answer,) = typed(answers)
    assert (status, answer.text) == (200, "hello")
    assert answer.usage_metadata is not None
    assert answer.usage_metadata.total_token_count == 10


def test_a_stream_has_the_words_in_pieces_and_the_call_and_the_usage_at_its_end(
    model_server: ModelServer,
) -> None:
    said = user({"text": "[[stream: 3 chunks]] [[say: abc]] [[bash: ls]]"})
    _, answers = post(model_server, "streamGenerateContent?alt=sse", said, tools=TOOLS)
    *pieces, last = typed(answers)
    assert [piece.text for piece in pieces] == ["a", "b", "c"]
    assert last.function_calls is not None
    assert last.function_calls[0].args == {"command": "ls", "description": "The script's"}
    assert last.usage_metadata is not None
    assert last.candidates is not None
    assert last.candidates[0].finish_reason == types.FinishReason.STOP


@pytest.mark.parametrize(
    "printed",
    [
        "Sunday",
        "<untrusted_context>\nOutput: Sunday\nProcess Group PGID: 8389\n</untrusted_context>",
        "Output: Sunday\nExit Code: 1",
    ],
)
def test_what_a_tool_printed_continues_the_script(model_server: ModelServer, printed: str) -> None:
    response = {"functionResponse": {"name": "run_shell_command", "response": {"output": printed}}}
    call = {"functionCall": {"name": "run_shell_command", "args": {"command": "date"}}}
    said = user({"text": "[[bash: date]] [[say: it is {output}]]"})
    model = {"role": "model", "parts": [call]}
    _, answers = post(model_server, "generateContent", said, model, user(response), tools=TOOLS)
    assert typed(answers)[0].text == "it is Sunday"


@pytest.mark.parametrize(("code", "name"), [(400, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED")])
def test_an_error_is_one_of_the_api(model_server: ModelServer, code: int, name: str) -> None:
    status, (answer,) = post(
        model_server, "streamGenerateContent?alt=sse", user({"text": f"[[status: {code}]]"})
    )
    assert (status, answer["error"]["code"], answer["error"]["status"]) == (code, code, name)


def test_what_the_cli_asks_beside_the_conversation_runs_no_script(
    model_server: ModelServer,
) -> None:
    wanted = {"responseMimeType": "application/json"}
    asked = user({"text": "[[status: 400]]"})
    status, _ = post(
        model_server, "generateContent", asked, generationConfig=wanted, tools=TOOLS, headers=CLI
    )
    assert (status, model_server.stats["auxiliary"]) == (200, 1)


def test_tokens_are_counted(model_server: ModelServer) -> None:
    status, (answer,) = post(model_server, "countTokens", user({"text": "four"}))
    assert status == 200
    assert answer["totalTokens"] > 0
