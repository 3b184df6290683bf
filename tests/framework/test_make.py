"""What `make dev` says where it cannot work, and that it leaves nothing half made behind."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Answers `-c CODE` as a Python of that version would; its `-m venv` makes what is there to be left.
OLD_PYTHON = """#!/bin/sh
if [ "$1" = -c ]; then
  exec {python} -c 'import sys
sys.version_info = (3, 10, 13, "final", 0)
_, _, code, *sys.argv[1:] = sys.argv
exec(code)' "$@"
fi
mkdir -p "$3/bin"
"""


def dev(venv: Path, python: Path | str) -> subprocess.CompletedProcess[str]:
    """Type `make dev` with a Python, for an environment of its own."""
    return subprocess.run(
        ["make", "--no-print-directory", "dev", f"VENV={venv}", f"PYTHON={python}"],
        cwd=ROOT,
        # not what the make says that runs the tests
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        capture_output=True,
        text=True,
    )


def an_old_python(directory: Path) -> Path:
    """Put a Python 3.10 into a directory."""
    program = directory / "python3"
    program.write_text(OLD_PYTHON.format(python=sys.executable))
    program.chmod(0o755)
    return program


def test_a_python_that_is_too_old_is_named_with_the_way_to_choose_another(tmp_path):
    old = an_old_python(tmp_path)
    done = dev(tmp_path / "venv", old)
    assert done.returncode != 0
    assert f"{old} is Python 3.10.13, Orbiter needs 3.11 or newer" in done.stderr
    assert "make dev PYTHON=python3.12" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "venv").exists()


def test_an_environment_of_a_python_that_is_too_old_does_not_stay(tmp_path):
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    an_old_python(venv / "bin").rename(venv / "bin" / "python")
    done = dev(venv, an_old_python(tmp_path))
    assert "Orbiter needs 3.11 or newer" in done.stderr
    assert not venv.exists()


def test_an_environment_that_cannot_be_made_does_not_stay(tmp_path):
    broken = tmp_path / "python3"
    broken.write_text('#!/bin/sh\n[ "$1" = -c ] || { mkdir -p "$3/bin"; exit 1; }\n')
    broken.chmod(0o755)
    assert dev(tmp_path / "venv", broken).returncode != 0
    assert not (tmp_path / "venv").exists()


def test_a_python_that_is_not_there_is_named(tmp_path):
    done = dev(tmp_path / "venv", "python3.99")
    assert "there is no python3.99 on PATH" in done.stderr
    assert "make dev PYTHON=python3.12" in done.stderr
