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
