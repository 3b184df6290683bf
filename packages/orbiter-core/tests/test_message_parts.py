"""Messages that are more than text: what users and tools give, what models think, as JSON too."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from orbiter import Agent, Swarm, run, tool
from orbiter.history import from_json, to_json
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelResponse,
    ScriptedModel,
    call,
)
from orbiter.parts import (
    DocumentPart,
    ImagePart,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from orbiter.types import (
    AssistantMessage,
    Message,
    OrbiterError,
    RunContext,
    ToolCall,
    ToolResult,
    UserMessage,
)

PNG = b"\x89PNG\r\n\x1a\n\xff"
CAT = ImagePart(data=PNG, media_type="image/png")
QUESTION = [TextPart(text="What is this?"), CAT, TextPart(text="Be brief.")]
THOUGHT = ThinkingPart(text="A cat, I think.", signature="s1", vendor="anthropic")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "give url= or data=, one of the two"),
        ({"url": "https://x/y.png", "data": PNG, "media_type": "image/png"}, "one of the two"),
        ({"data": PNG}, "bytes need a media_type="),
        ({"data": "not base64!", "media_type": "image/png"}, "Base64"),
        ({"data": PNG, "media_type": "png"}, "media_type"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "https://x/y z"}, "url"),
        ({"url": "https://x", "alt": "x"}, "Extra inputs"),
    ],
)
def test_a_file_has_one_source_of_a_known_kind(given, told):
    with pytest.raises(ValidationError, match=told):
        ImagePart(**given)


def test_bytes_survive_json_read_in_either_way():
    text = CAT.model_dump_json()
    assert ImagePart.model_validate_json(text) == CAT
    assert ImagePart.model_validate(json.loads(text)) == CAT
    assert ImagePart.model_validate(CAT.model_dump()) == CAT
    assert "PNG" not in repr(CAT)


def test_messages_without_parts_are_written_as_before():
    assert UserMessage(content="hi").model_dump() == {"role": "user", "content": "hi"}
    assert AssistantMessage(content="x").model_dump(mode="json") == {
        "role": "assistant", "content": "x", "tool_calls": []
    }  # fmt: skip
    assert "parts" not in ToolResult(tool_call_id="1", tool_name="a").model_dump()
    assert repr(UserMessage(content="hi")) == "UserMessage(role='user', content='hi')"
    assert "parts" in repr(UserMessage(content="", parts=[CAT]))


@pytest.mark.parametrize("way", ["run", "stream"])
async def test_a_user_says_parts_and_who_reads_text_reads_text(way):
    seen: list[str] = []

    def instructions(context: RunContext) -> str:
        seen.append(context.input)
        return ""

    model = ScriptedModel("A cat.")
    agent = Agent(name="a", instructions=instructions)
    if way == "run":
        result = await run(agent, QUESTION, provider=model)
    else:
        stream = run.stream(agent, QUESTION, provider=model)
        async for _ in stream:
            pass
        result = stream.result
    text = "What is this?\nBe brief."
    asked = UserMessage(content=text, parts=QUESTION)
    assert model.requests[0].messages == result.messages[:1] == [asked]
    assert type(result.messages[0].content) is str
    assert seen == [text]


def test_run_sync_takes_parts():
    model = ScriptedModel("A cat.")
    run.sync(Agent(name="a"), [CAT], provider=model)
    assert model.requests[0].messages == [UserMessage(content="", parts=[CAT])]


@pytest.mark.parametrize("wrong", [["text"], [CAT, 5], 5, None, [THOUGHT]])
def test_an_input_of_something_else_is_refused(wrong):
    with pytest.raises(OrbiterError, match=r"run\(agent, input\) got .*: give "):
        run.stream(Agent(name="a"), wrong)


async def test_the_first_agents_of_a_flow_see_the_image_the_later_ones_what_was_made_of_it():
    swarm = Swarm(agents=[Agent(name=n) for n in "abc"], flow="(a | b) >> c")
    model = ScriptedModel("x", "y", "z")
    await run(swarm, QUESTION, provider=model)
    assert [bool(r.messages[-1].parts) for r in model.requests] == [True, True, False]


async def test_who_takes_over_sees_the_image_too():
    triage = Agent(name="triage", handoffs=[Agent(name="vet")])
    model = ScriptedModel(call("transfer_to_vet"), "It is ill.")
    await run(triage, QUESTION, provider=model)
    assert model.requests[1].messages[0].parts == tuple(QUESTION)


async def test_a_tool_gives_images_besides_its_text():
    @tool
    async def draw(what: str) -> object:
        """Draw something."""
        return [f"Here is a {what}:", CAT, {"size": 3}]

    @tool
    async def scan() -> DocumentPart:
        """Scan a page."""
        return DocumentPart(url="https://x/page.pdf")

    model = ScriptedModel([call("draw", what="cat"), call("scan")], "Nice.")
    result = await run(Agent(name="a", tools=[draw, scan]), "Draw", provider=model)
    drawn, scanned = result.messages[2:4]
    assert (drawn.content, drawn.parts) == ('Here is a cat:\n{"size":3}', (CAT,))
    assert (scanned.content, len(scanned.parts), scanned.error) == ("", 1, None)
    assert model.requests[1].messages[2:4] == [drawn, scanned]


async def test_a_stream_tells_what_a_tool_gives_besides_its_text():
    @tool
    def picture(found: bool) -> str | list[str | ImagePart]:
        """Take a picture."""
        return ["a cat", CAT] if found else "nothing"

    model = ScriptedModel(call("picture", found=True), call("picture", found=False), "So.")
    agent = Agent(name="a", tools=[picture])
    events = [e async for e in run.stream(agent, "?", provider=model) if e.type == "tool_result"]
    assert [(event.content, event.parts) for event in events] == [
        ("a cat", (CAT,)),
        ("nothing", ()),
    ]
    with_image, without = (json.loads(event.model_dump_json()) for event in events)
    assert with_image["parts"][0]["media_type"] == "image/png"
    assert "parts" not in without


async def test_a_list_without_parts_is_json_as_before():
    @tool
    async def numbers() -> list[int]:
        """Give numbers."""
        return [1, 2]

    model = ScriptedModel(call("numbers"), "done")
    result = await run(Agent(name="a", tools=[numbers]), "go", provider=model)
    assert (result.messages[2].content, result.messages[2].parts) == ("[1,2]", ())


def thoughtful() -> ModelResponse:
    return ModelResponse(
        content="Let me look.",
        tool_calls=[ToolCall(id="", name="look"), ToolCall(id="", name="look")],
        reasoning_content=THOUGHT.text,
        parts=(
            THOUGHT, TextPart(text="Let me look."), ToolCallPart(index=0), THOUGHT,
            ToolCallPart(index=1),
        ),
    )  # fmt: skip


@tool
async def look() -> str:
    """Look."""
    return "a tail"


@pytest.mark.parametrize("streamed", [False, True])
async def test_thoughts_stay_in_their_place_and_out_of_answers(streamed):
    final = ModelResponse(content="A cat.", parts=(THOUGHT, TextPart(text="A cat.")))
    model = ScriptedModel(thoughtful(), final)
    agent = Agent(name="a", tools=[look])
    if streamed:
        stream = run.stream(agent, "hi", provider=model)
        events = [event async for event in stream]
        result = stream.result
        assert [e.text for e in events if e.type == "thinking"] == [THOUGHT.text] * 3
        assert {e.agent_name for e in events if e.type == "thinking"} == {"a"}
        assert "think" not in "".join(e.text for e in events if e.type == "text")
    else:
        result = await run(agent, "hi", provider=model)
    assert result.output == "A cat."
    said = result.messages[1]
    assert said.parts == thoughtful().parts
    assert [c.id for c in said.tool_calls] == ["call_1_0", "call_1_1"]
    assert model.requests[1].messages[1] == said


async def test_a_provider_that_cannot_stream_tells_its_thoughts_at_once():
    class Whole:
        async def complete(self, messages, **options):
            return ModelResponse(content="A cat.", parts=(THOUGHT, TextPart(text="A cat.")))

    events = [e async for e in run.stream(Agent(name="a"), "hi", provider=Whole())]
    assert [e.text for e in events if e.type in ("thinking", "text")] == [THOUGHT.text, "A cat."]


CONVERSATION: list[Message] = [
    UserMessage(content="What is this?", parts=QUESTION),
    AssistantMessage(
        content="Let me look.",
        tool_calls=[ToolCall(id="1", name="look")],
        parts=(
            THOUGHT,
            OpaquePart(vendor="anthropic", data={"type": "redacted_thinking", "data": "xyz"}),
            TextPart(text="Let me look."),
            ToolCallPart(index=0),
        ),
    ),
    ToolResult(tool_call_id="1", tool_name="look", content="a tail", parts=(CAT,)),
    AssistantMessage(content="A cat."),
]


def test_a_history_is_json_with_a_version():
    text = to_json(CONVERSATION)
    assert json.loads(text)["version"] == 1
    assert from_json(text) == CONVERSATION
    assert from_json(text.encode()) == CONVERSATION


def test_any_store_of_messages_keeps_the_parts():
    messages = TypeAdapter(list[Message])
    stored = json.loads(messages.dump_json(CONVERSATION))
    assert messages.validate_python(stored) == CONVERSATION


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nonsense", "the text: Invalid JSON"),
        ("[]", "the text: Input should be an object"),
        ('{"version": 2, "messages": []}', "version: Input should be 1"),
        ('{"version": 1, "messages": [{"role": "boss"}]}', "messages.0"),
        ('{"version": 1, "messages": [], "more": 1}', "more: Extra inputs"),
    ],
)
def test_what_is_no_history_is_refused_with_the_place(text, told):
    with pytest.raises(OrbiterError, match="this is no history of version 1: ") as caught:
        from_json(text)
    assert told in str(caught.value)
