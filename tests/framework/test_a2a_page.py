"""The page on A2A is executed against the servers it starts, in threads of this process."""

import socket
import threading
from pathlib import Path

import pytest
import uvicorn
from support.eventually import eventually
from support.markdown_blocks import blocks_of, files_of, run_blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "a2a.md"


@pytest.mark.integration
async def test_the_page_on_a2a_tells_what_is_so(tmp_path, monkeypatch):
    text = PAGE.read_text()
    for port in ("9999", "9998"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            text = text.replace(port, str(free.getsockname()[1]))
    copy = tmp_path / PAGE.name
    copy.write_text(text)
    for name, code in files_of(copy).items():
        (tmp_path / name).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    running = []

    class InThread(uvicorn.Server):
        """`serve` blocks: the page's reader has another terminal, the test a thread."""

        def run(self, sockets=None):
            thread = threading.Thread(target=super().run, args=(sockets,))
            thread.start()
            running.append((self, thread))
            while not self.started:
                thread.join(0.01)
                assert thread.is_alive()

    monkeypatch.setattr(uvicorn, "Server", InThread)
    try:
        assert await run_blocks(copy, {"__name__": "__main__"}) == len(blocks_of(PAGE)) >= 6
    finally:
        for server, _ in running:
            server.should_exit = True
        await eventually(lambda: not any(thread.is_alive() for _, thread in running))
