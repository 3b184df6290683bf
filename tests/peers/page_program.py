"""Runs the blocks of a page in a peer's Python; they come, and what they print goes, as JSON.

All blocks share one namespace and one event loop, and may `await`. Only the standard library is
used.
"""

import ast
import asyncio
import inspect
import io
import json
import sys
from contextlib import redirect_stdout
from typing import Any


async def run(blocks: list[dict[str, Any]]) -> list[str]:
    """Run blocks in their order and return what each printed."""
    names: dict[str, Any] = {"__name__": "page"}
    printed = []
    for block in blocks:
        # the empty lines make tracebacks point into the page
        source = "\n" * (block["line"] - 1) + block["code"]
        code = compile(source, block["page"], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        output = io.StringIO()
        with redirect_stdout(output):
            if code.co_flags & inspect.CO_COROUTINE:
                await eval(code, names)
            else:
                # beside the event loop, as a `run_sync` wants it
                await asyncio.to_thread(exec, code, names)
        printed.append(output.getvalue())
    return printed


if __name__ == "__main__":
    told = asyncio.run(run(json.load(sys.stdin)))
    json.dump(told, sys.stdout)
