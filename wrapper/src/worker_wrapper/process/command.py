"""What a process is started with, and what it leaves behind."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from worker_wrapper.process.output_buffer import OutputBuffer
from worker_wrapper.shutdown import StopReason


@dataclass(frozen=True, slots=True)
class Command:
    """A process to run: its arguments, its standard input and additions to its environment."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a process left behind.

    Attributes:
        exit_code: Its exit code; None when a signal ended it.
        signal: The signal that ended it, if one did.
        stdout: What it printed.
        stderr_tail: The last 64 KiB it complained.
        timed_out: It was ended because its time was up.
        interrupted: It was ended because somebody asked for it, and why they did.
        oom_killed: The kernel killed a process of this container for lack of memory meanwhile.
        started_at: When it was started.
        finished_at: When it, and every process it had started, was gone.
        survivors: Pids that even SIGKILL did not end.
    """

    exit_code: int | None
    signal: int | None
    stdout: OutputBuffer
    stderr_tail: bytes
    timed_out: bool
    interrupted: StopReason | None
    oom_killed: bool
    started_at: datetime
    finished_at: datetime
    survivors: tuple[int, ...] = ()

    @property
    def complaint(self) -> str:
        """The end of stderr as text."""
        return self.stderr_tail.decode("utf-8", "replace").strip()
