"""Times, tokens and texts as people read them."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

_ABSENT: Final[tuple[object, ...]] = (None, "", [], {})
_CONTROL: Final = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    # what turns the order of the letters around, breaks lines unseen, and what no encoding has
    r"|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str) -> str:
    """Leave out what a terminal would obey: others' words are text, whatever is in them.

    Everything that comes from an object, an agent or the API server passes here before it is
    printed for people: control characters, C1 too, bidirectional overrides and lone surrogates go.
    """
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def seconds(value: float) -> str:
    """A duration.

    >>> seconds(4.26), seconds(83), seconds(1800), seconds(7260)
    ('4.3 s', '1m23s', '30m', '2h1m')
    """
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    return f"{minutes}m{rest}s" if rest else f"{minutes}m"


def moment(text: str | None) -> datetime | None:
    """A time of an object, None when there is none or no calendar has it."""
    if not isinstance(text, str):
        return None
    try:
        read = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def ago(text: str | None, now: datetime) -> str:
    """How long ago a time of a status was; `-` when there is none."""
    then = moment(text)
    return "-" if then is None else f"{seconds(max(0.0, (now - then).total_seconds()))} ago"


def money(usd: float) -> str:
    """US dollars as people read them, the one way for every table and sentence.

    >>> money(0.13208399999999998), money(1234.5)
    ('0.1321', '1,234.5000')
    """
    return f"{usd:,.4f}"


def spent(usage: Mapping[str, Any]) -> str:
    """One line of what was spent, from a status' `usage`; empty when nothing is known.

    >>> spent({"inputTokens": 1200, "outputTokens": 80, "costUSD": 0.01})
    '1,200 + 80 tokens, 0.0100 USD'
    """
    if not usage:
        return ""
    read, written = usage.get("inputTokens", 0), usage.get("outputTokens", 0)
    text = f"{read:,} + {written:,} tokens"
    cost = usage.get("costUSD")
    return text if cost is None else f"{text}, {money(cost)} USD"


def one_line(text: str, width: int = 100) -> str:
    """The text on one line, cut at `width` characters."""
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as columns; the last one is as wide as it is.

    >>> print(aligned([("NAME", "COST"), ("hello", "0.1")]))
    NAME   COST
    hello  0.1
    """
    clean = [[one_line(cell, 1000) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in clean
    )
    return "\n".join(lines)


def facts_table(facts: Mapping[str, Any]) -> str:
    """One fact a line, its label before it; facts that are None or empty are left out.

    >>> print(facts_table({"name": "hello", "commit": None, "attempts": 2}))
    name      hello
    attempts  2
    """
    known = {
        plain(label): plain(str(fact)).rstrip()
        for label, fact in facts.items()
        if fact not in _ABSENT
    }
    width = max(map(len, known), default=0)
    indent = "\n" + " " * (width + 2)
    return "\n".join(
        f"{label:<{width}}  {fact.replace(chr(10), indent)}" for label, fact in known.items()
    )
