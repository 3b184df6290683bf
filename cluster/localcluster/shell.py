"""Running other programs, with errors that carry what they said."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from localcluster.errors import ClusterError

POLL_SECONDS = 0.05


def run(
    argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a program to its end and return its standard output.

    Raises:
        ClusterError: it is not there or failed; the message ends with its last lines.
    """
    try:
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ClusterError(f"{argv[0]} is not installed") from None
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise ClusterError(f"`{' '.join(argv)}` failed with exit code {done.returncode}:\n{said}")
    return done.stdout


def succeeds(argv: Sequence[str], timeout: float = 20.0) -> bool:
    """Whether a program exists, ends within `timeout` seconds and exits with 0."""
    try:
        done = subprocess.run(argv, capture_output=True, check=False, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def wait_for(condition: Callable[[], bool], timeout: float) -> bool:
    """Poll until the condition holds; False when `timeout` seconds passed first."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
