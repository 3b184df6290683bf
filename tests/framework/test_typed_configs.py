"""Two type checkers know configs, agents and runs exactly, as users have the packages installed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "framework" / "typed_configs.py"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """All packages in one directory, as wheels lay them, and a user's file beside them."""
    home = tmp_path_factory.mktemp("typed")
    for package in sorted(ROOT.glob("packages/*/src")):
        shutil.copytree(package, home / "packages", dirs_exist_ok=True)
    shutil.copy(SAMPLE, home)
    return home


def checked(command, home):
    """Run a type checker and return its exit code and its words."""
    environment = {**os.environ, "MYPYPATH": str(home / "packages")}
    done = subprocess.run(
        [sys.executable, "-m", *command, SAMPLE.name],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_mypy_knows_them(installed):
    # without a configuration, and without pydantic's plugin: as most users have it
    options = ["--strict", "--config-file", os.devnull, "--follow-imports", "silent"]
    status, said = checked(["mypy", *options], installed)
    assert status == 0, said


def test_pyright_knows_them(installed):
    settings = {
        "typeCheckingMode": "strict",
        "extraPaths": ["packages"],
        "include": [SAMPLE.name],
        "reportUnnecessaryTypeIgnoreComment": "error",
        # `assert_type` gives its argument back; parameters of the tools are for the model
        "reportUnusedCallResult": "none",
        "enableTypeIgnoreComments": False,
    }
    (installed / "pyrightconfig.json").write_text(json.dumps(settings))
    status, said = checked(["basedpyright", "--pythonpath", sys.executable], installed)
    assert status == 0, said


def test_there_are_types_to_know_and_mistakes_to_find():
    text = SAMPLE.read_text()
    assert text.count("assert_type(") > 20
    mistakes = re.findall(r"# type: ignore\[.*\]  # pyright: ignore\[", text)
    assert len(mistakes) > 7
