"""What a build would download, fetched by this machine's own pip and npm instead.

They know the package index, proxy and certificates of this machine; the inside of a build does not.
"""

import hashlib
import importlib.util
import platform
import re
import shutil
import sys
from pathlib import Path

from .places import AGENTS, ROOT, WHEELS
from .runner import StepError, run

MARKER = re.compile(r"^(\S+==\S+) ; .*?( \\)?$", re.MULTILINE)
PYTHON = "3.11"


def wheels_directory(lock: str, machine: str | None = None) -> Path:
    """Return where the wheels of a lock file are kept; `machine` is another one than this."""
    digest = hashlib.sha256((ROOT / "images" / f"{lock}.lock").read_bytes()).hexdigest()
    return WHEELS / (machine or "") / f"{lock}-{digest[:12]}"


def agent_directory(agent: str, version: str) -> Path:
    """Return where the CLI of an agent is kept; it has a `bin` when it is complete."""
    return AGENTS / agent / version


def without_markers(requirements: str) -> str:
    """Drop environment markers: pip reads them for this machine's Python, not the image's."""
    return MARKER.sub(r"\1\2", requirements)


def pip() -> list[str]:
    """Return the command that runs a pip.

    Raises:
        StepError: There is none.
    """
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    own = ROOT / ".venv/bin/python"
    if own.exists():
        return [str(own), "-m", "pip"]
    raise StepError("no pip to fetch Python packages with: run `make dev` first")


def platform_options(machine: str) -> list[str]:
    """Return what tells pip which wheels an image of this machine takes."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in (17, 24, 28, 34)]
    options = ["--only-binary=:all:", "--python-version", PYTHON]
    for tag in (*tags, f"manylinux2014_{machine}"):
        options += ["--platform", tag]
    return options


def wheels(lock: str, machine: str | None = None) -> None:
    """Download the wheels of a lock file, checked against its hashes."""
    directory = wheels_directory(lock, machine)
    partial = directory.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    requirements = partial / "requirements.txt"
    requirements.write_text(without_markers((ROOT / "images" / f"{lock}.lock").read_text()))
    command = [*pip(), "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", *platform_options(machine or platform.machine())]
    run([*command, "--dest", str(partial), "-r", str(requirements)])
    for old in directory.parent.glob(f"{lock}-*"):
        if old != partial:
            shutil.rmtree(old)
    partial.rename(directory)


def agent(name: str, version: str) -> None:
    """Fetch the CLI of an agent through npm."""
    directory = agent_directory(name, version)
    directory.parent.mkdir(parents=True, exist_ok=True)
    script = str(ROOT / "images/fetch-agent.sh")
    run(["sh", script, name, str(directory)], hint="npm (Debian: nodejs and npm) is needed")
