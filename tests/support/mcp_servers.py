"""MCP servers that nobody here wrote, and one of ours as a program, for tests.

The former are installed once, in the versions given here, below the checkout's state directory.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support.agent_clis import ROOT, STATE

FILESYSTEM = "@modelcontextprotocol/server-filesystem@2026.8.31"
EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"
FETCH = "mcp-server-fetch==2026.10.24"
INSTALL_SECONDS = 240


def npm_server(package: str) -> str:
    """Return the command of a server from npm, installing it when it is not here yet."""

    def install(home: Path) -> None:
        quiet = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")
        _run("npm", "install", *quiet, "--prefix", str(home), package)

    command = "mcp-" + package.split("/")[1].split("@")[0]
    return str(_installed(package, install) / "node_modules" / ".bin" / command)


def python_server(requirement: str) -> list[str]:
    """Return the command of a server from PyPI, installing it into a place of its own."""

    def install(home: Path) -> None:
        uv = str(Path(sys.executable).with_name("uv"))
        _run(uv, "venv", "--quiet", "--python", sys.executable, str(home))
        _run(uv, "pip", "install", "--quiet", "--python", str(home / "bin/python"), requirement)

    home = _installed(requirement, install)
    return [str(home / "bin" / "python"), "-m", requirement.split("==")[0].replace("-", "_")]


def _installed(what: str, install: Callable[[Path], None]) -> Path:
    home = STATE / "mcp" / what.replace("/", "-").replace("@", "-").strip("-")
    if not home.exists():
        # moved to its place when it is complete; of two that do this at a time the first one wins
        partial = home.with_name(f"{home.name}.{os.getpid()}.partial")
        partial.mkdir(parents=True)
        try:
            install(partial)
            partial.rename(home)
        except OSError:
            assert home.exists()
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return home


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    assert done.returncode == 0, f"{' '.join(command)} failed: {done.stdout}{done.stderr}"


def our_environment() -> dict[str, str]:
    """What a program with Orbiter in it needs to find it when started from a test."""
    sources = [str(path) for path in sorted(ROOT.glob("packages/*/src"))]
    return {"PYTHONPATH": os.pathsep.join(sources)}
