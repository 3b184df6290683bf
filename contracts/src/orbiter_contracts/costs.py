"""What tasks and sessions have cost, summed up by what people ask for. Pure.

The server's page and `kubectl orbiter cost` both sum with this; the page has its objects read
already, the command reads them with `cost_of`. What is missing or out of range in one was not told,
which is counted and is not 0.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple

from orbiter_contracts.bounds import one_line, printable
from orbiter_contracts.clamping import clamped_cost, clamped_count
from orbiter_contracts.outcome import FINAL_PHASES

Kind = Literal["task", "session", "budget"]
NONE: Final = "none"
"""The value of what has no such label, or no agent."""
OTHER: Final = "other"
"""The value of the row in which those are together that cost least."""
BUDGET: Final = "(budget)"
"""The value, but for the namespace, of what only a budget still knows of."""
MOST_KEYS: Final = 4
_KEYS: Final = ("namespace", "agent", "kind", "day")
_LABEL: Final = re.compile(r"label:([A-Za-z0-9./_-]{1,317})")
_NO_LABELS: Final[Mapping[str, str]] = {}


class Cost(NamedTuple):
    """What one object has cost.

    Attributes:
        namespace: Where it is.
        kind: What it is; of a budget, what it was charged that no object tells.
        active_at: When it ended or was last at work, of UTC; None when nobody knows.
        usd: US dollars; None when it was not told.
        agent: The type of its agent, empty when nobody says.
        labels: Its own.
        input_tokens: Of all attempts or turns.
        output_tokens: Likewise.
        without_cost: Attempts of a task, or turns of a session, that have told no cost.
        over: Whether it has ended, so that it costs no more.
    """

    namespace: str
    kind: Kind
    active_at: datetime | None
    usd: float | None
    agent: str = ""
    labels: Mapping[str, str] = _NO_LABELS
    input_tokens: int = 0
    output_tokens: int = 0
    without_cost: int = 0
    over: bool = True


class CostSum(NamedTuple):
    """A row: the values of the keys in their order, and what they come to."""

    keys: tuple[str, ...]
    usd: float
    tasks: int
    sessions: int
    input_tokens: int
    output_tokens: int
    without_cost: int


def read_keys(text: str) -> tuple[str, ...]:
    """Read by what is to be summed: `namespace`, `agent`, `kind`, `day`, `label:KEY`, with commas.

    >>> read_keys("namespace,label:team")
    ('namespace', 'label:team')

    Raises:
        ValueError: It is something else, says one twice, or more than `MOST_KEYS`.
    """
    keys = tuple(each.strip() for each in text.split(","))
    for key in keys:
        if not key:
            raise ValueError(f"{one_line(text, 80)!r} names nothing to sum by at one place")
        if key not in _KEYS and label_in(key) is None:
            known = ", ".join((*_KEYS, "label:KEY"))
            raise ValueError(f"{one_line(key, 80)!r} is nothing to sum by; write {known}")
        if keys.count(key) > 1:
            raise ValueError(f"{one_line(text, 80)!r} names {key!r} twice")
    if len(keys) > MOST_KEYS:
        raise ValueError(f"{len(keys)} keys to sum by; write at most {MOST_KEYS}")
    return keys


def label_in(key: str) -> str | None:
    """The label's key in `label:KEY`; None of any other key."""
    found = _LABEL.fullmatch(key)
    return found and found[1]


def cost_of(item: Mapping[str, Any], kind: Kind) -> Cost:
    """What an AgentTask or a POSession of the API has cost. Total.

    Args:
        item: The object, whatever is in it.
        kind: Which of the two.
    """
    meta, spec, status = (_part(item, key) for key in ("metadata", "spec", "status"))
    usage, usd = _part(status, "usage"), clamped_cost(_part(status, "usage").get("costUSD"))
    agent = (_part(status, "agent") or _part(spec, "agent")).get("type")
    times = (status.get(key) for key in ("completionTime", "lastActivityTime", "startTime"))
    moments = (_moment(each) for each in (*times, meta.get("creationTimestamp")))
    begun = clamped_count(status.get("attempts" if kind == "task" else "turns"))
    unknown = clamped_count(status.get("unpriced")) if kind == "session" else 0
    return Cost(
        namespace=_text(meta.get("namespace")),
        kind=kind,
        active_at=next((at for at in moments if at is not None), None),
        usd=usd,
        agent=_text(agent),
        labels={k: v for k, v in _part(meta, "labels").items() if isinstance(v, str)},
        input_tokens=clamped_count(usage.get("inputTokens")),
        output_tokens=clamped_count(usage.get("outputTokens")),
        without_cost=max(begun, unknown) if usd is None else unknown,
        over=_text(status.get("phase")) in FINAL_PHASES,
    )


def sum_costs(
    costs: Iterable[Cost], by: Sequence[str], since: datetime, *, most: int | None = None
) -> tuple[list[CostSum], CostSum]:
    """Sum up; of the costs, which may be any number, only their rows are kept.

    A session has one sum for all its days: where the day is a key it belongs to none, and is left
    out.

    Args:
        costs: Each counts when it was last active.
        by: Keys as `read_keys` reads them.
        since: What was active earlier does not count.
        most: Rows at most, and one more in which those are together that cost least; None for all.

    Returns:
        The rows, the dearest first, by the day first where that is the only key; and the total.
    """
    found: dict[tuple[str, ...], _Row] = {}
    for cost in costs:
        if cost.active_at is None or cost.active_at < since:
            continue
        if cost.kind == "session" and "day" in by:
            continue
        keys = tuple(_value(cost, key) for key in by)
        found.setdefault(keys, _Row()).add(cost)
    every = sorted(((k, row.sum(k)) for k, row in found.items()), key=lambda r: (-r[1].usd, r[0]))
    kept, rest = every[:most], every[len(every) if most is None else most :]
    rows = [row for _, row in kept]
    if rest:
        rows.append(_together((found[keys] for keys, _ in rest), (OTHER,) * len(by)))
    if tuple(by) == ("day",):
        rows.sort(key=lambda row: row.keys)
    return rows, _together(found.values(), ("",) * len(by))


class _Row:
    """What a row is made of; money is added up exactly, so in whatever order it comes."""

    def __init__(self) -> None:
        self.usd = Fraction(0)
        self.numbers = [0] * 5

    def add(self, cost: Cost) -> None:
        self.usd += Fraction(cost.usd or 0.0)
        one = (cost.kind == "task", cost.kind == "session")
        added = (*one, cost.input_tokens, cost.output_tokens, cost.without_cost)
        self.numbers = [a + b for a, b in zip(self.numbers, added, strict=True)]

    def sum(self, keys: tuple[str, ...]) -> CostSum:
        return CostSum(keys, float(self.usd), *self.numbers)


def _together(rows: Iterable[_Row], keys: tuple[str, ...]) -> CostSum:
    every = _Row()
    for row in rows:
        every.usd += row.usd
        every.numbers = [a + b for a, b in zip(every.numbers, row.numbers, strict=True)]
    return every.sum(keys)


def _value(cost: Cost, key: str) -> str:
    if key == "namespace":
        return cost.namespace or NONE
    if cost.kind == "budget":
        return BUDGET
    if key == "kind":
        return cost.kind
    if key == "agent":
        return cost.agent or NONE
    if key == "day":
        return cost.active_at.astimezone(UTC).date().isoformat() if cost.active_at else NONE
    return cost.labels.get(label_in(key) or "") or NONE


def _part(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return printable(value[:253]) if isinstance(value, str) else ""


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
        # the last day of the year 9999 is none of UTC everywhere
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
