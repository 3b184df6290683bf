from pathlib import Path

from support.markdown_blocks import blocks_of, run_blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "notebooks.md"


async def test_the_page_on_notebooks_tells_what_is_so():
    assert await run_blocks(PAGE) == len(blocks_of(PAGE)) > 6
