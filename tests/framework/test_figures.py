"""The figures in READMEs are those of bench/*.json, written by a command."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))

import figures  # noqa: E402 - the benchmarks are programs, not a package


@pytest.mark.parametrize("page", figures.PAGES)
def test_the_figures_are_those_that_were_measured(page: str) -> None:
    text = (ROOT / page).read_text()
    assert figures.renewed(text, figures.PAGES[page]) == text, "run `make bench-readme`"


def test_what_is_measured_anew_makes_a_page_old() -> None:
    page = (ROOT / "operator/README.md").read_text()
    found = figures.measured("operator")
    found["cost"]["operator_cpu_ms_per_task"] = 12345.678

    def results(name: str) -> Any:
        return found if name == "operator" else figures.measured(name)

    changed = figures.renewed(page, figures.PAGES["operator/README.md"], results)
    assert "12,345.68 ms" in changed != page


@pytest.mark.parametrize("page", figures.PAGES)
def test_the_chapter_of_figures_has_no_other_numbers_than_theirs(page: str) -> None:
    text = (ROOT / page).read_text()
    first, last = text.index("<!-- figures: "), text.rindex(figures.END)
    chapter = text[text.rindex("\n## ", 0, first) : last + len(figures.END)]
    words = re.sub(r"<!-- figures: .*?<!-- end of figures -->", "", chapter, flags=re.DOTALL)
    assert re.findall(r"[0-9.]+ (?:ms|s|MB|%)", words) == []


SOAK = {
    "seed": 4711,
    "seconds": 1803,
    "faults": {"all": 212, "pod killed": 80},
    "tasks": 300,
    "messages": 500,
    "lost": 0,
    "answered_twice": 0,
    "turns": {"checkpoints": {"share": 0.021}, "none": {"share": 0.4}},
    "answer": {"times": 500, "p50": 3.21, "p99": 31.0, "mean": 5.0},
    "away": {
        "Evicted": {"times": 80, "p50": 11.04, "p99": 17.0, "turns_again": 0.12},
        "Unheard": {"times": 0, "turns_again": None},
    },
}


def test_a_soak_says_of_each_fault_what_it_costs() -> None:
    lines = figures.soak(SOAK).splitlines()
    assert lines[2] == (
        "| pod evicted, or its node drained | `Pending`, `resumed after Evicted (n)` | 80 | "
        "11.0 s, 17.0 s | 0.12 |"
    )
    assert lines[3].startswith("| Unheard | `Unheard` | 0 |")
    assert (
        "| a message to a session | an answer that takes longer | 500 | 3.2 s, 31.0 s |"
        in (lines[4])
    )
    assert "| faults | 212 in 1,803 s |" in lines
    assert "| turns paid again, with checkpoints and without | 2.1 %, 40.0 % |" in lines


@pytest.mark.parametrize(
    ("name", "verb"), [("soak", "make soak"), ("checkpoints", "make bench-checkpoints")]
)
def test_what_was_not_measured_yet_is_said_with_what_does(name: str, verb: str) -> None:
    assert figures.table(name, None) == f"Not measured yet: `{verb}` does.\n"


def test_what_a_checkpoint_takes_stands_beside_a_bare_tar() -> None:
    found = {
        "ms": {"keep": 341.3, "pack": 7050.4, "restore": 616.7, "unpack": 1175.9},
        "bytes": {"checkpoint": 1_001_933, "tar": 100_160_869},
        "keep_ratio": 0.048,
        "restore_ratio": 0.524,
        "size_ratio": 0.01,
    }
    rows = {row.what: row for row in figures.TABLES["checkpoints"]}
    kept = rows["a clone, 1 MB of it edited: a checkpoint"]
    assert kept.path == "parts.edited"
    assert kept.show(found) == "341 ms, 0.05 times tar's 7,050"
    assert rows["its size"].show(found) == "1.0 MB, 0.01 times tar's 100.2"
