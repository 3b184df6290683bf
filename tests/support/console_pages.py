"""Runs the commands of a page, so that it never tells what is not so.

- `<!-- file: NAME -->` above a block: the block is the content of that file.
- `<!-- replies: [...] -->` above a console block: what the model answers in it (`page_replies`).
- In a console block a line that begins with `$ ` is a command; the others are what the commands
  print, on standard output and standard error, where `…` stands for anything.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.model_wire import WireServer
from support.page_replies import answer_of, surroundings
from support.processes import finished

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
            server.answers[:] = [answer_of(n, reply) for n, reply in enumerate(step.replies)]
            lines = text.splitlines()
            script = [line[2:] for line in lines if line.startswith("$ ")]
            wanted = [line for line in lines if not line.startswith("$ ")]
            command = ["bash", "-c", "\n".join(script)]
            _, printed = await finished(command, directory, surroundings(server.url, directory))
            where = f"{page.name}, line {step.line}"
            assert fits(wanted, printed), f"{where} prints:\n{printed}"
            assert not server.answers, f"{where}: the model still had {len(server.answers)} replies"
            commands += len(script)
    return commands


def fits(wanted: list[str], printed: str) -> bool:
    """Whether a program printed these lines, where `…` stands for anything."""
    pattern = "\n".join(re.escape(line.rstrip()).replace("…", ".*?") for line in wanted)
    lines = "\n".join(line.rstrip() for line in printed.splitlines())
    return re.fullmatch(pattern, lines) is not None
