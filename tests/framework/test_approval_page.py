from pathlib import Path

from support.markdown_blocks import blocks_of, run_blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "approval.md"


async def test_the_page_on_approval_tells_what_is_so():
    assert await run_blocks(PAGE) == len(blocks_of(PAGE)) > 6
