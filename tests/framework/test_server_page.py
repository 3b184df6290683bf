"""The page on the server is executed against the server it starts, in a thread of this process."""

import socket
import threading
from pathlib import Path

import pytest
from support.eventually import eventually
from support.markdown_blocks import blocks_of, files_of, run_blocks

import orbiter.server
from orbiter.server import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "server.md"


@pytest.mark.integration
async def test_the_page_on_the_server_tells_what_is_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    copy = tmp_path / PAGE.name
    copy.write_text(PAGE.read_text().replace("8000", str(port)))
    for name, code in files_of(copy).items():
        (tmp_path / name).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    started = []

    class Remembered(main.Server):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            started.append(self)

    def serve(agents, **options):
        """`serve` blocks: the page's reader has another terminal, the test a thread."""
        thread = threading.Thread(target=main.serve, args=(agents,), kwargs=options)
        thread.start()
        threads.append(thread)
        while not (started and started[-1].started):
            thread.join(0.01)
            assert thread.is_alive()

    threads = []
    monkeypatch.setattr(main, "Server", Remembered)
    monkeypatch.setattr(orbiter.server, "serve", serve)
    try:
        assert await run_blocks(copy, {"__name__": "__main__"}) == len(blocks_of(PAGE)) >= 10
    finally:
        for server in started:
            server.should_exit = True
        await eventually(lambda: not any(thread.is_alive() for thread in threads))
