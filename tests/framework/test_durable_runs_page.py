"""The page on durable runs is executed; its program is killed where the page says."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.markdown_blocks import blocks_of, run_blocks
from support.model_wire import Answer, WireServer

from orbiter.replay import CUT_OFF

PAGE = Path(__file__).resolve().parents[2] / "docs" / "durable-runs.md"
AGAIN = "A room in Oslo is booked. Please tell me whether it is all right."


async def test_the_page_on_durable_runs_tells_what_is_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    taken = {"input": lambda question: "yes"}
    assert await run_blocks(PAGE, taken) == len(blocks_of(PAGE)) >= 4
    assert CUT_OFF in PAGE.read_text()


@pytest.mark.integration
async def test_the_pages_program_goes_on_after_it_was_killed(tmp_path):
    (tmp_path / "trip.py").write_text(blocks_of(PAGE)[0].code)
    async with WireServer().running() as model:
        environment = {**os.environ, "OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "any"}

        def start():
            return subprocess.Popen(
                [sys.executable, "trip.py"], cwd=tmp_path, env=environment, bufsize=0,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip

        def killed() -> bytes:
            with start() as child:
                said = child.stdout.read(len("booking a room in Oslo\nAll right? "))
                while not said.endswith(b"? "):
                    said += child.stdout.read(1)
                child.kill()
            return said

        def again() -> bytes:
            with start() as child:
                return child.stdout.read()

        model.answers = [Answer(calls=(("c1", "book", {"city": "Oslo"}),)),
                         Answer(calls=(("c2", "confirm", {}),))]  # fmt: skip
        assert await asyncio.to_thread(killed) == b"booking a room in Oslo\nAll right? "
        model.answers = [Answer(text=AGAIN)]
        assert (await asyncio.to_thread(again)).decode().strip() == AGAIN
        assert f"\n{AGAIN}\n" in PAGE.read_text()
        assert len(model.received) == 3
