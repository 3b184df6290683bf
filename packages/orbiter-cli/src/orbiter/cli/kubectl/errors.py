"""How the plugin ends: one table of exit codes for people's scripts, and the exception with it."""

from enum import IntEnum

from orbiter.types import OrbiterError


class ExitCode(IntEnum):
    """What a script learns from `$?`; docs/sessions.md has the same table."""

    OK = 0
    FAILED = 1
    """The answer is no success, the task or the session has failed, or a request was refused."""
    USAGE = 2
    NOT_FOUND = 3
    WAITING = 4
    """Nothing happens until a person acts: a question is open, or the session is suspended."""
    CANCELLED = 5
    UNREACHABLE = 6
    """kubectl, the API server or Redis cannot be used from here."""
    TIMEOUT = 124
    INTERRUPTED = 130


class CommandError(OrbiterError):
    """A command cannot do what it was asked; the text names the thing and the next step."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code
