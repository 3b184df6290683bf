"""Continuous integration types what the README tells a newcomer to type."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def run_with(directory: Path, make: str) -> subprocess.CompletedProcess[str]:
    """Run .ci/run with another `make`, which writes down what it is asked."""
    program = directory / "make"
    program.write_text(f'#!/bin/sh\necho "make $*" >> {directory}/typed\n{make}\n')
    program.chmod(0o755)
    environ = os.environ | {"PATH": f"{directory}:{os.environ['PATH']}"}
    return subprocess.run(
        [ROOT / ".ci/run"], env=environ, capture_output=True, text=True, check=False
    )


def typed(directory: Path) -> list[str]:
    return (directory / "typed").read_text().splitlines()


def test_both_commands_of_the_readme_are_typed_in_their_order_and_timed(tmp_path: Path) -> None:
    ended = run_with(tmp_path, "exit 0")
    chapter = README.split("## Two commands")[1].split("```")[1]
    *newcomers, last = typed(tmp_path)
    assert newcomers == re.findall(r"^make \S+", chapter, re.MULTILINE)
    assert last == "make test-cluster"
    assert ended.returncode == 0
    times = re.findall(r"^\[ ?\d+:\d\d\] (make \S+): done$", ended.stdout, re.MULTILINE)
    assert times == ["make demo", "make test", "make test-cluster"]


def test_a_demo_that_fails_is_the_end_and_says_so(tmp_path: Path) -> None:
    ended = run_with(tmp_path, '[ "$1" != demo ] || exit 3')
    assert typed(tmp_path) == ["make demo"]
    assert ended.returncode == 3
    assert "make demo: failed with exit code 3" in ended.stdout
