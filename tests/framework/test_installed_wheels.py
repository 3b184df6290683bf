"""The packages as users have them: built as wheels, installed together, one namespace."""

import itertools
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    "core", "models", "memory", "context", "tasks", "trace", "mcp", "sandbox", "eval", "a2a",
    "client", "server", "train", "cli",
)  # fmt: skip
IMPORTS = [
    "import orbiter",
    "import orbiter.tool",
    "import orbiter.models",
    "import orbiter.runner",
]


def command(*words: str | Path, cwd: Path = ROOT) -> str:
    """Run a command and return what it prints."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "MYPY", "MAKE"))}
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, words))}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of its own with the wheels in it; third parties come from the one that tests."""
    home = tmp_path_factory.mktemp("installed")
    command("make", "wheels", f"DIST={home}")
    command(sys.executable, "-m", "venv", "--without-pip", home / "venv")
    python = home / "venv" / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    command(uv, "pip", "install", "--offline", "--no-deps", "--python", python,
            *home.glob("*.whl"))  # fmt: skip
    [site] = (home / "venv" / "lib").glob("python*/site-packages")
    # a .pth in here is read, those in the directory it names are not: no editable install leaks in
    (site / "third_parties.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_the_packages_share_one_namespace(installed):
    program = (
        "import orbiter, orbiter.context, orbiter.memory, orbiter.models, pydantic\n"
        "for module in (orbiter, orbiter.context, orbiter.memory, orbiter.models, pydantic):\n"
        "    print(module.__file__)\n"
    )
    venv = str(installed.parents[1])
    where = command(installed, "-c", program).splitlines()
    assert [path.startswith(venv) for path in where] == [True, True, True, True, False]


@pytest.mark.parametrize("how", ["wheels", "checkout"])
@pytest.mark.parametrize("order", list(itertools.permutations(IMPORTS, 2)))
def test_tool_is_the_decorator_whatever_was_imported_before(installed, how, order):
    python = installed if how == "wheels" else Path(sys.executable)
    program = "\n".join([*order, "from orbiter import tool", "print(type(tool).__name__)"])
    program += "\nimport sys; print(type(sys.modules['orbiter.tool']).__name__)"
    assert command(python, "-c", program).split() == ["function", "module"]


def test_core_needs_pydantic_only(installed):
    program = (
        "import sys, orbiter\n"
        "roots = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(r for r in roots if not r.startswith('_') and "
        "r not in sys.stdlib_module_names))"
    )
    allowed = {"annotated_types", "orbiter", "pydantic", "pydantic_core", "typing_extensions",
               "typing_inspection"}  # fmt: skip
    assert set(eval(command(installed, "-c", program))) <= allowed


@pytest.mark.parametrize("program", ["orbiter", "kubectl-orbiter"])
def test_the_programs_start(installed, program):
    assert "Usage" in command(installed.with_name(program), "--help")


def test_every_package_of_the_checkout_has_its_wheel(installed):
    built = {wheel.name.split("-")[0] for wheel in installed.parents[2].glob("*.whl")}
    there = {file.parent.name for file in ROOT.glob("packages/*/pyproject.toml")}
    there |= {"orbiter-contracts", "orbiter-operator", "orbiter-triggers", "worker-wrapper"}
    assert built == {name.replace("-", "_") for name in there}


def test_every_wheel_brings_its_licence_and_its_readme(installed):
    program = (
        "from importlib.metadata import distribution\n"
        f"for part in {PARTS}:\n"
        "    name = f'orbiter-{part}'\n"
        "    told = distribution(name).metadata\n"
        "    [licence] = [f for f in distribution(name).files if f.name == 'LICENSE']\n"
        "    assert 'Apache License' in licence.read_text()\n"
        "    assert told['License-Expression'] == 'Apache-2.0'\n"
        "    assert told.get_payload().startswith(f'# {name}')\n"
    )
    command(installed, "-c", program)


def test_a_users_program_passes_mypy_strict(installed, tmp_path):
    program = Path(__file__).with_name("user_program.py")
    said = command(
        sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", tmp_path,
        "--python-executable", installed, program,
    )  # fmt: skip
    assert "Success" in said
