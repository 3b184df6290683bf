"""Wheels and sdists: the same from an sdist as from the source, and programs that start."""

import sys
from pathlib import Path

import pytest
from orbiter_images.runner import StepError
from orbiter_release import installation, packages

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "small"
version = "1.0"
requires-python = ">=3.11"

[tool.hatch.build.targets.wheel]
packages = ["src/small"]

[tool.hatch.build.targets.sdist]
exclude = [{excluded}]
"""


def project(home: Path, *, excluded: str = "") -> Path:
    (home / "src/small").mkdir(parents=True)
    (home / "src/small/__init__.py").touch()
    (home / "src/small/more.py").write_text("MORE = 1\n")
    (home / "pyproject.toml").write_text(PROJECT.format(excluded=excluded))
    return home


def test_an_sdist_makes_the_wheel_that_its_source_makes(tmp_path):
    built = packages.build([project(tmp_path / "source")], tmp_path / "dist")
    assert [file.name for file in built] == ["small-1.0-py3-none-any.whl", "small-1.0.tar.gz"]
    assert packages.check(built) == 1


def test_an_sdist_that_lacks_a_file_is_named(tmp_path):
    source = project(tmp_path / "source", excluded='"src/small/more.py"')
    built = packages.build([source], tmp_path / "dist")
    with pytest.raises(StepError, match=r"small-1\.0\.tar\.gz makes another small-1\.0-py3"):
        packages.check(built)


def programs(home: Path, *, broken: str = "", version: str = "0.2.0") -> Path:
    """Programs as an installation has them."""
    home.mkdir()
    for name in installation.PROGRAMS:
        text = f"orbiter {version}" if name == "orbiter" else ""
        end = "exit 3" if name == broken else ""
        (home / name).write_text(
            f'#!/bin/sh\n[ "$1" = --help ] && echo "Usage: {name}" || echo "{text}"\n{end}\n'
        )
        (home / name).chmod(0o755)
    return home


def test_each_program_has_to_say_how_it_is_used(tmp_path):
    assert installation.check(programs(tmp_path / "well"), "0.2.0") == 3
    with pytest.raises(StepError, match="worker-wrapper --help: exit code 3"):
        installation.check(programs(tmp_path / "ill", broken="worker-wrapper"), "0.2.0")


def test_a_program_of_another_version_is_named(tmp_path):
    with pytest.raises(StepError, match="orbiter --version"):
        installation.check(programs(tmp_path / "old", version="0.1.0"), "0.2.0")


def test_what_this_python_would_import_is_nothing_to_the_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    home = programs(tmp_path / "well")
    for name in installation.PROGRAMS:
        (home / name).write_text(
            f"#!{sys.executable}\nimport os\nassert 'PYTHONPATH' not in os.environ\n"
            "print('Usage', 'orbiter 0.2.0')\n"
        )
    assert installation.check(home, "0.2.0") == 3
