"""Runs the Python code of a Markdown page, so that a page never tells what is not so.

All blocks of a page share one namespace and may `await`. Two things beside the code count:

- A comment `<!-- replies: [...] -->` above a block is what the model answers in it, as JSON: a
  string is text, `{"call": "add", "args": {"a": 2}}` a tool call, a list several calls at once.
- A fence of the kind `text` right behind a block is what the block prints.

`<!-- file: NAME.py -->` between comment and block: the block is that file. Where it also tells what
it prints it is a program of its own (`programs_of`), which `test_programs` runs from its file.

`<!-- there: [...] -->` in the place of `replies`: the block is of another framework, and the next
one does the same here (`pairs_of`). `make check-peers` runs it, nobody else does.
"""

import ast
import asyncio
import inspect
import io
import json
import re
import tempfile
from codeop import CommandCompiler
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.embedding_wire import spelled

from orbiter.models import ModelProvider, ScriptedModel, call, model_registry

BLOCK = re.compile(
    r"(?:<!-- (?P<side>replies|there): (?P<replies>(?:(?!-->).)*) -->\s*\n)?"
    r"(?:<!-- file: (?P<file>\S+\.py) -->\s*\n)?"
    r"```python\n(?P<code>.*?)^```$"
    r"(?:\n+```text\n(?P<prints>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """One block: where it stands, its code, the model's replies, what it prints if that is told.

    `file` is its name, if it is a file.
    """

    page: str
    line: int
    code: str
    replies: list[Any]
    prints: str | None
    file: str | None = None


def blocks_of(page: Path) -> list[Block]:
    """Return the Python blocks of a page in their order, without those of other frameworks."""
    return [block for side, block in _sides_of(page) if side != "there"]


def pairs_of(page: Path) -> list[tuple[Block, Block]]:
    """Return each block of another framework with the one that does the same here."""
    return [
        (there, here) for (side, there), (_, here) in pairwise(_sides_of(page)) if side == "there"
    ]


def _sides_of(page: Path) -> list[tuple[str | None, Block]]:
    text = page.read_text()
    return [
        (
            match["side"],
            Block(
                page=page.name,
                line=text.count("\n", 0, match.start("code")) + 1,
                code=match["code"],
                replies=json.loads(match["replies"] or "[]"),
                prints=match["prints"],
                file=match["file"],
            ),
        )
        for match in BLOCK.finditer(text)
    ]


def files_of(page: Path) -> dict[str, str]:
    """Return the Python files of a page: what stands behind `<!-- file: NAME -->`."""
    return {block.file: block.code for block in blocks_of(page) if block.file}


def programs_of(page: Path) -> list[Block]:
    """Return the files of a page that are run as they are: those that tell what they print."""
    return [block for block in blocks_of(page) if block.file and block.prints is not None]


def typed(code: str) -> None:
    """Type a block into a Python's prompt that can await, line by line.

    Raises:
        SyntaxError: The prompt takes a line for what it is not, as after a blank line in a class.
        AssertionError: It waits for more when the block has ended.
    """
    compiled = CommandCompiler()
    compiled.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    entered: list[str] = []
    for line in [*code.splitlines(), ""]:
        entered.append(line)
        if compiled("\n".join(entered), "<page>", "single") is not None:
            entered.clear()
    assert not "".join(entered), entered


class Stage(ModelProvider):
    """Stands for every model of a page and plays the script of the block that runs."""

    settings = True
    embeddings = True

    def __init__(self) -> None:
        self.script = ScriptedModel()

    async def complete(self, messages: Any, **options: Any) -> Any:
        return await self.script.complete(messages, **options)

    async def stream(self, messages: Any, **options: Any) -> Any:
        async for chunk in self.script.stream(messages, **options):
            yield chunk

    async def embed(self, texts: Any, *, dimensions: Any = None) -> Any:
        return [spelled(text) for text in texts]


@contextmanager
def staged(*providers: str) -> Iterator[Stage]:
    """Put a Stage in the place of these providers."""
    stage = Stage()
    real = {name: model_registry.get(name) for name in providers}
    for name in providers:
        model_registry.unregister(name)
        model_registry.register(name, lambda config: stage)
    try:
        yield stage
    finally:
        for name, factory in real.items():
            model_registry.unregister(name)
            model_registry.register(name, factory)


def _reply(data: Any) -> Any:
    if isinstance(data, list):
        return [_reply(part) for part in data]
    return data if isinstance(data, str) else call(data["call"], **data.get("args", {}))


async def run_blocks(page: Path, namespace: dict[str, Any] | None = None) -> int:
    """Run a page and check what its blocks print.

    Args:
        page: The Markdown file.
        namespace: Names the page takes for granted.

    Returns:
        How many blocks there are.
    """
    names: dict[str, Any] = {"__name__": "page", **(namespace or {})}
    blocks = blocks_of(page)
    with _of_its_own(), staged("openai", "anthropic") as stage:
        for block in blocks:
            stage.script = ScriptedModel(*map(_reply, block.replies))
            printed = await _run(block, names)
            left = len(block.replies) - len(stage.script.requests)
            where = f"{block.page}, line {block.line}"
            assert left <= 0, f"{where}: the model still had {left} replies to give"
            if block.prints is not None:
                assert lines_of(printed) == lines_of(block.prints), f"{where} prints:\n{printed}"
    return len(blocks)


@contextmanager
def _of_its_own() -> Iterator[None]:
    """What a page puts among the temporary files goes with it."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)  # a sandbox's user has to come through
        tempfile.tempdir = directory
        try:
            yield
        finally:
            tempfile.tempdir = before


def lines_of(text: str) -> list[str]:
    """Return the lines that count of what is printed."""
    # editors strip what stands at the end of a line
    return [line.rstrip() for line in text.rstrip().splitlines()]


async def _run(block: Block, names: dict[str, Any]) -> str:
    # the empty lines make tracebacks point into the page
    code = compile(
        "\n" * (block.line - 1) + block.code,
        block.page,
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
    )
    printed = io.StringIO()
    with redirect_stdout(printed):
        if code.co_flags & inspect.CO_COROUTINE:
            await eval(code, names)
        else:
            # beside the event loop, as `run.sync` wants it
            await asyncio.to_thread(exec, code, names)
    return printed.getvalue()
