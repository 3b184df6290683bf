#!/usr/bin/env python3
"""Keeps the table of attacks in docs/security.md: `make attacks-page` rewrites it.

The rows are the suite's own, so the page can neither miss an attack nor promise one that nobody
tries.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from attacks.catalog import ATTACKS, ELSEWHERE
from attacks.table import Attack

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- attacks -->\n", "<!-- end of attacks -->\n"
_AS = re.compile(
    r", (?:as|in) (a (?:developer worker|session|chat front end|producer|worker|"
    r"reader of transcripts))$"
)


def renewed(page: str) -> str:
    """The page with the table of today."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


def table() -> str:
    """The tables as Markdown: what is refused, what is not, and what other tests try."""
    lines = [
        f"{len(ATTACKS)} attempts, each in `tests/attacks`:",
        "",
        "| what stops them | who | what they try |",
        "|---|---|---|",
        *(f"| {guard} | {who} | {what} |" for guard, who, what in _grouped(ATTACKS)),
        "",
        "Tried by other tests:",
        "",
        "| what | test | why not here |",
        "|---|---|---|",
        *(f"| {what} | `{test}` | {why} |" for what, test, why in ELSEWHERE),
        "",
    ]
    return "\n".join(lines)


def _grouped(attacks: Iterable[Attack]) -> Iterator[tuple[str, str, str]]:
    """What stops or does not stop whom from what: one row for all who try the same."""
    triers: dict[tuple[str, str], list[str]] = {}
    for attack in attacks:
        triers.setdefault((attack.guard, _what(attack)), []).append(_who(attack))
    found: dict[tuple[str, str], list[str]] = {}
    for (why, what), who in triers.items():
        found.setdefault((why, ", ".join(dict.fromkeys(who))), []).append(what)
    for (why, who), whats in found.items():
        yield why, who, "; ".join(whats)


def _who(attack: Attack) -> str:
    found = _AS.search(attack.name)
    if found is None:
        return f"the {attack.party}"
    return f"an agent in {found[1]}" if attack.party == "agent" else f"{found[1]}"


def _what(attack: Attack) -> str:
    return _AS.sub("", attack.name).replace("|", "\\|")


def main() -> None:
    """Rewrite the page in place."""
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
