"""Our side of the pages on moving to Orbiter; the other one is run by `make check-peers`."""

from pathlib import Path

import pytest
from support.markdown_blocks import blocks_of, pairs_of, run_blocks

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ["migrate-from-pydantic-ai.md", "migrate-from-openai-agents.md"]


@pytest.mark.parametrize("name", PAGES)
async def test_our_side_does_what_the_page_tells(name):
    page = DOCS / name
    assert await run_blocks(page) == len(blocks_of(page)) > 10


@pytest.mark.parametrize("name", PAGES)
def test_each_program_there_has_one_here_that_prints_something(name):
    page = DOCS / name
    pairs = pairs_of(page)
    assert [here for _, here in pairs] == blocks_of(page)
    assert all(here.prints for _, here in pairs)


def test_a_block_of_another_framework_is_not_ours(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '<!-- there: ["hi"] -->\n```python\nthem\n```\n\nHere:\n\n'
        '<!-- replies: ["ho"] -->\n```python\nus\n```\n\n```text\n1\n```\n'
    )
    [(there, here)] = pairs_of(page)
    assert (there.code, there.replies, there.prints) == ("them\n", ["hi"], None)
    assert [here] == blocks_of(page)
    assert (here.code, here.replies, here.prints) == ("us\n", ["ho"], "1\n")
