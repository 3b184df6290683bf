"""Every key of Redis is built in one module of contracts: no other spells a part of its name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "contracts/src/orbiter_contracts/queues.py"
PARTS = re.compile(
    r"worker:(developer|po|posessions|namespaces|adopted|lifecycle)|session:user|agent(task|trigger):"
    r"|notify:(object|waiting|events)|:(input|output|dead|lease|snapshot|turns|hold|poll)\b"
    r"|:(checkpoint|artifacts|transcript)\b"
)
PLACES = [ROOT / name for name in ("contracts", "wrapper", "operator", "triggers")]
SOURCES = sorted(
    path
    for place in (*PLACES, *(ROOT / "packages").glob("orbiter-*"))
    for path in (place / "src").rglob("*.py")
)


def spelled(program: str) -> Iterator[str]:
    """The texts of a program that have a part of a key in them; docstrings may."""
    tree = ast.parse(program)
    prose = {
        id(statement.value)
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in prose
            and PARTS.search(node.value)
        ):
            yield node.value


def test_there_is_something_to_look_at() -> None:
    assert len(SOURCES) > 300
    assert HOME in SOURCES
    assert len(list(spelled(HOME.read_text()))) > 5


@pytest.mark.parametrize(
    "program",
    ["x = 'worker:po:a'", "f'{x}:input'", "a = 'agenttask:' + b", "f'{x}notify:object:{y}'"],
)
def test_a_key_that_is_spelled_is_found(program: str) -> None:
    assert list(spelled(program))


def test_no_module_but_one_spells_a_key() -> None:
    found = {
        str(path.relative_to(ROOT)): texts
        for path in SOURCES
        if path != HOME and (texts := list(spelled(path.read_text())))
    }
    assert found == {}
