"""`sandbox_tools`: a sandbox in the hands of an agent."""

from typing import Any

from orbiter.approval import Approvals, require_approval
from orbiter.sandbox.sandbox import Sandbox
from orbiter.sandbox.types import CommandResult
from orbiter.tool import Tool, tool


def sandbox_tools(sandbox: Sandbox, *, approval: Approvals = False) -> list[Tool]:
    """Return tools that run commands and Python, and read, write and list files in a sandbox.

    Args:
        sandbox: An open sandbox; it stays its owner's to close.
        approval: Which tools wait for a person before each call: True for all, their names, or a
            function of a call's arguments.

    Raises:
        OrbiterError: `approval` names a tool that is not there.
    """

    @tool
    async def run_command(command: str, timeout: float | None = None) -> dict[str, Any]:
        """Run a shell command in the sandbox and return its exit code and output.

        Args:
            command: A line for /bin/sh. It starts in /workspace; nothing it starts outlives it.
            timeout: Seconds until it is stopped.
        """
        return _shown(await sandbox.run(command, timeout))

    @tool
    async def run_python(code: str, timeout: float | None = None) -> dict[str, Any]:
        """Run a Python program in the sandbox and return its exit code and output.

        Args:
            code: The program; print what you want to see.
            timeout: Seconds until it is stopped.
        """
        return _shown(await sandbox.run_python(code, timeout))

    @tool
    async def write_file(path: str, content: str) -> str:
        """Write a text file in the sandbox.

        Args:
            path: Where, from /workspace.
            content: Its text.
        """
        await sandbox.write(path, content)
        return f"wrote {path}"

    @tool
    async def read_file(path: str) -> str:
        """Read a text file in the sandbox.

        Args:
            path: Where, from /workspace.
        """
        return await sandbox.read(path)

    @tool
    async def list_files(path: str = ".") -> list[str]:
        """List a directory in the sandbox; names of directories end in a slash.

        Args:
            path: Where, from /workspace.
        """
        return await sandbox.list(path)

    tools: list[Tool] = [run_command, run_python, write_file, read_file, list_files]
    require_approval(tools, approval, "sandbox_tools(approval=...)")
    return tools


def _shown(result: CommandResult) -> dict[str, Any]:
    """Return a result as a model reads it: without what says nothing."""
    return result.model_dump(exclude_defaults=True)
