"""Pages that are typed at Python's prompt can be: each line is what the prompt waits for."""

from pathlib import Path

import pytest
from support.markdown_blocks import blocks_of, files_of, typed

DOCS = Path(__file__).resolve().parents[2] / "docs"


PAGES = [page for page in sorted(DOCS.glob("*.md")) if blocks_of(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_block_of_a_page_can_be_typed(page):
    files = files_of(page).values()
    for block in blocks_of(page):
        if block.code not in files:
            typed(block.code)


def test_the_pages_with_python_are_found():
    assert {"a2a.md", "agents.md", "install.md", "server.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize(
    "code", ["for x in []:\n    x\nprint(1)\n", "class A:\n    x = 1\n\n    y = 2\n"]
)
def test_what_the_prompt_takes_for_something_else_is_found(code):
    with pytest.raises(SyntaxError):
        typed(code)
