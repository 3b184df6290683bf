from pathlib import Path

import pytest
from support.markdown_blocks import blocks_of, run_blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sandbox.md"


@pytest.mark.integration
async def test_the_page_on_sandboxes_tells_what_is_so():
    assert await run_blocks(PAGE) == len(blocks_of(PAGE)) == 5
