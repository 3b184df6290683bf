"""Images, documents and thoughts as both vendors write them."""

import base64

import pytest
from support.model_wire import Answer

from orbiter import Agent, run, tool
from orbiter.config import ModelSettings
from orbiter.history import from_json, to_json
from orbiter.models import ModelError
from orbiter.models.openai import OpenAIProvider
from orbiter.parts import DocumentPart, ImagePart, OpaquePart, TextPart, ThinkingPart, ToolCallPart
from orbiter.types import AssistantMessage, ToolCall, ToolResult, UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

PNG = base64.b64encode(b"\x89PNG").decode()
PDF = base64.b64encode(b"%PDF").decode()
CAT = ImagePart(data=b"\x89PNG", media_type="image/png")
LINK = ImagePart(url="https://example.org/cat.png")
PAGE = DocumentPart(data=b"%PDF", media_type="application/pdf", name="page.pdf")
NOTES = DocumentPart(data=b"# Cats", media_type="text/markdown", name="notes.md")


@tool
async def draw() -> ImagePart:
    """Draw a cat."""
    return CAT


@tool
async def look(at: str) -> str:
    """Look."""
    return f"a tail at {at}"


async def asked(vendor, parts):
    """Say parts and return the content that the vendor received."""
    await run(Agent(name="a"), parts, provider=vendor.will(Answer(text="ok")))
    return vendor.server.received[-1].body["messages"][0]["content"]


async def test_openai_is_shown_images_and_documents(vendors):
    parts = [TextPart(text="What?"), CAT, LINK, PAGE, NOTES]
    assert await asked(vendors("openai"), parts) == [
        {"type": "text", "text": "What?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        {
            "type": "file",
            "file": {"filename": "page.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        },
        {"type": "text", "text": "notes.md:\n# Cats"},
    ]


async def test_anthropic_is_shown_images_and_documents(vendors):
    far = DocumentPart(url="https://example.org/page.pdf")
    parts = [TextPart(text="What?"), CAT, LINK, PAGE, NOTES, far, TextPart(text="")]
    assert await asked(vendors("anthropic"), parts) == [
        {"type": "text", "text": "What?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
            "title": "page.pdf",
        },
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "# Cats"},
            "title": "notes.md",
        },
        {"type": "document", "source": {"type": "url", "url": "https://example.org/page.pdf"}},
    ]


async def test_a_text_with_an_image_beside_it_is_sent_whole(vendor):
    message = UserMessage(content="What is this?", parts=[LINK])
    await run(Agent(name="a"), "", provider=vendor.will(Answer(text="ok")), messages=[message])
    content = vendor.server.received[-1].body["messages"][0]["content"]
    assert content[0] == {"type": "text", "text": "What is this?"}
    assert len(content) == 2


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (ImagePart(data=b"x", media_type="image/tiff"), "takes no image of type 'image/tiff'"),
        (DocumentPart(data=b"x", media_type="application/zip"), "takes no document of type"),
        (DocumentPart(data=b"\xff", media_type="text/plain", name="n"), "the document n is no UTF"),
    ],
)
async def test_what_no_vendor_takes_is_an_error_that_names_the_model(vendor, part, told):
    with pytest.raises(ModelError, match=rf"^\[test-model\] .*{told}"):
        await asked(vendor, [part])
    assert vendor.server.received == []


async def test_openai_takes_no_document_by_its_url(vendors):
    with pytest.raises(ModelError, match=r"by its URL \(https://x/y.pdf\): give its bytes"):
        await asked(vendors("openai"), [DocumentPart(url="https://x/y.pdf")])


async def drawn(vendor):
    provider = vendor.will(
        Answer(calls=(("c1", "draw", {}), ("c2", "look", {"at": "it"}))), Answer(text="Nice.")
    )
    await run(Agent(name="a", tools=[draw, look]), "Draw", provider=provider)
    return vendor.server.received[1].body["messages"]


async def test_anthropic_sees_a_tools_image_in_its_result(vendors):
    messages = await drawn(vendors("anthropic"))
    assert messages[2]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
        ],
    }


async def test_openai_sees_a_tools_image_behind_the_results(vendors):
    messages = await drawn(vendors("openai"))
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[2]["content"] == ""
    assert messages[4]["content"] == [
        {"type": "text", "text": "Of the result of draw (c1):"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]


async def thought(vendor, streamed, *, settings=None, **answer):
    """Run with a tool and thoughts; returns the result, the events and what was sent second."""
    provider = vendor.will(
        Answer(
            text="Let me look.",
            thinking="A cat, I think.",
            calls=(("c1", "look", {"at": "it"}),),
            **answer,
        ),
        Answer(text="A cat.", thinking="Surely."),
    )
    agent = Agent(name="a", tools=[look], settings=settings)
    events = []
    if streamed:
        stream = run.stream(agent, "What?", provider=provider)
        events = [event async for event in stream]
        result = stream.result
    else:
        result = await run(agent, "What?", provider=provider)
    return result, events, vendor.server.received[1].body["messages"]


REDACTED = {"type": "redacted_thinking", "data": "xyz"}
HOSTED = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "cats"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "s1",
    "content": [
        {
            "type": "web_search_result",
            "encrypted_content": "e",
            "title": "Cats",
            "url": "https://example.org/",
        }
    ],
}


@pytest.mark.parametrize("streamed", [False, True])
async def test_anthropic_gets_its_thoughts_back_signed_and_in_order(vendors, streamed):
    vendor = vendors("anthropic")
    result, events, sent = await thought(
        vendor,
        streamed,
        settings=ModelSettings(thinking_budget=2000),
        blocks=(REDACTED, HOSTED, FOUND),
    )
    signature = Answer(thinking="A cat, I think.").signature
    assert result.output == "A cat."
    assert result.messages[1].parts == (
        ThinkingPart(text="A cat, I think.", signature=signature, vendor="anthropic"),
        OpaquePart(vendor="anthropic", data=REDACTED),
        OpaquePart(vendor="anthropic", data=HOSTED),
        OpaquePart(vendor="anthropic", data=FOUND),
        TextPart(text="Let me look."),
        ToolCallPart(index=0),
    )
    assert sent[1]["content"] == [
        {"type": "thinking", "thinking": "A cat, I think.", "signature": signature},
        REDACTED,
        HOSTED,
        FOUND,
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}},
    ]
    if streamed:
        thoughts = [event.text for event in events if event.type == "thinking"]
        assert "".join(thoughts) == "A cat, I think.Surely."
        assert len(thoughts) > 2
        said = "".join(event.text for event in events if event.type == "text")
        assert said == "Let me look.A cat."


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_a_compatible_server_gets_the_thoughts_of_the_turn_by_its_own_name(
    vendors, streamed, field
):
    vendor = vendors("openai")
    result, events, sent = await thought(vendor, streamed, thinking_field=field)
    assert (result.output, sent[1][field]) == ("A cat.", "A cat, I think.")
    assert result.messages[1].parts[0] == ThinkingPart(
        text="A cat, I think.", vendor=f"openai:{field}"
    )
    if streamed:
        assert "".join(e.text for e in events if e.type == "thinking") == "A cat, I think.Surely."
    await run(
        Agent(name="a"), "And now?", provider=vendor.will(Answer(text="x")),
        messages=result.messages,
    )  # fmt: skip
    later = vendor.server.received[-1].body["messages"]
    assert not any(field in message for message in later), "an older turn's thoughts are left out"


def test_openai_itself_is_sent_no_thoughts(monkeypatch):
    from orbiter.config import ModelConfig

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    provider = OpenAIProvider(ModelConfig(api_key="k"))
    said = AssistantMessage(
        content="x", parts=(ThinkingPart(text="hm", vendor="openai:reasoning"), TextPart(text="x"))
    )
    request = provider._request([UserMessage(content="hi"), said], None, None, None, None)
    assert request["messages"][1] == {"role": "assistant", "content": "x"}


@pytest.mark.parametrize(("first", "second"), [("openai", "anthropic"), ("anthropic", "openai")])
async def test_a_history_is_gone_on_with_by_the_other_vendor(vendors, first, second):
    begun, *_ = await thought(vendors(first), False)
    history = from_json(to_json(begun.messages))
    assert history == begun.messages
    vendor = vendors(second)
    provider = vendor.will(Answer(text="Bye."))
    result = await run(Agent(name="a"), [CAT], provider=provider, messages=history)
    assert result.output == "Bye."
    assert "I think" not in str(vendor.server.received[-1].body)


async def test_a_text_that_a_context_has_replaced_is_not_sent(vendor):
    parts = (TextPart(text="My key is s3cret."), LINK, TextPart(text="What is this?"))
    asked = UserMessage(content="My key is s3cret.\nWhat is this?", parts=parts)
    thought = ThinkingPart(
        text="Hm.", signature=Answer(thinking="Hm.").signature, vendor=vendor.name
    )
    said = AssistantMessage(
        content="You said s3cret.", parts=(thought, TextPart(text="You said s3cret."))
    )
    history = [
        asked.model_copy(update={"content": "[taken out]"}),
        said.model_copy(update={"content": "[taken out, too]"}),
    ]
    await run(Agent(name="a"), "Bye.", provider=vendor.will(Answer(text="ok")), messages=history)
    body = str(vendor.server.received[0].body["messages"])
    assert "s3cret" not in body
    assert "[taken out]" in body
    assert "[taken out, too]" in body
    assert "cat.png" in body


@pytest.mark.parametrize("thought", [None, ThinkingPart(text="Hm.", vendor="openai")])
async def test_claude_does_not_think_behind_calls_whose_thoughts_are_lost(vendors, thought):
    vendor, agent = vendors("anthropic"), Agent(name="a", tools=[look])
    call = ToolCall(id="c1", name="look", arguments='{"at": "it"}')
    parts = () if thought is None else (thought, ToolCallPart(index=0))
    history = [
        UserMessage(content="Look."),
        AssistantMessage(tool_calls=[call], parts=parts),
        ToolResult(tool_call_id="c1", tool_name="look", content="a tail"),
    ]
    settings = ModelSettings(thinking_budget=2000)
    model = vendor.will(Answer(calls=(("c2", "look", {"at": "it"}),)), Answer(text="A cat."))
    last = await run(agent, "", messages=history, provider=model, settings=settings)
    assert last.output == "A cat."
    assert ["thinking" in received.body for received in vendor.server.received] == [False, False]
    model = vendor.will(Answer(thinking="So.", text="Yes."))
    await run(agent, "Sure?", messages=last.messages, provider=model, settings=settings)
    assert vendor.server.received[-1].body["thinking"]["type"] == "enabled"
