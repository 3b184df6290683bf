"""The wheels as a user has them: in an empty environment, beside what requirements.lock pins."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from orbiter_images.runner import StepError, run

PROGRAMS: Final = ("orbiter", "kubectl-orbiter", "worker-wrapper")
_EXTRAS: Final = {"orbiter_cli": "[kubernetes]"}
"""Without them `kubectl orbiter` has no commands."""


def uv() -> Path:
    """The uv of the environment that runs this, or the one on PATH.

    Raises:
        StepError: There is none.
    """
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        raise StepError("there is no uv: run `make dev` first")
    return Path(found)


def install(wheels: Sequence[Path], lock: Path, home: Path) -> Path:
    """Make an environment and install the wheels there; return its directory of programs.

    Args:
        wheels: The wheels: no other package of these names is looked for.
        lock: Versions and hashes of what they need of others.
        home: Where the environment is made anew.
    """
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=False, symlinks=True)
    wanted = []
    for wheel in wheels:
        name = wheel.name.split("-")[0]
        wanted.append(f"{name.replace('_', '-')}{_EXTRAS.get(name, '')} @ {wheel.as_uri()}")
    command = [str(uv()), "pip", "install", "--quiet", "--python", str(home / "bin/python")]
    run(
        [*command, "--constraints", str(lock), *wanted], hint="pinned packages come from your index"
    )
    return home / "bin"


def check(programs: Path, version: str) -> int:
    """Have each program say how it is used; return how many there are.

    Raises:
        StepError: One cannot, or it is of another version.
    """
    # nothing of this checkout, and no cluster
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    clean |= {"HOME": str(programs.parent), "KUBECONFIG": os.devnull}
    asked = [(name, "--help", "Usage") for name in PROGRAMS]
    for name, word, expected in (*asked, ("orbiter", "--version", f"orbiter {version}")):
        done = subprocess.run(
            [programs / name, word],
            cwd=programs,
            env=clean,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or expected not in done.stdout:
            raise StepError(f"{name} {word}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return len(PROGRAMS)
