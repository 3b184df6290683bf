"""Removes what untrusted commands left behind: any depth, any modes, no link followed."""

import asyncio
import os
from pathlib import Path

from orbiter.sandbox.types import SandboxError


async def remove(directory: Path) -> None:
    """Remove a directory and all that is in it.

    coreutils walk trees of any depth without following links; Python's own function recurses.

    Raises:
        SandboxError: Something is left.
    """
    if os.geteuid() != 0:
        await _quietly("chmod", "-R", "u+rwX", "--", str(directory))
    said = await _quietly("rm", "-rf", "--one-file-system", "--", str(directory))
    if directory.exists():
        raise SandboxError(f"{directory} could not be removed: {said}")


async def _quietly(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    return said.decode(errors="replace").strip()
