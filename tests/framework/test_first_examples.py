from pathlib import Path

from pydantic import BaseModel
from support.markdown_blocks import blocks_of, run_blocks

from orbiter import Agent, tool
from orbiter.hooks import Hook, HookPoint


class ResearchReport(BaseModel):
    title: str


@tool
async def search_web(query: str) -> list[str]:
    """Search the web."""
    return []


@tool
async def read_url(url: str) -> str:
    """Read a page."""
    return ""


async def test_the_examples_run_as_they_are_published():
    page = Path(__file__).with_name("first_examples.md")
    given = {
        "search_web": search_web,
        "read_url": read_url,
        "writer_agent": Agent(name="writer"),
        "my_hook": Hook(HookPoint.START, print),
        "ResearchReport": ResearchReport,
    }
    assert await run_blocks(page, given) == 11


def test_a_block_knows_its_replies_and_what_it_prints(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '# Page\n\n<!-- replies: ["hi"] -->\n```python\nprint(1)\n```\n\n```text\n1\n```\n'
        "\n```python\nx = 1\n```\n"
    )
    first, second = blocks_of(page)
    assert (first.line, first.code, first.replies, first.prints) == (5, "print(1)\n", ["hi"], "1\n")
    assert (second.replies, second.prints) == ([], None)
