"""Gemini by Google's own SDK, against a server whose requests and answers fit the SDK's types."""

import base64
import subprocess
import sys
from types import SimpleNamespace

import pytest
from support.google_wire import camel
from support.model_wire import Answer, Refusal

from orbiter import Agent, run, tool
from orbiter.config import ModelConfig, ModelSettings
from orbiter.history import from_json, to_json
from orbiter.models import FallbackModel, ModelError, ScriptedModel, get_provider
from orbiter.models.google import GoogleProvider
from orbiter.parts import DocumentPart, ImagePart, TextPart, ThinkingPart, ToolCallPart
from orbiter.types import AssistantMessage, ToolCall, ToolResult, Usage, UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

HI = [UserMessage(content="hi")]
CAT = ImagePart(data=b"\x89PNG", media_type="image/png")


@tool
async def get_weather(city: str) -> str:
    """Get the weather.

    Args:
        city: The city's name.
    """
    return f"sunny in {city}"


@tool
async def broken() -> str:
    """Fail."""
    raise ValueError("no such city")


@tool
async def draw() -> ImagePart:
    """Draw a cat."""
    return CAT


AGENT = Agent(
    name="weather", instructions="Be brief.", tools=[get_weather], temperature=0.5, max_tokens=99
)
TALK = (
    Answer(
        text="Let me look.",
        calls=(("c1", "get_weather", {"city": "Oslo"}), ("c2", "get_weather", {"city": "Rome"})),
        input_tokens=50,
        output_tokens=20,
    ),
    Answer(text="Sunny in both.", input_tokens=120, output_tokens=6, cached_tokens=40),
)


async def asked(vendor, *answers, stream=False, agent=AGENT, said="hi", **options):
    provider = vendor.will(*answers)
    if not stream:
        return await run(agent, said, provider=provider, **options)
    events = run.stream(agent, said, provider=provider, **options)
    async for _ in events:
        pass
    return events.result


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_calls_tools_and_answers(vendors, stream):
    vendor = vendors("google")
    result = await asked(vendor, *TALK, stream=stream)
    assert (result.output, result.steps) == ("Sunny in both.", 2)
    assert result.usage == Usage(
        input_tokens=170, output_tokens=26, total_tokens=196, cached_tokens=40
    )
    calls = result.messages[1].tool_calls
    assert [call.arguments for call in calls] == ['{"city": "Oslo"}', '{"city": "Rome"}']
    assert len({call.id for call in calls} - {""}) == 2
    first, second = vendor.server.received
    verb = "streamGenerateContent" if stream else "generateContent"
    assert first.path == f"/v1/models/test-model:{verb}"
    assert first.headers["x-goog-api-key"] == "sk-test"
    assert camel(first.body) == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "get_weather",
                        "description": "Get the weather.",
                        "parametersJsonSchema": get_weather.parameters,
                    }
                ]
            }
        ],
        "generationConfig": {"temperature": 0.5, "maxOutputTokens": 99},
    }
    assert second.body["contents"][1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "Let me look."},
                {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}},
                {"functionCall": {"name": "get_weather", "args": {"city": "Rome"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "get_weather",
                        "response": {"output": f"sunny in {city}"},
                    }
                }
                for city in ("Oslo", "Rome")
            ],
        },
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_are_shown_and_signatures_go_back_where_they_were(vendors, stream):
    vendor = vendors("google")
    look = Answer(thinking="Oslo, so", text="Wait.", calls=(("", "get_weather", {"city": "Oslo"}),))
    settings = ModelSettings(reasoning_effort="low")
    result = await asked(vendor, look, TALK[1], stream=stream, settings=settings)
    signature = base64.b64encode(b"thought of get_weather").decode()
    assert result.messages[1].parts == (
        ThinkingPart(text="Oslo, so", vendor="google"),
        TextPart(text="Wait."),
        ThinkingPart(signature=signature, vendor="google"),
        ToolCallPart(index=0),
    )
    sent = vendor.server.received[1].body["contents"][1]["parts"]
    assert sent == [
        {"text": "Wait."},
        {
            "functionCall": {"name": "get_weather", "args": {"city": "Oslo"}},
            "thoughtSignature": signature,
        },
    ]
    history = from_json(to_json(result.messages))
    other = vendors("anthropic")
    await asked(other, Answer(text="Bye."), messages=history)
    assert "Oslo, so" not in str(other.server.received[0].body)
    back = await asked(vendor, Answer(text="Hello again."), messages=history)
    assert back.output == "Hello again."


async def test_errors_and_arguments_that_are_no_object_can_be_sent_back(vendors):
    vendor = vendors("google")
    agent = Agent(name="a", tools=[broken])
    await asked(vendor, Answer(calls=(("", "broken", {}),)), Answer(text="Sorry."), agent=agent)
    [answer] = vendor.server.received[1].body["contents"][2]["parts"]
    assert answer["functionResponse"]["response"] == {"error": "Tool 'broken' failed: no such city"}
    bad = [
        UserMessage(content="hi"),
        AssistantMessage(tool_calls=[ToolCall(id="c", name="broken", arguments="{")]),
    ]
    await asked(vendor, Answer(text="ok"), agent=agent, messages=bad)
    sent = vendor.server.received[2].body["contents"][1]["parts"][0]
    assert sent["functionCall"]["args"] == {"invalid": "{"}


@pytest.mark.parametrize("vendor", ["google", "anthropic"])
@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": ' * 100_000,
        '{"a": ' * 190 + "1" + "}" * 190,
        '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": "\\ud800"}',
        "[1]",
    ],
    ids=["open", "deep", "deeper", "NaN", "infinite", "half", "list"],
)
async def test_arguments_that_cannot_be_sent_back_are_shown_as_text(vendors, vendor, arguments):
    server = vendors(vendor)
    agent = Agent(name="a", tools=[broken])
    history = [
        UserMessage(content="hi"),
        AssistantMessage(tool_calls=[ToolCall(id="c", name="broken", arguments=arguments)]),
        ToolResult(tool_call_id="c", tool_name="broken", content="no"),
    ]
    result = await asked(server, Answer(text="ok"), agent=agent, messages=history)
    assert result.output == "ok"
    body = server.server.received[0].body
    [call] = body["contents"][1]["parts"] if vendor == "google" else body["messages"][1]["content"]
    given = call["functionCall"]["args"] if vendor == "google" else call["input"]
    assert given == {"invalid": arguments}


@pytest.mark.parametrize("details", [5, True, "7s", {"retryDelay": "7s"}, [5], [{"retryDelay": 7}]])
def test_an_error_whose_details_are_of_another_form_says_nothing_of_a_pause(details):
    failure = SimpleNamespace(details={"error": {"details": details}}, response=None)
    provider = GoogleProvider(ModelConfig(provider="google", model_name="m", api_key="k"))
    assert provider._client._asked_for(failure) is None


async def test_images_and_documents_are_shown(vendors):
    vendor = vendors("google")
    notes = DocumentPart(data=b"# Cats", media_type="text/markdown", name="notes.md")
    page = DocumentPart(data=b"%PDF", media_type="application/pdf")
    agent = Agent(name="a", tools=[draw])
    await asked(
        vendor, Answer(calls=(("", "draw", {}),)), Answer(text="Nice."),
        agent=agent, said=[TextPart(text="What?"), CAT, notes, page],
    )  # fmt: skip
    png = base64.b64encode(b"\x89PNG").decode()
    contents = camel(vendor.server.received[1].body["contents"])
    assert contents[0]["parts"] == [
        {"text": "What?"},
        {"inlineData": {"mimeType": "image/png", "data": png}},
        {
            "inlineData": {
                "mimeType": "text/plain",
                "data": base64.b64encode(b"# Cats").decode(),
            }
        },
        {
            "inlineData": {
                "mimeType": "application/pdf",
                "data": base64.b64encode(b"%PDF").decode(),
            }
        },
    ]
    assert contents[2]["parts"][1] == {"inlineData": {"mimeType": "image/png", "data": png}}


async def test_a_file_by_its_url_needs_its_type(vendors):
    vendor = vendors("google")
    with pytest.raises(ModelError, match=r"without its type \(https://x/c.png\): give media_type"):
        await asked(vendor, said=[ImagePart(url="https://x/c.png")])
    assert vendor.server.received == []


@pytest.mark.parametrize(
    ("settings", "generation"),
    [
        ({"top_p": 0.9, "seed": 7, "stop": "END"},
         {"topP": 0.9, "seed": 7, "stopSequences": ["END"]}),
        ({"thinking_budget": 2000},
         {"thinkingConfig": {"thinkingBudget": 2000, "includeThoughts": True}}),
        ({"reasoning_effort": "none"}, {"thinkingConfig": {"thinkingBudget": 0}}),
        ({"reasoning_effort": "high"},
         {"thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True}}),
    ],
)  # fmt: skip
async def test_settings_have_the_vendors_words(vendors, settings, generation):
    vendor = vendors("google")
    await asked(vendor, Answer(text="x"), agent=Agent(name="a"), settings=ModelSettings(**settings))
    assert camel(vendor.server.received[0].body["generationConfig"]) == generation


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("get_weather", {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}),
    ],
)
async def test_a_choice_of_tools_has_the_vendors_word(vendors, choice, sent):
    vendor = vendors("google")
    await asked(vendor, Answer(text="x"), settings=ModelSettings(tool_choice=choice))
    assert vendor.server.received[0].body["toolConfig"] == {"functionCallingConfig": sent}


async def test_headers_body_and_time_of_ones_own_pass_through(vendors):
    vendor = vendors("google")
    vendor.more.add("labels")
    settings = ModelSettings(
        extra_headers={"x-team": "blue"}, extra_body={"labels": {"a": "b"}}, timeout=7.0
    )
    await asked(vendor, Answer(text="x"), settings=settings)
    [request] = vendor.server.received
    assert request.headers["x-team"] == "blue"
    assert request.headers["x-server-timeout"] == "7"
    assert request.body["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"parallel_tool_calls": False}, "'parallel_tool_calls' is not possible"),
        ({"reasoning_effort": "max"}, "'reasoning_effort' is 'max': Gemini's most is 'xhigh'"),
        ({"prompt_caching": False}, "'prompt_caching' is False"),
        ({"http_client": object()}, "'http_client' does not fit the SDK"),
    ],
)
async def test_what_the_vendor_cannot_do_is_refused_before_it_is_sent(vendors, settings, told):
    vendor = vendors("google")
    with pytest.raises(ModelError, match=rf"^\[test-model\] the setting .*{told}"):
        await asked(vendor, settings=ModelSettings(**settings))
    assert vendor.server.received == []


async def test_a_call_may_go_by_an_http_client_of_ones_own(vendors):
    import httpx2

    vendor = vendors("google")
    seen = []

    async def note(request):
        seen.append(request.url.path)

    async with httpx2.AsyncClient(event_hooks={"request": [note]}) as client:
        await asked(vendor, Answer(text="x"), settings=ModelSettings(http_client=client))
        assert not client.is_closed
    await asked(vendor, Answer(text="y"))
    assert len(seen) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", "completed"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "incomplete"),
        ("blocked", "content_filter"),
    ],
)
async def test_every_word_it_ends_with_has_its_meaning(vendors, word, reason, stream):
    result = await asked(vendors("google"), Answer(text="Once", finish=word), stream=stream)
    assert result.stop_reason == reason


async def test_a_stream_without_its_end_is_incomplete(vendors):
    vendor = vendors("google")
    result = await asked(vendor, Answer(text="Once upon", ends_early="after text"), stream=True)
    assert (result.output, result.stop_reason) == ("Once upon", "incomplete")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_server_is_asked_again(vendors, status, stream):
    vendor = vendors("google")
    answers = (Refusal(status), Refusal(status, headers={"retry-after": "7"}), Answer(text="x"))
    assert (await asked(vendor, *answers, stream=stream)).output == "x"
    assert vendor.pauses == [0.5, 7.0]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refused_request_is_not_sent_again(vendors, stream):
    vendor = vendors("google")
    with pytest.raises(ModelError, match=r"google answered 400: .*API key not valid") as caught:
        await asked(vendor, Refusal(400, "API key not valid"), stream=stream)
    assert (caught.value.status, caught.value.retryable, vendor.pauses) == (400, False, [])


async def test_a_server_that_is_not_there_leads_to_the_next_model(vendors):
    vendor = vendors("google")
    config = ModelConfig(
        provider="google", api_key="k", base_url="http://127.0.0.1:9", max_retries=0
    )
    gone = GoogleProvider(config, clock=vendor.provider._client.clock)
    with pytest.raises(ModelError, match=r"asked at http://127\.0\.0\.1:9") as caught:
        await gone.complete(HI)
    assert caught.value.retryable
    chain = FallbackModel(gone, ScriptedModel("Hello."))
    assert (await run(AGENT, "hi", provider=chain)).output == "Hello."
    await gone.aclose()


def test_a_model_string_names_it_with_either_key(monkeypatch):
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelError, match="no API key: set GOOGLE_API_KEY or"):
        get_provider("google:gemini-2.5-flash")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    assert isinstance(get_provider("google:gemini-2.5-flash"), GoogleProvider)


def test_the_sdk_is_imported_only_when_its_model_is_called():
    program = (
        "import sys\nfrom orbiter.models import get_provider\n"
        "get_provider('google:gemini', api_key='k')\n"
        "print([m for m in ('google.genai', 'httpx2') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


async def test_a_missing_sdk_is_an_error_that_says_what_to_install(vendors, monkeypatch):
    vendor = vendors("google")
    monkeypatch.setitem(sys.modules, "google.genai", None)
    with pytest.raises(ModelError, match=r"install orbiter-models\[google\]"):
        await asked(vendor)
