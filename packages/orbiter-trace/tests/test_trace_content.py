import json

import pytest

from orbiter import Agent, run, tool
from orbiter.models import ModelError, ScriptedModel, call
from orbiter.trace._internal.content import redacted

SECRET = "sk-proj-abcdefghijklmnop"


@tool
async def look_up(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


def agent() -> Agent:
    return Agent(name="a", instructions="Be brief.", tools=[look_up])


async def play(provider=None) -> None:
    provider = provider or ScriptedModel(call("look_up", key="colour"), "It is blue.")
    await run(agent(), "What colour?", provider=provider)


async def test_no_content_is_recorded_unless_asked_for(spans):
    with spans.on():
        await play()
    text = spans.text()
    for said in ("Be brief", "What colour", "colour", "value of", "It is blue"):
        assert said not in text


async def test_content_is_recorded_in_the_form_of_the_conventions(spans):
    with spans.on(capture_content=True):
        await play()
    first, last = [span for span in spans.all if span.name.startswith("chat")]
    told = first.attributes
    assert json.loads(told["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "Be brief."}
    ]
    assert json.loads(told["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "What colour?"}]}
    ]
    [message] = json.loads(told["gen_ai.output.messages"])
    assert message["parts"] == [
        {"type": "tool_call", "id": "call_1", "name": "look_up", "arguments": '{"key": "colour"}'}
    ]
    shown = json.loads(last.attributes["gen_ai.input.messages"])
    assert shown[-1]["parts"] == [
        {"type": "tool_call_response", "id": "call_1", "response": "value of colour"}
    ]
    tool_span = spans["execute_tool look_up"]
    assert tool_span.attributes["gen_ai.tool.call.arguments"] == '{"key": "colour"}'
    assert tool_span.attributes["gen_ai.tool.call.result"] == "value of colour"


async def test_keys_are_blanked_in_captured_content_and_errors(spans):
    script = ScriptedModel(call("look_up", key=SECRET), ModelError(f"bad key {SECRET}"))
    with spans.on(capture_content=True), pytest.raises(ModelError):
        await play(script)
    assert "bad key [redacted]" in spans["invoke_agent a"].status.description
    assert SECRET not in spans.text()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"use {SECRET} now", "use [redacted] now"),
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [redacted]"),
        ('{"api_key": "12345", "n": 1}', '{"api_key": "[redacted]", "n": 1}'),
        ("DB_PASSWORD=hunter2 x", "DB_PASSWORD=[redacted] x"),
        ("postgres://me:hunter2@db/x", "postgres://[redacted]@db/x"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "[redacted]"),
        ("the secret of success is work", "the secret of success is work"),
    ],
)
def test_what_looks_like_a_secret_is_blanked(text, shown):
    assert redacted(text) == shown
