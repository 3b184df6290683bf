"""Runs the other side of the pages on moving to Orbiter: what stands there under "There".

The peers' programs ask a scripted server on this machine, and have to print what ours print.
"""

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path

from homes import ROOT, python_of
from support.markdown_blocks import Block, lines_of, pairs_of
from support.model_wire import WireServer
from support.page_replies import answer_of, surroundings

PAGES = {
    "pydantic-ai": ROOT / "docs" / "migrate-from-pydantic-ai.md",
    "openai-agents": ROOT / "docs" / "migrate-from-openai-agents.md",
}
PROGRAM = Path(__file__).with_name("page_program.py")


async def differences(name: str) -> list[str]:
    """Run a page's other side and return where it prints something else than the page tells."""
    pairs = pairs_of(PAGES[name])
    theirs = [there for there, _ in pairs]
    replies = [reply for block in theirs for reply in block.replies]
    async with WireServer().running() as model:
        model.answers = [answer_of(number, reply) for number, reply in enumerate(replies)]
        printed = await asyncio.to_thread(_run, name, theirs, model.url)
        left = len(model.answers)
    found = [f"{name}: {left} replies were not asked for"] if left else []
    for (there, here), output in zip(pairs, printed, strict=True):
        told = there.prints if there.prints is not None else here.prints
        if lines_of(output) != lines_of(told or ""):
            found.append(f"{there.page}, line {there.line} prints:\n{output}")
    return found


def _run(name: str, blocks: list[Block], model: str) -> list[str]:
    told = [{"page": block.page, "line": block.line, "code": block.code} for block in blocks]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [python_of(name), PROGRAM],
            input=json.dumps(told),
            stdout=subprocess.PIPE,
            text=True,
            cwd=home,
            env=surroundings(model, Path(home)),
            check=True,
        )
    printed: list[str] = json.loads(done.stdout)
    return printed
