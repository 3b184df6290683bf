"""Sandbox: a place with files, where commands run. What it isolates from is its kinds' business.

Reading and writing files happens inside, too: a path means what it means there, and no symbolic
link that a command left behind leads anywhere else.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Self

from orbiter.sandbox.types import CommandResult, Limits, SandboxError, Stop

WORKSPACE = "/workspace"
STOPPED = 124
_LISTING_BYTES = 4 * 1024 * 1024
_WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
_LIST = """cd -- "$1" || exit 1
for f in * .[!.]* ..?*; do
  if [ -d "$f" ] && ! [ -L "$f" ]; then printf '%s/\\0' "$f"
  elif [ -e "$f" ] || [ -L "$f" ]; then printf '%s\\0' "$f"; fi
done"""
# with the source at hand, tracebacks show the lines that failed, and none of these
_PYTHON = """import linecache, sys, traceback
s = sys.stdin.read()
linecache.cache["<code>"] = (len(s), None, s.splitlines(True), "<code>")
sys.excepthook = lambda t, e, tb: traceback.print_exception(t, e, tb and tb.tb_next)
exec(compile(s, "<code>", "exec"), {"__name__": "__main__"})"""


class Outcome(NamedTuple):
    """What a kind of sandbox tells of a command."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    truncated: bool
    stopped: Stop | None


class Sandbox(ABC):
    """The base of all sandboxes: `async with LocalSandbox() as sandbox`.

    Commands start in the workspace, an empty directory; files stay until the sandbox is closed,
    processes only until their command ends.

    Attributes:
        limits: How much commands may use.
    """

    def __init__(self, limits: Limits | None = None, *, python: str = "python3") -> None:
        self.limits = limits or Limits()
        self._python = python

    async def __aenter__(self) -> Self:
        """Make it ready.

        Raises:
            SandboxUnavailableError: It cannot be had here; the text says why.
        """
        await self._open()
        return self

    async def __aexit__(self, *error: object) -> None:
        """End all that runs in it, and remove its files."""
        await self._close()

    async def run(
        self, cmd: str | Sequence[str], timeout: float | None = None, *, stdin: str | bytes = b""
    ) -> CommandResult:
        """Run a command and wait for its end.

        Args:
            cmd: A line for the shell, or a program and its arguments.
            timeout: Seconds until it is ended with all that it started; by default the limits'.
            stdin: What it reads there.

        Raises:
            SandboxError: The sandbox is not open or broke down; a failing command is a result.
        """
        argv = ["/bin/sh", "-c", cmd] if isinstance(cmd, str) else list(cmd)
        if not argv or any("\0" in word for word in argv):
            raise SandboxError(f"{cmd!r} is no command: give at least one word, without NUL bytes")
        data = stdin.encode() if isinstance(stdin, str) else stdin
        seconds = self.limits.timeout if timeout is None else timeout
        outcome = await self._execute(argv, data, seconds, self.limits.output_bytes)
        return CommandResult(
            exit_code=outcome.exit_code,
            stdout=outcome.stdout.decode(errors="replace"),
            stderr=outcome.stderr.decode(errors="replace"),
            truncated=outcome.truncated,
            stopped=outcome.stopped,
        )

    async def run_python(self, code: str, timeout: float | None = None) -> CommandResult:
        """Run a Python program; like `run`."""
        return await self.run([self._python, "-c", _PYTHON], timeout, stdin=code)

    async def write(self, path: str, content: str | bytes) -> None:
        """Write a file; its directories are made.

        Args:
            path: Where, from the workspace or absolute as seen inside.
            content: Text is written as UTF-8.

        Raises:
            SandboxError: It cannot be written there, or is larger than `limits.file_bytes`.
        """
        data = content.encode() if isinstance(content, str) else content
        if len(data) > self.limits.file_bytes:
            raise SandboxError(f"{path}: {len(data)} bytes are more than {self.limits.file_bytes}")
        await self._inside(path, ["/bin/sh", "-c", _WRITE, "sh", _plain(path)], data)

    async def read(self, path: str) -> str:
        """Return the text of a file.

        Raises:
            SandboxError: It cannot be read, is larger than `limits.file_bytes` or is no UTF-8.
        """
        data = await self.read_bytes(path)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise SandboxError(f"{path}: is no text; use read_bytes") from error

    async def read_bytes(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            SandboxError: It cannot be read or is larger than `limits.file_bytes`.
        """
        most = self.limits.file_bytes
        data = await self._inside(
            path, ["head", "-c", str(most + 1), "--", _plain(path)], b"", most
        )
        if len(data) > most:
            raise SandboxError(f"{path}: is larger than {most} bytes (limits.file_bytes)")
        return data

    async def list(self, path: str = ".") -> list[str]:
        """Return the names in a directory, sorted; those of directories end in `/`.

        Raises:
            SandboxError: It cannot be listed.
        """
        argv = ["/bin/sh", "-c", _LIST, "sh", _plain(path)]
        data = await self._inside(path, argv, b"", _LISTING_BYTES)
        return sorted(name for name in data.decode(errors="replace").split("\0") if name)

    async def _inside(self, path: str, argv: Sequence[str], stdin: bytes, most: int = 0) -> bytes:
        # twice what is expected: of more, only the ends are kept
        outcome = await self._execute(argv, stdin, self.limits.timeout, 2 * most + 65536)
        if outcome.stopped:
            raise SandboxError(f"{path}: not done, the limit of {outcome.stopped} was reached")
        if outcome.exit_code != 0:
            said = outcome.stderr.decode(errors="replace").strip().splitlines()
            raise SandboxError(f"{path}: {said[-1] if said else f'exit {outcome.exit_code}'}")
        if outcome.truncated:
            raise SandboxError(f"{path}: too many names to list")
        return outcome.stdout

    @abstractmethod
    async def _open(self) -> None:
        """Make it ready."""

    @abstractmethod
    async def _close(self) -> None:
        """End it."""

    @abstractmethod
    async def _execute(
        self, argv: Sequence[str], stdin: bytes, timeout: float, output_bytes: int
    ) -> Outcome:
        """Run a program in the workspace; nothing of it runs on when this returns or raises."""


def _plain(path: str) -> str:
    if not path or "\0" in path:
        raise SandboxError(f"{path!r} is no path")
    # what begins with a dash would be taken for an option
    return path if path.startswith("/") else f"./{path}"
