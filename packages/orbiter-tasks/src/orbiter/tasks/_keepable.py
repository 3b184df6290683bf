"""Makes whatever an agent or a caller hands over into something that every store can keep.

Stores keep JSON in UTF-8. What that cannot hold is replaced here, once, before a store sees it.
"""

import math
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

MOST_TEXT = 1_048_576
"""Characters that a result or an error has at most, with the note that there were more."""
MOST_DEPTH = 100
MOST_VALUES = 1_000_000
LEFT_OUT = "…"
# Python writes no longer integers in decimal
_MOST_BITS = 14_000
_LAST_YEAR = 9000


def text(value: Any) -> Any:
    """Return a string without lone surrogates, which UTF-8 cannot hold; others as they are."""
    if not isinstance(value, str) or value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        # halves that stand together become the character they are halves of
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def plain(value: Any) -> Any:
    """Return JSON values as JSON can hold them: total, and bounded in depth and number."""
    return _Plain().of(value, 0)


class _Plain:
    """One walk through a value: what was met so far, and what stands above."""

    def __init__(self) -> None:
        self._left = MOST_VALUES
        self._above: set[int] = set()

    def of(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, bytes | bytearray):
            return bytes(value).decode("utf-8", "replace")
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, int):
            return value if value.bit_length() <= _MOST_BITS else hex(value)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth >= MOST_DEPTH or id(value) in self._above or self._left <= 0:
            return LEFT_OUT
        self._left -= 1 + len(value)
        self._above.add(id(value))
        try:
            if isinstance(value, dict):
                return {text(key): self.of(item, depth + 1) for key, item in value.items()}
            items = [self.of(item, depth + 1) for item in value]
        finally:
            self._above.discard(id(value))
        return tuple(items) if isinstance(value, tuple) else items


def moment(value: datetime | None) -> datetime | None:
    """Return a time with its zone, UTC if it has none.

    Raises:
        ValueError: It is so far away that nothing can be reckoned with it.
    """
    if value is None:
        return None
    if value.year > _LAST_YEAR:
        raise ValueError(f"the year is after {_LAST_YEAR}")
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def outcome(value: Any) -> str:
    """Return what an agent returned as text: models as JSON, bytes as UTF-8. It never raises."""
    for attempt in (_usual, _bounded):
        try:
            return shortened(attempt(value))
        except Exception:  # noqa: S112 - it is the value that raises, and the next attempt is ours
            continue
    return f"<{type(value).__name__} that has no text>"


def shortened(value: str) -> str:
    """Return the beginning of a long text, which says then that it goes on."""
    value = str(text(value))
    if len(value) <= MOST_TEXT:
        return value
    kept = MOST_TEXT - 100
    return f"{value[:kept]}\n{LEFT_OUT} ({len(value) - kept} more characters not kept)"


def _usual(value: Any) -> str:
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return str(plain(value) if isinstance(value, bytes | bytearray) else value)


def _bounded(value: Any) -> str:
    return str(plain(value.__dict__ if isinstance(value, BaseModel) else value))
