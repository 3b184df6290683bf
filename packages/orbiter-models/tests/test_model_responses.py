"""OpenAI's Responses API, against a server whose requests and answers fit the SDK's types."""

import base64
import subprocess
import sys
from types import SimpleNamespace
from typing import get_args

import pytest
from pydantic import BaseModel
from support.model_wire import Answer, Refusal

from orbiter import Agent, run, tool
from orbiter.config import ModelConfig, ModelSettings
from orbiter.history import from_json, to_json
from orbiter.models import FallbackModel, ModelError, ScriptedModel, get_provider
from orbiter.models._internal.openai_chat import Chat
from orbiter.models._internal.openai_events import Pieces
from orbiter.models._internal.openai_items import Said, to_items
from orbiter.models._internal.openai_responses import Responses
from orbiter.models.openai import OpenAIProvider, api_of
from orbiter.parts import DocumentPart, ImagePart, OpaquePart, TextPart, ThinkingPart, ToolCallPart
from orbiter.runner import OutputValidationError
from orbiter.types import AssistantMessage, ToolCall, ToolResult, Usage, UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

HI = [UserMessage(content="hi")]
CAT = ImagePart(data=b"\x89PNG", media_type="image/png")
ENCRYPTED = ["reasoning.encrypted_content"]
SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "weather Oslo"},
}


class City(BaseModel):
    name: str


@tool
async def get_weather(city: str) -> str:
    """Get the weather.

    Args:
        city: The city's name.
    """
    return f"sunny in {city}"


@tool
async def draw() -> ImagePart:
    """Draw a cat."""
    return CAT


@tool
async def broken() -> str:
    """Fail."""
    raise ValueError("no such city")


AGENT = Agent(
    name="weather", instructions="Be brief.", tools=[get_weather], temperature=0.5, max_tokens=99
)
CALLS = (("c1", "get_weather", {"city": "Oslo"}), ("c2", "get_weather", {"city": "Rome"}))
TALK = (
    Answer(text="Let me look.", calls=CALLS, input_tokens=50, output_tokens=20, thinking_tokens=8),
    Answer(text="Sunny in both.", input_tokens=120, output_tokens=6, cached_tokens=40),
)


async def asked(vendor, *answers, stream=False, agent=AGENT, said="hi", seen=None, **options):
    provider = vendor.will(*answers)
    if not stream:
        return await run(agent, said, provider=provider, **options)
    events = run.stream(agent, said, provider=provider, **options)
    async for event in events:
        if seen is not None:
            seen.append(event)
    return events.result


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_calls_tools_and_answers(vendors, stream):
    vendor = vendors("responses")
    seen = []
    result = await asked(vendor, *TALK, stream=stream, seen=seen)
    assert (result.output, result.steps) == ("Sunny in both.", 2)
    assert result.usage == Usage(
        input_tokens=170,
        output_tokens=26,
        total_tokens=196,
        cached_tokens=40,
        reasoning_tokens=8,
    )
    assert result.messages[1] == AssistantMessage(
        content="Let me look.",
        tool_calls=[
            ToolCall(id="c1", name="get_weather", arguments='{"city": "Oslo"}'),
            ToolCall(id="c2", name="get_weather", arguments='{"city": "Rome"}'),
        ],
    )
    if stream:
        said = [event.text for event in seen if event.type == "text"]
        assert "".join(said) == "Let me look.Sunny in both."
        assert len(said) > 4
    first, second = (request.body for request in vendor.server.received)
    assert {name: value for name, value in first.items() if name != "stream"} == {
        "model": "test-model",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "hi"}],
        "store": False,
        "include": ENCRYPTED,
        "tools": [
            {
                "type": "function",
                "name": "get_weather",
                "description": "Get the weather.",
                "parameters": get_weather.parameters,
                "strict": False,
            }
        ],
        "temperature": 0.5,
        "max_output_tokens": 99,
    }
    assert second["input"][1:] == [
        {"role": "assistant", "content": "Let me look."},
        *(
            {
                "type": "function_call",
                "call_id": call.id,
                "name": "get_weather",
                "arguments": call.arguments,
            }
            for call in result.messages[1].tool_calls
        ),
        *(
            {"type": "function_call_output", "call_id": i, "output": f"sunny in {city}"}
            for i, city in (("c1", "Oslo"), ("c2", "Rome"))
        ),
    ]


THOUGHT = Answer(
    thinking="Oslo, I think.\n\nSo look.",
    blocks=(SEARCH,),
    text="Wait.",
    phase="commentary",
    calls=CALLS[:1],
)


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_and_hosted_tools_go_back_in_their_order(vendors, stream, silent):
    vendor = vendors("responses")
    seen = []
    thought = Answer(**{**vars(THOUGHT), "silent": silent})
    final = Answer(text="Sunny.", phase="final_answer")
    result = await asked(vendor, thought, final, stream=stream, seen=seen)
    reasoning, search, message, call = vendor.server.received[1].body["input"][1:5]
    assert reasoning == {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [
            {"type": "summary_text", "text": "Oslo, I think."},
            {"type": "summary_text", "text": "So look."},
        ],
        "encrypted_content": reasoning["encrypted_content"],
    }
    assert search == SEARCH
    assert message == {"role": "assistant", "content": "Wait.", "phase": "commentary"}
    assert call["call_id"] == "c1"
    assert result.messages[1].parts == (
        ThinkingPart(text="Oslo, I think.", signature="rs_1", vendor="openai"),
        ThinkingPart(text="So look.", signature="rs_1", vendor="openai"),
        OpaquePart(vendor="openai", data={**reasoning, "summary": []}),
        OpaquePart(vendor="openai", data=SEARCH),
        OpaquePart(vendor="openai", data={"type": "message", "phase": "commentary"}),
        TextPart(text="Wait."),
        ToolCallPart(index=0),
    )
    if stream:
        told = [event.text for event in seen if event.type == "thinking"]
        assert "".join(told) == "Oslo, I think.\n\nSo look."
        assert (len(told) > 4) is not silent
        assert "".join(event.text for event in seen if event.type == "text") == "Wait.Sunny."
    history = from_json(to_json(result.messages))
    again = await asked(vendor, Answer(text="Bye."), messages=history)
    assert again.output == "Bye."
    assert vendor.server.received[2].body["input"][1:5] == [reasoning, search, message, call]


@pytest.mark.parametrize("other", ["openai", "anthropic", "google"])
async def test_another_vendor_goes_on_without_the_thoughts(vendors, other):
    begun = await asked(vendors("responses"), THOUGHT, Answer(text="Sunny."))
    vendor = vendors(other)
    went_on = await asked(vendor, Answer(text="Rain."), messages=begun.messages)
    assert went_on.output == "Rain."
    assert "I think" not in str(vendor.server.received[0].body)
    thinker = vendors("anthropic")
    signed = Answer(thinking="Hm.", text="Snow.")
    theirs = await asked(thinker, signed, messages=begun.messages)
    back = await asked(vendors("responses"), Answer(text="Hail."), messages=theirs.messages)
    assert back.output == "Hail."


async def test_azures_thoughts_are_not_openais():
    thoughts = OpaquePart(vendor="azure", data={"type": "reasoning", "encrypted_content": "x"})
    message = AssistantMessage(content="a", parts=(thoughts, TextPart(text="a")))
    assert to_items([message], ModelError, "openai")[1] == [{"role": "assistant", "content": "a"}]
    assert len(to_items([message], ModelError, "azure")[1]) == 2


def test_thoughts_that_are_open_are_shown_and_not_sent():
    from openai.types.responses import ResponseReasoningItem

    said = Said("openai")
    content = [{"type": "reasoning_text", "text": "Hm."}]
    item = {"id": "r", "type": "reasoning", "summary": [], "content": content}
    said.take(ResponseReasoningItem.model_validate({**item, "encrypted_content": "x"}))
    assert (said.thoughts, said.parts[0].text) == ("Hm.", "Hm.")
    message = AssistantMessage(content="a", parts=(*said.parts, TextPart(text="a")))
    sent, _ = to_items([message], ModelError, "openai")[1]
    assert sent == {"id": "r", "type": "reasoning", "summary": [], "encrypted_content": "x"}


async def test_thoughts_that_cannot_be_read_again_or_led_to_nothing_stay_behind():
    open_ones = OpaquePart(vendor="openai", data={"type": "reasoning", "id": "r", "summary": []})
    sealed = OpaquePart(vendor="openai", data={**open_ones.data, "encrypted_content": "x"})
    message = AssistantMessage(content="a", parts=(open_ones, TextPart(text="a"), sealed))
    assert to_items([message], ModelError, "openai")[1] == [{"role": "assistant", "content": "a"}]


async def test_a_text_that_a_context_has_replaced_is_not_sent(vendors):
    vendor = vendors("responses")
    begun = await asked(vendor, THOUGHT, Answer(text="Sunny."))
    changed = [
        m.model_copy(update={"content": "[out]"}) if m.content == "Wait." else m
        for m in begun.messages
    ]
    await asked(vendor, Answer(text="ok"), messages=changed)
    sent = vendor.server.received[-1].body["input"]
    assert "Wait." not in str(sent)
    assert {"role": "assistant", "content": "[out]", "phase": "commentary"} in sent


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(text="x", finish="max_output_tokens"), "length"),
        (Answer(text="x", finish="content_filter"), "content_filter"),
        (Answer(text="x", finish="max_messages"), "incomplete"),
        (Answer(refusal="I cannot."), "refusal"),
        (Answer(text="x"), "completed"),
    ],
)
async def test_every_word_an_answer_ends_with_has_its_meaning(vendors, stream, answer, reason):
    result = await asked(vendors("responses"), answer, stream=stream, agent=Agent(name="a"))
    assert (result.stop_reason, result.output) == (reason, answer.text or answer.refusal)


@pytest.mark.parametrize("early", ["after text", "before the end marker"])
async def test_a_stream_without_its_end_is_incomplete_and_makes_no_call(vendors, early):
    answer = Answer(text="Once upon", calls=(("c", "broken", {}),), ends_early=early)
    agent = Agent(name="a", tools=[broken])
    result = await asked(vendors("responses"), answer, stream=True, agent=agent)
    assert (result.output, result.stop_reason) == ("Once upon", "incomplete")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cut_answer_that_only_thought_can_be_gone_on_with(vendors, stream):
    vendor = vendors("responses")
    cut = Answer(thinking="Hm.", finish="max_output_tokens")
    begun = await asked(vendor, cut, stream=stream, agent=Agent(name="a"))
    assert (begun.stop_reason, begun.messages[-1].parts[0].text) == ("length", "Hm.")
    went_on = await asked(vendor, Answer(text="ok"), messages=begun.messages)
    assert went_on.output == "ok"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("code", "status", "retryable"),
    [
        ("server_error", 500, True),
        ("rate_limit_exceeded", 429, True),
        ("invalid_prompt", 400, False),
        ("bio_policy", None, False),
    ],
)
async def test_an_answer_that_failed_says_why(vendors, stream, code, status, retryable):
    vendor = vendors("responses")
    with pytest.raises(ModelError, match=rf"openai gave up: not now \({code}\)") as caught:
        await asked(vendor, *[Answer(error=code)] * 4, stream=stream, agent=Agent(name="a"))
    assert (caught.value.status, caught.value.retryable) == (status, retryable)
    # a stream has begun, and is not begun again
    assert len(vendor.pauses) == (3 if retryable and not stream else 0)


async def test_an_answer_that_failed_once_is_asked_for_again(vendors):
    vendor = vendors("responses")
    result = await asked(vendor, Answer(error="server_error"), Answer(text="at last"))
    assert (result.output, vendor.pauses) == ("at last", [0.5])


async def test_an_error_in_a_stream_leads_on_to_the_next_model(vendors):
    first = vendors("responses").will(Answer(error="error"))
    chain = FallbackModel(first, ScriptedModel("Hello."))
    events = run.stream(Agent(name="a"), "hi", provider=chain)
    async for _ in events:
        pass
    assert events.result.output == "Hello."


@pytest.mark.parametrize("stream", [False, True])
async def test_a_busy_server_is_asked_again(vendors, stream):
    vendor = vendors("responses")
    result = await asked(vendor, Refusal(429), Refusal(500), Answer(text="at last"), stream=stream)
    assert (result.output, vendor.pauses) == ("at last", [0.5, 1.0])


async def test_images_documents_and_a_tools_images_are_shown(vendors):
    vendor = vendors("responses")
    files = [
        TextPart(text="What?"),
        CAT,
        ImagePart(url="https://example.org/cat.png"),
        DocumentPart(data=b"# Cats", media_type="text/markdown", name="notes.md"),
        DocumentPart(data=b"%PDF", media_type="application/pdf", name="cats.pdf"),
        DocumentPart(url="https://example.org/page.pdf"),
    ]
    agent = Agent(name="a", tools=[draw, broken])
    calls = (("c1", "draw", {}), ("c2", "broken", {}))
    await asked(vendor, Answer(calls=calls), Answer(text="Nice."), agent=agent, said=files)
    png = base64.b64encode(b"\x89PNG").decode()
    image = {
        "type": "input_image", "image_url": f"data:image/png;base64,{png}", "detail": "auto"
    }  # fmt: skip
    first, *_, drawn, failed = vendor.server.received[1].body["input"]
    assert first["content"] == [
        {"type": "input_text", "text": "What?"},
        image,
        {"type": "input_image", "image_url": "https://example.org/cat.png", "detail": "auto"},
        {"type": "input_text", "text": "notes.md:\n# Cats"},
        {
            "type": "input_file",
            "filename": "cats.pdf",
            "file_data": f"data:application/pdf;base64,{base64.b64encode(b'%PDF').decode()}",
        },
        {"type": "input_file", "file_url": "https://example.org/page.pdf"},
    ]
    assert drawn == {"type": "function_call_output", "call_id": "c1", "output": [image]}
    assert failed["output"] == "Error: Tool 'broken' failed: no such city"


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"reasoning_effort": "high"}, {"reasoning": {"effort": "high", "summary": "auto"}}),
        ({"reasoning_effort": "none"}, {"reasoning": {"effort": "none"}}),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        (
            {"tool_choice": "get_weather", "parallel_tool_calls": False},
            {
                "tool_choice": {"type": "function", "name": "get_weather"},
                "parallel_tool_calls": False,
            },
        ),
    ],
)
async def test_settings_have_the_apis_words(vendors, given, sent):
    vendor = vendors("responses")
    agent = Agent(name="a", tools=[get_weather])
    await asked(vendor, Answer(text="ok"), agent=agent, settings=ModelSettings(**given))
    body = vendor.server.received[0].body
    assert {
        n: body[n] for n in body.keys() - {"model", "input", "store", "include", "tools"}
    } == sent


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"seed": 7}, "'seed' is not possible: the Responses API knows none.*openai-chat:NAME"),
        ({"stop": "END"}, "'stop' is not possible"),
        ({"thinking_budget": 2000}, "'thinking_budget' is not possible: .*reasoning_effort"),
        ({"prompt_caching": False}, "'prompt_caching' is False: the API caches by itself"),
    ],
)
async def test_what_the_api_cannot_do_names_setting_and_model(vendors, settings, told):
    vendor = vendors("responses")
    with pytest.raises(ModelError, match=r"^\[test-model\] the setting " + told):
        await asked(vendor, settings=ModelSettings(**settings))
    assert vendor.server.received == []


@pytest.mark.parametrize("stream", [False, True])
async def test_a_typed_answer_is_held_to_its_schema(vendors, stream):
    vendor = vendors("responses")
    agent = Agent(name="a", output_type=City)
    result = await asked(vendor, Answer(text='{"name": "Oslo"}'), stream=stream, agent=agent)
    assert result.output == City(name="Oslo")
    wanted = vendor.server.received[0].body["text"]["format"]
    assert wanted == {"type": "json_schema", "name": "City", "schema": City.model_json_schema()}
    with pytest.raises(OutputValidationError, match="the model refused"):
        await asked(vendor, Answer(refusal="No."), stream=stream, agent=agent)


def test_openai_itself_is_asked_in_its_strict_mode(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    provider = get_provider("openai:gpt-5", api_key="k")
    request = provider._request(HI, None, None, None, City.model_json_schema())
    assert request["text"]["format"]["strict"] is True
    assert request["text"]["format"]["schema"]["additionalProperties"] is False


def _names(literal):
    """Return the names in a type, unions and literals alike."""
    return [
        name
        for one in get_args(literal)
        for name in ([one] if isinstance(one, str) else _names(one))
    ]


def test_models_that_think_are_asked_by_responses_and_others_by_chat():
    from openai.types import ChatModel, ResponsesModel

    only_there = set(_names(ResponsesModel)) - set(_names(ChatModel))
    assert {name for name in only_there if api_of(name) == "chat"} == set()
    chat = {name for name in _names(ChatModel) if api_of(name) == "chat"}
    assert chat == {
        name
        for name in _names(ChatModel)
        if name.startswith(("gpt-3", "gpt-4", "gpt-audio", "chatgpt", "o1-mini", "o1-preview"))
        or "-chat" in name
    }
    for name in ("llama-3", "gpt-35-turbo", "gpt-oss-120b", "gpt-50x", "ft:gpt-4o:acme", "orca"):
        assert api_of(name) == "chat"
    assert api_of("ft:o4-mini:acme") == "responses"


@pytest.mark.parametrize(
    ("model", "url", "api"),
    [
        ("openai:gpt-4o", None, Chat),
        ("openai:gpt-5", None, Responses),
        ("o3", None, Responses),
        ("openai:gpt-5", "http://localhost:1/v1", Chat),
        ("openai-chat:gpt-5", None, Chat),
        ("openai-responses:gpt-4o", None, Responses),
        ("openai-responses:gpt-5", "http://localhost:1/v1", Responses),
        ("groq:gpt-5", None, Chat),
    ],
)
def test_a_model_string_may_say_which_api(monkeypatch, model, url, api):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    provider = get_provider(model, api_key="k", base_url=url)
    assert isinstance(provider, OpenAIProvider)
    assert type(provider._api) is api
    vendor = "groq" if model.startswith("groq") else "openai"
    assert provider._client.config.provider == vendor
    asks = "include" in provider._request(HI, None, None, None, None)
    assert asks == (api is Responses and "gpt-4o" not in model)


STRANGE = [
    None,
    7,
    "text",
    [],
    {"type": "message"},
    {"type": "message", "content": 7},
    {"type": "message", "content": [None, {"type": "output_text", "text": "half \ud800"}]},
    {"type": "message", "phase": ["x"], "content": [{"type": "output_text"}]},
    {"type": "reasoning"},
    {"type": "reasoning", "summary": [{"text": 1}], "encrypted_content": "\ud800"},
    {"type": "function_call"},
    {"type": "function_call", "call_id": 7, "name": None, "arguments": "{\ud800"},
    {"type": "new_tool_call", "number": float("nan"), "deep": [[[{"a": "\udfff"}]]]},
    {"type": 7, "id": "x"},
]


def _deep(levels):
    found = {"type": "new_tool_call"}
    for _ in range(levels):
        found = {"type": "new_tool_call", "in": [found]}
    return found


@pytest.mark.parametrize("item", [*STRANGE, _deep(400)], ids=range(len(STRANGE) + 1))
@pytest.mark.parametrize("index", [0, -1, "x", None, 2**70])
def test_items_of_any_form_become_parts_that_any_history_keeps(item, index):
    """The SDK builds its models without looking at what is in them."""
    from openai._models import construct_type
    from openai.types.responses import ResponseStreamEvent

    pieces = Pieces("openai")
    text = ""
    for kind in ("output_item.added", "output_text.delta", "output_item.done", "completed"):
        told = {"type": f"response.{kind}", "item": item, "delta": item, "response": item}
        event = construct_type(type_=ResponseStreamEvent, value={**told, "output_index": index})
        chunk = pieces.add(event)
        text += chunk.delta if chunk else ""
    said = pieces.said
    message = AssistantMessage(content=said.text, parts=said.parts, tool_calls=said.calls)
    results = [ToolResult(tool_call_id=call.id, tool_name=call.name) for call in said.calls]
    assert from_json(to_json([message, *results])) == [message, *results]
    for sent in to_items([message], ModelError, "openai")[1]:
        str(sent).encode()


def test_a_failure_of_any_form_has_a_text_of_its_own():
    client = get_provider("openai-responses:gpt-5", api_key="k")._api
    assert "gave up: no reason (no code)" in str(client._failure(None))
    assert "no reason" in str(client._failure(SimpleNamespace(code=7, message=["x"])))
    assert len(str(client._failure(SimpleNamespace(code="c" * 9999, message="m" * 9999)))) < 4200


def test_nothing_is_read_before_a_model_needs_it():
    program = (
        "import sys\n"
        "from orbiter.models import get_provider\n"
        "get_provider('openai:gpt-4o', api_key='k')\n"
        "late = ('openai_responses', 'google', 'azure', 'bedrock', 'vertex')\n"
        "read = [m for m in sys.modules if m.startswith('orbiter.models')]\n"
        "print([m for m in read if any(name in m for name in late)])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_a_configuration_may_choose_the_api_itself():
    config = ModelConfig(model_name="gpt-4o", api_key="k")
    assert type(OpenAIProvider(config, api="responses")._api) is Responses
