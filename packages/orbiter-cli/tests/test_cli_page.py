from pathlib import Path

import pytest
from support.console_pages import run_page
from support.ports import free_port

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


@pytest.mark.integration
async def test_the_page_on_the_command_line_tells_what_is_so(tmp_path):
    assert await run_page(PAGE, tmp_path, {"8123": str(free_port())}) > 15
