"""Who may import whom in the packages of the framework, and how big a file may grow.

`make imports` has the rules of layers and circles as contracts; these tests read the source itself,
so that a rule does not depend on one tool, and know what no contract can say.
"""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[2] / "packages"
MAY_IMPORT = {
    "orbiter-core": set(),
    "orbiter-models": {"orbiter-core"},
    "orbiter-memory": {"orbiter-core"},
    "orbiter-context": {"orbiter-core", "orbiter-memory"},
    "orbiter-trace": {"orbiter-core"},
    "orbiter-tasks": {"orbiter-core"},
    "orbiter-mcp": {"orbiter-core"},
    "orbiter-sandbox": {"orbiter-core"},
    "orbiter-eval": {"orbiter-core"},
    "orbiter-a2a": {"orbiter-core", "orbiter-tasks"},
    "orbiter-client": {"orbiter-core", "orbiter-tasks"},
    "orbiter-server": {"orbiter-client", "orbiter-core", "orbiter-models", "orbiter-tasks"},
    "orbiter-train": {"orbiter-core", "orbiter-models"},
    "orbiter-cli": {
        "orbiter-core",
        "orbiter-models",
        "orbiter-context",
        "orbiter-memory",
        "orbiter-tasks",
        "orbiter-trace",
        "orbiter-mcp",
        "orbiter-eval",
        "orbiter-client",
        "orbiter-server",
        "orbiter-sandbox",
    },
}
# the public modules of core, from the bottom up; each knows only those before it
CORE = [
    "types", "sqlite_file", "events", "config", "registry", "protocols", "tool", "observer",
    "hooks", "agent", "swarm", "runner",
]  # fmt: skip
# the rooms of the command line, from the bottom up
CLI = ["ui", "agent", "task", "commands", "kubectl", "main"]
BIGGEST_FILE = 250
BIGGEST_CLASS = 200


@cache
def modules() -> dict[str, tuple[str, Path]]:
    """Return package and file of every module, by the module's name."""
    found = {}
    for package in MAY_IMPORT:
        source = PACKAGES / package / "src"
        for file in source.rglob("*.py"):
            parts = file.relative_to(source).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = (package, file)
    return found


def imports(file: Path) -> Iterator[str]:
    """Return the modules of the framework that a file imports, be it for a type checker only."""
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules() else node.module for name in names]
        yield from (name for name in names if name in modules())


EDGES = sorted(
    (name, target) for name, (_, file) in modules().items() for target in set(imports(file))
)
FILES = [file for _, file in modules().values()]


def test_packages_import_only_those_they_may():
    for name, target in EDGES:
        package, other = modules()[name][0], modules()[target][0]
        allowed = MAY_IMPORT[package] | {package}
        assert other in allowed, f"{name} imports {target}, {package} may not know {other}"


def test_private_modules_are_imported_by_their_own_package_only():
    for name, target in EDGES:
        if "._" in target:
            same = modules()[name][0] == modules()[target][0]
            assert same, f"{name} imports {target}, which is private to {modules()[target][0]}"


def test_nothing_imports_in_circles():
    # an __init__ only gathers what its package offers; importing from it is another matter
    graph: dict[str, set[str]] = {}
    for name, target in EDGES:
        if modules()[name][1].name != "__init__.py":
            graph.setdefault(name, set()).add(target)
    TopologicalSorter(graph).prepare()


def test_the_public_modules_of_core_stand_on_each_other_in_order():
    for name, target in EDGES:
        below, above = target.removeprefix("orbiter."), name.removeprefix("orbiter.")
        if above in CORE and below in CORE:
            assert CORE.index(below) < CORE.index(above), f"{name} imports {target}"


def test_the_rooms_of_the_command_line_stand_on_each_other_in_order():
    for name, target in EDGES:
        rooms = [
            module.removeprefix("orbiter.cli.").partition(".")[0]
            if "orbiter.cli." in module
            else ""
            for module in (target, name)
        ]
        if all(rooms):
            below, above = map(CLI.index, rooms)
            assert below <= above, f"{name} imports {target}"
            assert rooms != ["commands", "kubectl"], f"{name}: the plugin knows no command"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGES)))
def test_files_and_classes_stay_small(file):
    text = file.read_text()
    assert text.count("\n") <= BIGGEST_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            assert node.end_lineno - node.lineno < BIGGEST_CLASS, node.name


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if file.name == "__init__.py"],
    ids=lambda file: str(file.relative_to(PACKAGES)),
)
def test_an_init_only_gathers_what_its_package_offers(file):
    for node in ast.parse(file.read_text()).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        names = [t.id for t in getattr(node, "targets", []) if isinstance(t, ast.Name)]
        declared = bool(names) and set(names) <= {"__all__", "__path__", "__version__"}
        assert docstring or declared or isinstance(node, ast.Import | ast.ImportFrom)
