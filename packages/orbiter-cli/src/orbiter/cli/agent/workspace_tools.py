"""Built-in tools of agents that work in a directory: commands and files, and to ask somebody.

They act where the command runs and are no sandbox: a worker's container is one, and
`orbiter.sandbox` offers others.
"""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from orbiter import Tool, tool

KEPT_CHARACTERS = 30_000
"""How much of a command's output or a file the model is shown: beginning and end."""
COMMAND_SECONDS = 600.0


@tool
async def run_command(command: str, timeout: float = COMMAND_SECONDS) -> str:
    """Run a shell command in the workspace and return what it printed and its exit code.

    Args:
        command: A line for bash. What it leaves running in the background is ended with it.
        timeout: Seconds until it is stopped.
    """
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    late = ""
    printed = b""
    try:
        async with asyncio.timeout(timeout):
            printed, _ = await process.communicate()
    except TimeoutError:
        late = f"\n[stopped after {timeout:g} s]"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    code = f"\n[exit code {process.returncode}]" if process.returncode and not late else ""
    return _shown(printed.decode("utf-8", "replace").rstrip("\n")) + late + code


@tool
def read_file(path: str, first_line: int = 1, lines: int = 2000) -> str:
    """Read a text file.

    Args:
        path: Where, from the workspace.
        first_line: The first line to return, from 1.
        lines: How many lines.
    """
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    wanted = text.splitlines(keepends=True)[first_line - 1 : first_line - 1 + lines]
    return _shown("".join(wanted))


@tool
def write_file(path: str, content: str) -> str:
    """Write a text file; directories on the way are made.

    Args:
        path: Where, from the workspace.
        content: Its whole text.
    """
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content, encoding="utf-8")
    return f"wrote {path}"


@tool
def edit_file(path: str, old: str, new: str) -> str:
    """Replace a piece of a text file.

    Args:
        path: Where, from the workspace.
        old: The piece; it must stand there exactly once.
        new: What takes its place.
    """
    place = Path(path)
    text = place.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise ValueError(f"the piece stands there {text.count(old)} times, not once")
    place.write_text(text.replace(old, new), encoding="utf-8")
    return f"changed {path}"


@tool
def list_files(path: str = ".") -> str:
    """List a directory; names of directories end in a slash.

    Args:
        path: Where, from the workspace.
    """
    found = sorted(Path(path).iterdir())
    return _shown("\n".join(f"{item.name}/" if item.is_dir() else item.name for item in found))


@tool
def ask_user(question: str) -> str:
    """Ask the person who gave the task, when it cannot go on without an answer. Ends your turn.

    Args:
        question: What you need to know, in a sentence or two.
    """
    return question


WORKSPACE: tuple[Tool, ...] = (run_command, read_file, write_file, edit_file, list_files)
BUILT_IN: dict[str, tuple[Tool, ...]] = {
    "workspace": WORKSPACE,
    **{item.name: (item,) for item in (*WORKSPACE, ask_user)},
}
"""What agent files may name without a module."""


def _shown(text: str) -> str:
    if len(text) <= KEPT_CHARACTERS:
        return text
    half = KEPT_CHARACTERS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[{left_out} characters left out]\n{text[-half:]}"
