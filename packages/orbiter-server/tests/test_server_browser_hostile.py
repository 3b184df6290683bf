"""What an agent says to its viewers' browser: texts that take long to read, endless answers."""

import pytest
from support.redis_server import redis_server

from orbiter_contracts.transcript import ErrorEvent, TextEvent, ToolCallEvent, ToolResultEvent

from .test_server_browser_work import LOG, page, write
from .test_server_transcripts import writer

__all__ = ["page", "redis_server", "writer"]
pytestmark = pytest.mark.integration
PIECE = 1700
"""Of a text, about as a worker writes it."""


@pytest.mark.parametrize("said", ["[", "`", "[a](http://"])
async def test_a_text_that_takes_long_to_read_does_not_hold_up_the_page(page, writer, said):
    """A mark that opens and is never closed, all that Redis keeps of a transcript."""
    for first in range(0, 140, 10):
        texts = ("x" + said * (PIECE // len(said) + n) for n in range(first, first + 10))
        await write(writer, *(writer.event(TextEvent, text=text) for text in texts))
    await write(writer, writer.event(ErrorEvent, error="the end of it"))
    await page.click(".spacer .row")
    await page.until(f"{LOG}.includes('the end of it')")
    assert page.complaints == []


async def test_answers_without_end_and_of_one_name_are_few_on_the_page(page, writer):
    await write(writer, writer.event(ToolCallEvent, tool_name="Bash", tool_call_id="c1"))
    for _ in range(10):
        await write(
            writer,
            *(writer.event(ToolResultEvent, tool_call_id="c1", content="x") for _ in range(100)),
        )
    await write(writer, writer.event(ErrorEvent, error="the end of it"))
    await page.click(".spacer .row")
    await page.until(f"{LOG}.includes('the end of it')")
    most = "Math.max(...[...document.querySelectorAll('.call')].map(call => call.children.length))"
    assert await page.do(most) <= 5
    assert page.complaints == []


@pytest.mark.parametrize("view", ["constructor", "__proto__/x", "cluster//tasks/%E0%A4%A/x"])
async def test_an_address_that_somebody_made_up_shows_what_is_there(page, view):
    await page.do(f"location.hash = '#/{view}'")
    await page.do("location.hash = '#/costs'")
    await page.until("document.querySelector('.costs') !== null")
    assert page.complaints == []
