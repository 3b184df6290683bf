"""Runs a program to its end and keeps what it printed."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path


async def finished(
    command: Sequence[str | Path], directory: Path, environment: Mapping[str, str]
) -> tuple[int, str]:
    """Run a command without any input.

    Args:
        command: The program and its arguments.
        directory: Where it runs.
        environment: All of its variables.

    Returns:
        Its exit code, and what it printed on both outputs.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=dict(environment),
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()
