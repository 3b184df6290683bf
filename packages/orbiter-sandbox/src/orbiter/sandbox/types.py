"""What goes into a sandbox and what comes out of it."""

from typing import Literal

from pydantic import BaseModel, Field

from orbiter.types import OrbiterError

MIB = 1024 * 1024
Stop = Literal["timeout", "memory", "disk"]


class SandboxError(OrbiterError):
    """A sandbox could not do what it was asked; the text names the thing and the reason."""


class SandboxUnavailableError(SandboxError):
    """This machine or cluster cannot give the isolation that was asked for."""


class Limits(BaseModel):
    """How much what runs in a sandbox may use.

    Attributes:
        memory_bytes: Memory of one process, and of all of them together.
        processes: Processes and threads at a time.
        file_bytes: Size of one file, also of what `read` returns.
        disk_bytes: Size of all files in the workspace together.
        tmp_bytes: Size of /tmp and of /dev/shm, which are in memory.
        open_files: Open files of one process.
        output_bytes: Kept of stdout, and of stderr; of more, the beginning and the end.
        timeout: Seconds a command may take when its caller does not say.
    """

    model_config = {"frozen": True}

    memory_bytes: int = Field(default=1024 * MIB, gt=0)
    processes: int = Field(default=64, gt=0)
    file_bytes: int = Field(default=64 * MIB, gt=0)
    disk_bytes: int = Field(default=256 * MIB, gt=0)
    tmp_bytes: int = Field(default=64 * MIB, gt=0)
    open_files: int = Field(default=256, gt=0)
    output_bytes: int = Field(default=256 * 1024, gt=0)
    timeout: float = Field(default=30.0, gt=0)


class CommandResult(BaseModel):
    """What a command did.

    Attributes:
        exit_code: As a shell tells it: 128 + N for one killed by signal N; 124 when it was stopped.
        stdout: What it printed; bytes that are no UTF-8 are replaced.
        stderr: What it printed there.
        truncated: Whether it printed more than is kept.
        stopped: Why the sandbox ended it, if it did not end by itself.
    """

    model_config = {"frozen": True}

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    stopped: Stop | None = None

    @property
    def ok(self) -> bool:
        """Whether it ended by itself, with success."""
        return self.exit_code == 0 and self.stopped is None

    @property
    def timed_out(self) -> bool:
        """Whether it was ended because its time was over."""
        return self.stopped == "timeout"
