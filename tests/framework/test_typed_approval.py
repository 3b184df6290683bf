"""mypy --strict knows what waits for a person, and what is no answer."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "framework" / "typed_approval.py"

KNOWN = [
    "tuple[InputRequest, ...]",
    "str | None",
    "list[InputAnswer]",
    "InputAnswer",
    "str",
    "dict[str, Any]",
    "list[int]",
    "str",
]


def test_mypy_knows_requests_and_answers():
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(SAMPLE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert [re.sub(r"[\w.]+\.(\w+)", r"\1", kind) for kind in revealed] == KNOWN
    # that True is no answer is the one mistake
    (mistake,) = re.findall(r"error: (.*)", done.stdout)
    assert '"bool"; expected "InputAnswer"' in mistake
