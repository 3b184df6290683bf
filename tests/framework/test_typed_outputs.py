"""Agents and results are generic: mypy --strict knows the output of a run exactly."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "framework" / "typed_outputs.py"

KNOWN = [
    "Agent[Any, str]",
    "Agent[User, str]",
    "RunResult[str]",
    "str",
    "list[City]",
    "City | int",
    "RunResult[City | None]",
    "str",
    "RunResult[City] | None",
    "Any",
    "Any",
]


def test_mypy_knows_what_each_run_gives():
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", SAMPLE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert [re.sub(r"[\w.]+\.(\w+)", r"\1", kind) for kind in revealed] == KNOWN
    # deps that are not the agent's are the one mistake
    (mistake,) = re.findall(r"error: (.*)", done.stdout)
    assert '"DepsT" of "__call__" of "Runner"' in mistake
