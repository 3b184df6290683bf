import socket
from pathlib import Path

import pytest
from support.console_pages import run_page

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


@pytest.mark.integration
async def test_the_page_on_the_command_line_tells_what_is_so(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    assert await run_page(PAGE, tmp_path, {"8123": port}) > 15
