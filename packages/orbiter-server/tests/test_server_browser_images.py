"""Images on the web page, in a real Chromium: chosen, sent, and shown in the conversation."""

import os
import struct
import zlib

import pytest

from orbiter import Agent, tool
from orbiter.models import ScriptedModel, call
from orbiter.parts import DocumentPart, ImagePart
from orbiter.types import UserMessage

from .test_server_browser import ANSWER, FINISHED, TOKEN

pytestmark = pytest.mark.integration
FILES = ".composer input[type=file]"
WAITING = "document.querySelectorAll('.talk > .images li').length"
# how wide the images of the conversation are once they are there
SHOWN = "[...document.querySelectorAll('.said.user img')].map(e => e.naturalWidth).join()"


def png(width, height, pixels):
    def chunk(kind, data):
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    rows = b"".join(b"\0" + pixels(width * 3) for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def images_of(model, request):
    users = [m for m in model.requests[request].messages if isinstance(m, UserMessage)]
    return [part for m in users for part in m.parts if part.type == "image"]


async def test_an_image_is_sent_and_shown_and_still_there_after_a_reload(start, browser, tmp_path):
    dot, line = tmp_path / "dot.png", tmp_path / "line.png"
    dot.write_bytes(png(4, 4, bytes))
    line.write_bytes(png(9, 1, bytes))
    model = ScriptedModel("A dot.", "As I said.")
    server = await start(model=model, token=TOKEN)
    page = await browser.page(server.url)
    await page.until("document.activeElement.id === 'token'")
    await page.type(TOKEN)
    await page.press("Enter")
    await page.until("document.querySelector('.composer')")
    await page.choose(FILES, dot, line)
    await page.until(f"{WAITING} === 2")
    await page.click("[aria-label='Remove line.png']")
    await page.until(f"{WAITING} === 1")
    await page.click(".composer textarea")
    await page.type("What is this?")
    await page.press("Enter")
    await page.until(FINISHED)
    await page.until(f"{SHOWN} === '4'")
    assert await page.do(WAITING) == 0
    assert [image.data for image in images_of(model, 0)] == [dot.read_bytes()]
    await page.reload()
    await page.until(f"{SHOWN} === '4'")
    # an image alone is something to say
    await page.choose(FILES, line)
    await page.until(f"{WAITING} === 1")
    await page.click(".composer .primary")
    await page.until(f"{ANSWER} === 'A dot.|As I said.'")
    await page.until(f"{SHOWN} === '4,9'")
    assert [i.data for i in images_of(model, 1)] == [dot.read_bytes(), line.read_bytes()]
    nameless = [name for role, name in await page.roles() if role == "image" and not name]
    assert nameless == []
    assert page.complaints == []


async def test_an_image_that_a_tool_gives_is_shown_with_its_result(start, browser):
    image = ImagePart(data=png(7, 2, bytes), media_type="image/png")

    @tool
    def draw() -> list[str | ImagePart | DocumentPart]:
        """Draw."""
        url = "https://example.org/plan.pdf"
        return ["drawn", image, DocumentPart(url=url, media_type="application/pdf")]

    model = ScriptedModel(call("draw"), "There.")
    server = await start({"painter": Agent(name="painter", tools=[draw])}, model)
    page = await browser.page(server.url)
    await page.click(".composer textarea")
    await page.type("Draw a line")
    await page.press("Enter")
    await page.until(FINISHED)
    await page.click(".call summary")
    await page.until("document.querySelector('.call img').naturalWidth === 7")
    shown = await page.do("document.querySelector('.call').innerText")
    assert "drawn" in shown
    assert "https://example.org/plan.pdf" in shown
    assert page.complaints == []


async def test_a_large_image_is_made_smaller_and_what_is_none_is_told(start, browser, tmp_path):
    large, text = tmp_path / "noise.png", tmp_path / "notes.txt"
    large.write_bytes(png(2000, 500, os.urandom))
    text.write_text("words")
    model = ScriptedModel("Noise.")
    server = await start(model=model)
    page = await browser.page(server.url)
    await page.choose(FILES, text)
    status = "document.querySelector('.status').textContent"
    await page.until(f"{status}.startsWith('notes.txt cannot be shown')")
    await page.choose(FILES, large)
    await page.until(f"{WAITING} === 1")
    await page.click(".composer .primary")
    await page.until(FINISHED)
    await page.until(f"{SHOWN} === '1568'")
    (image,) = images_of(model, 0)
    assert image.media_type == "image/webp"
    assert len(image.data) < len(large.read_bytes()) / 2
    assert page.complaints == []
