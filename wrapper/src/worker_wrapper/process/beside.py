"""Runs a short command of our own while an agent runs, and apart from it.

`run` cannot: when its command has ended it ends whatever was started meanwhile, and that would be
the agent's tools. What is run here has to be ours, and to leave nothing behind.
"""

import asyncio
import os
import select
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

from worker_wrapper.process.reaper import left_alone

OUTPUT_BYTES: Final = 4 * 1024 * 1024
"""Of what a command prints; one that prints more is ended."""
_NICENESS: Final = 10
_CHUNK: Final = 64 * 1024


class Done(NamedTuple):
    """How it ended. `exit_code` is None when it was ended: it took too long, or said too much."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes


async def run_beside(
    argv: tuple[str, ...],
    *,
    stdin: bytes,
    env: Mapping[str, str],
    workdir: Path,
    timeout_seconds: float,
) -> Done:
    """Run a command to its end, or end it.

    Args:
        argv: The command.
        stdin: What it reads.
        env: The whole environment.
        workdir: Its working directory.
        timeout_seconds: How long it may take.

    Raises:
        OSError: It cannot be started.
    """
    given = os.memfd_create("stdin")
    try:
        os.write(given, stdin)
        os.lseek(given, 0, os.SEEK_SET)
        # Not asyncio's: what it starts would be the agent's until we are told of its pid.
        process = subprocess.Popen(  # noqa: ASYNC220
            argv,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=workdir,
            env=dict(env),
            start_new_session=True,
        )
    finally:
        os.close(given)
    with left_alone(process.pid):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        try:
            until = time.monotonic() + timeout_seconds
            reading = (
                asyncio.to_thread(_read, pipe, until)
                for pipe in (process.stdout, process.stderr)
                if pipe is not None
            )
            said = await asyncio.gather(*reading)
            whole = all(ended for _, ended in said)
            if not whole:
                process.kill()
            code = await asyncio.to_thread(_waited, process, until)
            return Done(code if whole else None, *(data for data, _ in said))
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()


def _read(pipe: IO[bytes], until: float) -> tuple[bytes, bool]:
    """What is said until then, and whether that is all; nobody else closes the pipe.

    The agent can open the pipe of a process of its user and keep it open: its end is no certainty.
    """
    with pipe:
        data, poll = bytearray(), select.poll()
        poll.register(pipe, select.POLLIN)
        while len(data) <= OUTPUT_BYTES and poll.poll(max(until - time.monotonic(), 0) * 1000):
            said = os.read(pipe.fileno(), _CHUNK)
            if not said:
                return bytes(data), True
            data += said
        return bytes(data), False


def _waited(process: subprocess.Popen[bytes], until: float) -> int:
    """How it ended; killed when that takes too long, for it may have closed its output and stay."""
    try:
        return process.wait(max(until - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
