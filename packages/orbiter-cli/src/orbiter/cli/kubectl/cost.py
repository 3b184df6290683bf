"""`kubectl orbiter cost`: what tasks and sessions have cost, summed up by what people ask for."""

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import typer

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.ui.input import parse_seconds
from orbiter.cli.ui.outcome import ExitCode, UsageError
from orbiter.cli.ui.progress import say
from orbiter.cli.ui.text import aligned, money, one_line, plain
from orbiter_contracts.costs import Cost, CostSum, label_in, read_keys, sum_costs

FORMS: Final = ("table", "csv", "json")
_WIDEST: Final = 119
_NARROWEST: Final = 6
_MOST_DAYS: Final = 36_500
_NUMBERS: Final = ("COST USD", "TASKS", "SESSIONS", "TOKENS IN", "OUT", "NO COST")
_COLUMNS: Final = (
    "cost_usd", "tasks", "sessions", "input_tokens", "output_tokens", "without_cost",
)  # fmt: skip
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def run_cost(kubectl: Kubectl, *, by: str, since: str, form: str, everywhere: bool) -> int:
    """Sum up and print; what may not be listed is left out with a word on stderr."""
    from orbiter.cli.kubectl.cost_objects import budgets, costs

    keys, begin = _keys(by), _begin(since)
    if form not in FORMS:
        raise UsageError(f"-o {one_line(form, 40)!r} is no form; write {', '.join(FORMS)}")
    namespace = None if everywhere else kubectl.namespace()
    left_out: list[str] = []
    known = budgets(kubectl, namespace, left_out.append)
    rest: list[float] = []
    found = _noting(costs(kubectl, namespace, known, begin, left_out.append), rest)
    rows, total = sum_costs(found, keys, begin)
    if form == "json":
        accounts = [budget._asdict() | {"since": budget.since.isoformat()} for budget in known]
        told = {
            "since": begin.isoformat(),
            "by": keys,
            "rows": [_as_json(row, keys) for row in rows],
            "total": _numbers(total),
            "of_budgets_usd": sum(rest),
            "budgets": accounts,
            "left_out": left_out,
        }
        typer.echo(json.dumps(told))
    elif form == "csv":
        _write_csv(rows, keys)
    else:
        say(table(rows, total, keys))
    for text in left_out:
        say(one_line(text, 300), err=True)
    for text in _notes(total, keys, sum(rest)) if form == "table" else ():
        say(text, err=True)
    return ExitCode.OK


def table(rows: Sequence[CostSum], total: CostSum, keys: Sequence[str]) -> str:
    """The rows and their total in at most 119 columns, whatever is in them."""
    numbers = [_NUMBERS, *(_cells(row) for row in (*rows, total))]
    taken = sum(max(map(len, column)) + 2 for column in zip(*numbers, strict=True))
    width = max((_WIDEST - taken) // len(keys) - 2, _NARROWEST)
    heads = [(label_in(key) or key).upper() for key in keys]
    named = [heads, *(row.keys for row in rows), ("TOTAL", *("" for _ in keys[1:]))]
    return aligned([
        (*(one_line(value, width) for value in values), *cells)
        for values, cells in zip(named, numbers, strict=True)
    ])  # fmt: skip


def safe_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula.

    >>> safe_cell("=1+1"), safe_cell("red")
    ("'=1+1", 'red')
    """
    clean = plain(text)
    return f"'{clean}" if clean.lstrip().startswith(_FORMULA) or clean[:1] in _FORMULA else clean


def _noting(costs: Iterable[Cost], rest: list[float]) -> Iterator[Cost]:
    """The same costs, with a note of what only budgets tell."""
    for cost in costs:
        if cost.kind == "budget":
            rest.append(cost.usd or 0.0)
        yield cost


def _write_csv(rows: Sequence[CostSum], keys: Sequence[str]) -> None:
    """Without the total, which a program that sums the column would count twice."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow([*(safe_cell(key) for key in keys), *_COLUMNS])
    for row in rows:
        out.writerow([*map(safe_cell, row.keys), f"{row.usd:.6f}", *row[2:]])


def _as_json(row: CostSum, keys: Sequence[str]) -> dict[str, Any]:
    return {"keys": dict(zip(keys, row.keys, strict=True)), **_numbers(row)}


def _numbers(row: CostSum) -> dict[str, Any]:
    return dict(zip(_COLUMNS, row[1:], strict=True))


def _cells(row: CostSum) -> tuple[str, ...]:
    tokens = (_short(row.input_tokens), _short(row.output_tokens))
    counts = (f"{row.tasks:,}", f"{row.sessions:,}", *tokens, f"{row.without_cost:,}")
    return money(row.usd), *counts


def _short(count: int) -> str:
    """A count of tokens in a few letters.

    >>> _short(950), _short(12345), _short(2_500_000_000)
    ('950', '12.3k', '2.5G')
    """
    value, units = float(count), iter("kMGTPE")
    unit = ""
    while value >= 1000 and (larger := next(units, "")):
        value, unit = value / 1000, larger
    return f"{value:.1f}{unit}" if unit else str(count)


def _notes(total: CostSum, keys: Sequence[str], rest: float) -> list[str]:
    notes = []
    if total.without_cost:
        notes.append(
            f"NO COST: {total.without_cost:,} attempts of tasks or turns of sessions have told "
            "no cost (yet); they are not in the sums"
        )
    if rest:
        notes.append(
            f"{money(rest)} USD of it were charged to AgentBudgets and are told by nothing that is "
            "there: of what was deleted, and of attempts and turns that told no cost"
        )
    if "day" in keys:
        notes.append("sessions are left out: what one has cost is one sum of all its days")
    return notes


def _keys(by: str) -> tuple[str, ...]:
    try:
        return read_keys(by)
    except ValueError as error:
        raise UsageError(f"--by: {error}") from None


def _begin(since: str) -> datetime:
    seconds = parse_seconds(since) or 0
    if seconds > _MOST_DAYS * 86_400:
        raise UsageError(f"--since {one_line(since, 40)!r} is too long ago; at most {_MOST_DAYS}d")
    return datetime.now(UTC) - timedelta(seconds=seconds)
