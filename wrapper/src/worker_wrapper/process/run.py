"""Runs one command under supervision: time limit, early end, output to disk, nothing left behind.

turn.py runs the agent with it, workspace.py its git commands. The child gets a process group of its
own; when it is gone, so is everything it started, also what left that group.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from worker_wrapper.process.command import Command, Outcome
from worker_wrapper.process.kernel import oom_kills
from worker_wrapper.process.limits import used_up
from worker_wrapper.process.output_buffer import OutputBuffer
from worker_wrapper.process.pipes import Pipe, Tail
from worker_wrapper.process.reaper import (
    PreexistingChildren,
    kill_descendants,
    preexisting_children,
    reaping,
)
from worker_wrapper.shutdown import StopReason, StopTurn

STDERR_BYTES = 64 * 1024
_LOOK_SECONDS = 0.05
"""How often is looked whether a command has ended, where the kernel does not tell."""


@dataclass(frozen=True, slots=True)
class Grace:
    """How long the process may take to leave: after SIGINT, then after SIGTERM, then SIGKILL.

    With no time for SIGINT it is not sent.
    """

    interrupt_seconds: float
    terminate_seconds: float


EndReason = Literal["timeout"] | StopReason
GRACE: Mapping[EndReason, Grace] = {
    "timeout": Grace(10, 5),
    "cancelled": Grace(5, 3),
    # The container has a few seconds left, and what came of it is still to be stored. No SIGINT:
    # Claude Code would write into the conversation that the user wants it to stop.
    "terminated": Grace(0, 3),
}


Sink = Callable[[bytes], None]


class CannotStartError(Exception):
    """The command could not even be started; the text says why and what to do."""


async def run(
    command: Command,
    *,
    env: Mapping[str, str],
    workdir: Path,
    timeout_seconds: float,
    stop: StopTurn,
    spill_dir: Path,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    grace: Mapping[EndReason, Grace] = GRACE,
    tap: Callable[[bytes], None] | None = None,
) -> Outcome:
    """Run a command to its end, or end it.

    Args:
        command: What to run.
        env: The whole environment of the process; the command's additions are in it already.
        workdir: Its working directory.
        timeout_seconds: How long it may run.
        stop: Ends it early when set.
        spill_dir: Where large output goes.
        clock: For the two times in the outcome.
        grace: How long it may take to leave.
        tap: Given the standard output as it comes, besides.

    Returns:
        What it left behind. Close `stdout` when done with it.

    Raises:
        CannotStartError: The program or the directory is not there, or the arguments are too long.
    """
    _stop_ignoring_sigint()
    kills_before = oom_kills()
    preexisting = preexisting_children()
    output, tail = OutputBuffer(spill_dir), Tail(STDERR_BYTES)
    started_at = clock()
    ended: EndReason | None = None
    try:
        async with _child(
            command, env, workdir, (_both(output, tap), tail.write), preexisting
        ) as child:
            ended = await _time_to_end(child, timeout_seconds, stop)
            if ended:
                await child.end(grace[ended])
    except BaseException:
        output.close()
        raise
    status = child.process.returncode
    return Outcome(
        exit_code=status if status >= 0 else None,
        signal=-status if status < 0 else None,
        stdout=output,
        stderr_tail=tail.read(),
        timed_out=ended == "timeout",
        interrupted=None if ended == "timeout" else ended,
        oom_killed=oom_kills() > kills_before,
        started_at=started_at,
        finished_at=clock(),
        survivors=child.survivors,
    )


def _stop_ignoring_sigint() -> None:
    """Undo what a shell does to programs it starts in the background.

    A signal that is ignored stays ignored in every child, so no agent could be interrupted.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Child:
    """The running process: tells when it exits, and ends it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.survivors: tuple[int, ...] = ()
        self._loop = asyncio.get_running_loop()
        self.exited = self._loop.create_future()
        self._pidfd = -1
        self._timer: asyncio.TimerHandle | None = None
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except OSError:  # An old kernel, a sandbox or a seccomp profile: the command runs already.
            self._look()
        else:
            self._loop.add_reader(self._pidfd, self._on_exit)

    def _look(self) -> None:
        if self.process.poll() is None:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
        else:
            self._on_exit()

    def _on_exit(self) -> None:
        self.close()
        self.process.wait()
        if not self.exited.done():
            self.exited.set_result(None)

    async def end(self, grace: Grace) -> None:
        for number, seconds in (
            (signal.SIGINT, grace.interrupt_seconds),
            (signal.SIGTERM, grace.terminate_seconds),
            (signal.SIGKILL, None),
        ):
            if seconds == 0:
                continue
            self._signal(number)
            await asyncio.wait({self.exited}, timeout=seconds)
            if self.exited.done():
                return

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _signal(self, number: signal.Signals) -> None:
        # The group, as a terminal would: the CLI may sit behind a shell script.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def _both(output: OutputBuffer, tap: Sink | None) -> Sink:
    if tap is None:
        return output.write

    def write(data: bytes) -> None:
        output.write(data)
        tap(data)

    return write


@asynccontextmanager
async def _child(
    command: Command,
    env: Mapping[str, str],
    workdir: Path,
    sinks: tuple[Sink, Sink],
    preexisting: PreexistingChildren,
) -> AsyncIterator[_Child]:
    """Start the process; on the way out it and all it started are dead and its output is read."""
    pipes = [Pipe(sink) for sink in sinks]
    try:
        process = _start(command, env, workdir, pipes)
    except BaseException:
        for pipe in pipes:
            pipe.close()
        raise
    child = _Child(process)
    try:
        with reaping(preexisting, keep=process.pid):
            yield child
    finally:
        child.close()
        if process.returncode is None:
            process.kill()
            process.wait()
        child.survivors = tuple(kill_descendants(preexisting))
        for pipe in pipes:
            pipe.drain()
            pipe.close()


def _start(
    command: Command, env: Mapping[str, str], workdir: Path, pipes: list[Pipe]
) -> subprocess.Popen[bytes]:
    # A file in memory, not a pipe: a program that never reads its input cannot hold us up.
    stdin = os.memfd_create("stdin")
    try:
        os.write(stdin, command.stdin)
        os.lseek(stdin, 0, os.SEEK_SET)
        return subprocess.Popen(
            command.argv,
            stdin=stdin,
            stdout=pipes[0].write_end,
            stderr=pipes[1].write_end,
            cwd=workdir,
            env=dict(env),
            start_new_session=True,
        )
    except OSError as error:
        if used_up(error):
            raise
        raise CannotStartError(_why_not(error, command.argv[0], workdir)) from None
    except ValueError as error:  # A NUL, or half a character, in an argument.
        raise CannotStartError(f"cannot start {command.argv[0]}: {error}") from None
    finally:
        os.close(stdin)
        for pipe in pipes:
            pipe.start()


def _why_not(error: OSError, program: str, workdir: Path) -> str:
    if not workdir.is_dir():
        return f"cannot start {program}: its working directory {workdir} does not exist"
    if isinstance(error, FileNotFoundError):
        return f"cannot start {program}: not found in PATH; is this the image for this agent?"
    return f"cannot start {program}: {error.strerror}"


async def _time_to_end(child: _Child, seconds: float, stop: StopTurn) -> EndReason | None:
    """Wait until the child exits (None), or until it has to be ended; say why."""
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait(
            {child.exited, stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if child.exited.done():
            return None
        return stopped.result() if stopped.done() else "timeout"
    finally:
        stopped.cancel()
