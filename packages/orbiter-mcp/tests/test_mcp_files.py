"""Images and documents in the results of tools, from servers and to clients."""

import base64

import pytest

from orbiter import Agent, run, tool
from orbiter.mcp import Attachment, MCPClient, MCPServer, mcp_tools
from orbiter.mcp._internal.files import parts_of
from orbiter.models import ScriptedModel, call
from orbiter.parts import DocumentPart, ImagePart, TextPart

PNG = b"\x89PNG\r\n\x1a\n" + b"dot"
PDF = b"%PDF-1.7 page"


@tool
async def draw() -> list[TextPart | ImagePart]:
    """Draw."""
    return [TextPart(text="a dot"), ImagePart(data=PNG, media_type="image/png")]


@tool
async def write() -> DocumentPart:
    """Write."""
    return DocumentPart(data=PDF, media_type="application/pdf", name="page.pdf")


@tool
async def link() -> list[TextPart | ImagePart]:
    """Link to an image."""
    return [TextPart(text="there:"), ImagePart(url="https://example.com/dot.png")]


async def results(one, *calls, **options):
    model = ScriptedModel(*calls, "done")
    async with mcp_tools(MCPServer(one), **options) as tools:
        result = await run(Agent(name="a", tools=tools), "go", provider=model)
    return [message for message in result.messages if message.role == "tool"]


async def test_an_image_of_a_tool_reaches_the_model():
    [told] = await results([draw], call("draw"))
    assert told.content == "a dot\n[image image/png, 12 bytes]"
    assert told.parts == (ImagePart(data=PNG, media_type="image/png"),)


async def test_a_document_of_a_tool_reaches_the_model_with_its_name():
    [told] = await results([write], call("write"))
    assert told.parts == (DocumentPart(data=PDF, media_type="application/pdf", name="page.pdf"),)


async def test_files_can_be_kept_from_models_that_take_none():
    [told] = await results([draw], call("draw"), files=False)
    assert (told.content, told.parts) == ("a dot\n[image image/png, 12 bytes]", ())


async def test_what_has_an_address_is_told_as_that():
    [told] = await results([link], call("link"))
    assert (told.content, told.parts) == ("there:\nhttps://example.com/dot.png", ())


async def test_a_client_of_the_sdk_gets_an_image_alone_without_words():
    @tool
    async def dot() -> ImagePart:
        """Draw."""
        return ImagePart(data=PNG, media_type="image/png")

    async with MCPClient(MCPServer(dot)) as client:
        result = await client.call_tool("dot")
    assert [(a.kind, a.mime_type) for a in result.attachments] == [("image", "image/png")]
    assert base64.b64decode(result.attachments[0].data) == PNG


def image(data: bytes, mime_type: str = "image/png") -> Attachment:
    return Attachment(kind="image", mime_type=mime_type, data=base64.b64encode(data).decode())


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0 jpeg", "image/jpeg"),
        (b"GIF89a gif", "image/gif"),
        (b"RIFF0000WEBP webp", "image/webp"),
        (PDF, "application/pdf"),
    ],
)
def test_what_a_file_is_its_first_bytes_say(data, kind):
    [part] = parts_of([image(data, "image/made-up")])
    assert (part.data, part.media_type) == (data, kind)


@pytest.mark.parametrize(
    "attachment",
    [
        image(b"<svg>", "image/svg+xml"),
        image(b"RIFF0000WAVE", "audio/wav"),
        Attachment(kind="image", mime_type="image/png", data="no base64!"),
        Attachment(kind="link", uri="https://example.com/dot.png"),
        image(PNG + bytes(5 << 20)),
    ],
    ids=["an svg", "a sound", "no base64", "a link", "6 MB"],
)
def test_what_no_model_takes_is_left_out(attachment):
    assert parts_of([attachment]) == []


def test_many_files_are_bounded_together():
    assert len(parts_of([image(PNG)] * 50)) == 20
    assert len(parts_of([image(PNG + bytes(2 << 20))] * 5)) == 2


def test_the_name_of_a_document_is_bounded():
    data = base64.b64encode(PDF).decode()
    [part] = parts_of([Attachment(kind="resource", data=data, uri="file:///" + "n" * 100_000)])
    assert part.name == "n" * 200
