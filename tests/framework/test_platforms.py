"""The table of platforms in README: our marks have tests, and those of others pages and reasons."""

import ast
import json
import re
import sys
from calendar import month_name
from datetime import date
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))

import platforms  # noqa: E402 - the benchmarks are programs, not a package

FOUND = json.loads((ROOT / "bench" / "platforms.json").read_text(encoding="utf-8"))
PEERS = ("Kelos", "kagent", "agent-sandbox")
ROWS = FOUND["rows"]
TESTS = sorted({test for row in ROWS for test in row[platforms.OURS].get("tests", ())})
MOST_ROWS = 25
"""A reader looks at a page of them."""


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.partition("::")[2])
def test_the_test_of_a_mark_exists(test: str) -> None:
    path, name = test.split("::")
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    assert name in {node.name for node in nodes if isinstance(node, functions)}
    assert name.startswith("test_")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["what"])
def test_our_mark_is_a_test_or_says_what_is_missing(row: dict[str, Any]) -> None:
    ours = row[platforms.OURS]
    assert ours["mark"] in ("yes", "part", "no")
    assert bool(ours.get("tests")) == (ours["mark"] != "no")
    assert bool(ours.get("why")) == (ours["mark"] != "yes")


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["what"])
def test_a_mark_of_a_peer_has_its_page_and_its_reason(row: dict[str, Any], peer: str) -> None:
    found = row[peer]
    assert found["mark"] in platforms.MARKS
    if found["mark"] == platforms.SILENT:
        assert found.keys() == {"mark"}
    else:
        assert found["why"]
        place, commit = platforms.page(FOUND["peers"][peer], found["page"])
        assert re.fullmatch(r"[0-9a-f]{40}", commit) or place.startswith("https://")


@pytest.mark.parametrize("peer", PEERS)
def test_every_page_that_is_named_has_been_of_use(peer: str) -> None:
    used = {row[peer]["page"] for row in ROWS if "page" in row[peer]}
    assert used == FOUND["peers"][peer]["pages"].keys()


def test_the_peers_and_the_day_are_those_of_the_page() -> None:
    assert tuple(FOUND["peers"]) == PEERS
    assert all(row.keys() == {"what", platforms.OURS, *PEERS} for row in ROWS)
    assert 15 <= len({row["what"] for row in ROWS}) == len(ROWS) <= MOST_ROWS
    read = date.fromisoformat(FOUND["read"])
    said = f"read on {read.day} {month_name[read.month]} {read.year}"
    assert said in (ROOT / "README.md").read_text(encoding="utf-8")


def test_others_are_ahead_where_we_have_nothing() -> None:
    """A table of our own yeses alone would tell nobody anything."""
    without = [row for row in ROWS if row[platforms.OURS]["mark"] == "no"]
    assert all(any(row[peer]["mark"] in ("yes", "part") for peer in PEERS) for row in without)
    assert len(without) >= 5
