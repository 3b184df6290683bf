"""Runs the commands of a page, so that it never tells what is not so.

- `<!-- file: NAME -->` above a block: the block is the content of that file.
- `<!-- replies: [...] -->` above a console block: what the model answers in it, as JSON: a string
  is text, `{"call": "add", "args": {...}}` a tool call.
- In a console block a line that begins with `$ ` is a command; the others are what the commands
  print, on standard output and standard error, where `…` stands for anything.
"""

import asyncio
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.model_wire import Answer, WireServer

BLOCK = re.compile(
    r"(?:<!-- (?P<kind>file|replies): (?P<told>.*?) -->\s*\n)?"
    r"```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Step:
    """One block of the page: a file to write, or commands to run."""

    line: int
    file: str
    text: str
    replies: list[Any]


def steps_of(page: Path) -> list[Step]:
    """Return the files and console blocks of a page in their order."""
    text = page.read_text()
    return [
        Step(
            line=text.count("\n", 0, match.start("text")) + 1,
            file=match["told"] if match["kind"] == "file" else "",
            text=match["text"],
            replies=json.loads(match["told"]) if match["kind"] == "replies" else [],
        )
        for match in BLOCK.finditer(text)
        if match["kind"] == "file" or match["language"] == "console"
    ]


async def run_page(page: Path, directory: Path, replaced: dict[str, str]) -> int:
    """Run a page in a directory and check what its commands print.

    Args:
        page: The Markdown file.
        directory: Empty.
        replaced: Texts of the page that are something else here, such as a port.

    Returns:
        How many commands were run.
    """
    commands = 0
    async with WireServer().running() as server:
        for step in steps_of(page):
            text = step.text
            for old, new in replaced.items():
                text = text.replace(old, new)
            if step.file:
                (directory / step.file).write_text(text)
                continue
            server.answers[:] = [_answer(n, reply) for n, reply in enumerate(step.replies)]
            lines = text.splitlines()
            script = [line[2:] for line in lines if line.startswith("$ ")]
            wanted = [line for line in lines if not line.startswith("$ ")]
            printed = await _bash("\n".join(script), directory, server.url)
            where = f"{page.name}, line {step.line}"
            assert _fits(wanted, printed), f"{where} prints:\n{printed}"
            assert not server.answers, f"{where}: the model still had {len(server.answers)} replies"
            commands += len(script)
    return commands


def _answer(number: int, reply: Any) -> Answer:
    if isinstance(reply, str):
        return Answer(text=reply)
    return Answer(calls=((f"call_{number}", reply["call"], reply["args"]),))


async def _bash(script: str, directory: Path, model: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script,
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={
            **os.environ,
            # where sessions and logs are kept
            "HOME": str(directory),
            "TMPDIR": str(directory),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OPENAI_BASE_URL": f"{model}/v1",
            "OPENAI_API_KEY": "sk-test",
            "ORBITER_FORBID_MODEL_CALLS": "",
        },
    )  # fmt: skip
    printed, _ = await process.communicate()
    return printed.decode()


def _fits(wanted: list[str], printed: str) -> bool:
    pattern = "\n".join(re.escape(line.rstrip()).replace("…", ".*?") for line in wanted)
    lines = "\n".join(line.rstrip() for line in printed.splitlines())
    return re.fullmatch(pattern, lines) is not None
