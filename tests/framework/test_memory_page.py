from pathlib import Path

from support.markdown_blocks import blocks_of, run_blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "memory.md"


async def test_the_page_on_memory_tells_what_is_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert await run_blocks(PAGE) == len(blocks_of(PAGE)) > 6
