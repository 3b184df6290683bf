import os
import shutil
import sys
from pathlib import Path

import pytest
from support.markdown_blocks import blocks_of, run_blocks
from support.mcp_servers import EVERYTHING, FILESYSTEM, npm_server, our_environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mcp.md"


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """The commands that the page starts: the servers in our versions, a Python with Orbiter."""
    servers = {
        "@modelcontextprotocol/server-filesystem": npm_server(FILESYSTEM),
        "@modelcontextprotocol/server-everything": npm_server(EVERYTHING),
    }
    cases = "\n".join(f'{name}) exec {command} "$@" ;;' for name, command in servers.items())
    sources = our_environment()["PYTHONPATH"]
    scripts = {
        "npx": f"shift\nname=$1\nshift\ncase $name in\n{cases}\nesac\n",
        "python": f'export PYTHONPATH={sources}\nexec {sys.executable} "$@"\n',
    }
    for name, text in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    yield
    shutil.rmtree("/tmp/orbiter-docs", ignore_errors=True)


@pytest.mark.integration
async def test_the_page_on_mcp_tells_what_is_so(commands):
    assert await run_blocks(PAGE) == len(blocks_of(PAGE)) == 10
