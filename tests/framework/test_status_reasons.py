"""The reasons of tasks and sessions have no list: those that the code decides stand on the page.

The page is the operator's README, to which docs/tasks.md and docs/sessions.md lead.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = ROOT / "operator" / "src" / "orbiter_operator"
PAGE = (ROOT / "operator" / "README.md").read_text()
DECIDE = {"wait", "give_up", "_cancel", "View", "ConditionState", "Classification", "Outcome"}
"""Calls that take a reason by its place."""
NONE_OF_OURS = {"Classification", "PodState", "VerdictEvent"}
"""Calls whose `reason` is the pod's own, or a number of sentences."""
WORD = re.compile(r"[A-Z][A-Za-z]+")
HOMES = [
    *(OPERATOR / part for part in ("tasks", "sessions", "pods", "profiles", "budgets")),
    ROOT / "wrapper" / "src" / "worker_wrapper" / "turn",
    ROOT / "contracts" / "src" / "orbiter_contracts",
]


def words(node: ast.expr) -> Iterator[str]:
    """The words that an argument may be: a constant, or either side of a condition."""
    if isinstance(node, ast.IfExp):
        yield from words(node.body)
        yield from words(node.orelse)
    elif isinstance(node, ast.Constant) and WORD.fullmatch(str(node.value)):
        yield str(node.value)


def reasons(code: str) -> set[str]:
    """What a file decides as a reason: by the name `reason`, or in the place of one."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        given = [word.value for word in node.keywords if word.arg == "reason"]
        if called == "SnapshotReport":
            found |= {f"Snapshot{word}" for value in given for word in words(value)}
        elif called not in NONE_OF_OURS:
            found |= {word for value in given for word in words(value)}
        if called in DECIDE:
            found |= {word for value in node.args for word in words(value)}
    return found - {"True", "False", "None", "Unknown", "Failed", "Completed"}


def decided() -> dict[str, set[str]]:
    """Every reason, with the files that decide it."""
    found: dict[str, set[str]] = {}
    snapshots = [
        ROOT / "wrapper/src/worker_wrapper/session/snapshot.py",
        ROOT / "wrapper/src/worker_wrapper/queue/claims.py",
    ]
    for file in [*snapshots, *(file for home in HOMES for file in sorted(home.rglob("*.py")))]:
        for reason in reasons(file.read_text()):
            found.setdefault(reason, set()).add(file.name)
    return found


@pytest.mark.parametrize(("reason", "files"), sorted(decided().items()))
def test_each_reason_that_is_decided_stands_on_the_page(reason: str, files: set[str]) -> None:
    assert re.search(rf"`{reason}`", PAGE), f"{', '.join(sorted(files))}: not in operator/README.md"


def test_the_pages_of_tasks_and_sessions_lead_there_and_name_what_profiles_may_lack() -> None:
    for page, heading in (("tasks", "what-a-tasks"), ("sessions", "what-a-sessions")):
        text = (ROOT / "docs" / f"{page}.md").read_text()
        assert f"(../operator/README.md#{heading}-status-says)" in text
        for reason in ("ProfileMissing", "ProfileInvalid", "ProfileConflict"):
            assert f"`{reason}`" in text


def test_reasons_are_found_however_they_are_given() -> None:
    code = (
        'wait(observed, now, "QueueLost" if lost else "QueueAway", text)\n'
        'Explanation(reason="Evicted", message="It went")\n'
        'SnapshotReport(stored=False, reason="TooLarge")\nPodState(reason="Shutdown")\n'
    )
    assert reasons(code) == {"QueueLost", "QueueAway", "Evicted", "SnapshotTooLarge"}
    found = set(decided())
    assert {"ProfileConflict", "OOMKilled", "NoVerdict", "NoDeadLetters", "InputTimeout"} <= found
    assert len(found) > 50
