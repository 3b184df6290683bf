"""What the figures of the benchmarks on the cluster are held against.

A row is printed with its goal and what is known of others; a missed goal makes the exit code 1. The
figures are written down first: one that misses is a figure, too.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">=": operator.ge,
}
Rows = Mapping[str, Any]


@dataclass(frozen=True)
class Goal:
    """What one figure has to be.

    Attributes:
        sign: How it is compared: `<`, `<=` or `>=`.
        bound: With what: a number, or the name of another row.
    """

    sign: str
    bound: float | str

    def __str__(self) -> str:
        return f"goal {self.sign} {self.bound}"

    def is_met(self, value: Any, rows: Rows) -> bool:
        """Whether a figure is as it shall be; what was not measured at all is not."""
        bound = rows.get(self.bound) if isinstance(self.bound, str) else self.bound
        if not isinstance(value, int | float) or not isinstance(bound, int | float):
            return False
        return _SIGNS[self.sign](value, bound)


def told(rows: Rows, goals: Mapping[str, Goal], notes: Mapping[str, str]) -> list[str]:
    """A line for each row: its value, its goal and whether that is missed, and what is known."""
    return [_line(name, rows, goals.get(name), notes.get(name, "")) for name in rows]


def _line(name: str, rows: Rows, goal: Goal | None, note: str) -> str:
    value = rows[name]
    said = [str(goal)] if goal else []
    if goal and not goal.is_met(value, rows):
        said.append("MISSED")
    if note:
        said.append(note)
    return f"{name:56} {value!s:>10}  {'; '.join(said)}".rstrip()


def missed(rows: Rows, goals: Mapping[str, Goal]) -> list[str]:
    """The rows that miss their goal, or are not there.

    Args:
        rows: The figures, by their names.
        goals: Those of all figures that were to be measured.
    """
    return [name for name, goal in goals.items() if not goal.is_met(rows.get(name), rows)]


def exit_code(rows: Rows, goals: Mapping[str, Goal]) -> int:
    """1 when something misses its goal, and says what."""
    if not (found := missed(rows, goals)):
        return 0
    print(f"missed: {', '.join(found)}", flush=True)
    return 1
