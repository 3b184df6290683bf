"""What a stranger may write: any bytes, and JSON of any depth, width, numbers and half characters.

Strategies for hypothesis, shared by the property tests of all decoders and readers.
"""

import json
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

TEXTS = st.text(st.characters(codec=None) | st.characters(categories=["Cs"]), max_size=40)
"""Texts as Python has them, with halves of characters (lone surrogates)."""
ENDLESS = 10**400
"""Written it stands for an integer of more digits than Python reads or shows."""
NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([2**31, 2**53, 2**63, -(2**63) - 1, ENDLESS, 1e308, 0]),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)


def can_be_written(value: Any) -> bool:
    """Whether Python writes it as JSON: integers of thousands of digits it does not."""
    with suppress(ValueError):
        json.dumps(value)
        return True
    return False


def written(value: Any) -> str:
    """JSON as a careless program writes it: with NaN, half characters and endless integers."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return "1" + "0" * 5000 if value == ENDLESS else json.dumps(value)


WRITTEN_NUMBERS = st.sampled_from(
    ["NaN", "Infinity", "-Infinity", "1e309", "-1e309", "9" * 30, "9" * 5000, "-0", "1E400", "00"]
) | NUMBERS.map(lambda number: repr(number) if abs(number) < 10**300 else "1e999")
DEEP = st.integers(1, 3000).map(lambda levels: '{"a":' * levels) | st.integers(1, 300).map(
    lambda levels: "[" * levels + "]" * levels
)
WRITTEN: st.SearchStrategy[str] = st.one_of(
    VALUES.map(written),
    WRITTEN_NUMBERS,
    DEEP,
    st.integers(0, 20_000).map(lambda width: "[" + "0," * width + "0]"),
)
"""JSON values, and what is nearly one."""


@st.composite
def objects(draw: st.DrawFn, names: list[str]) -> bytes:
    """JSON objects whose fields have these names and anybody's values."""
    chosen = draw(st.lists(st.sampled_from([*names, "mood"]), max_size=8))
    text = ",".join(f'"{name}":{draw(WRITTEN)}' for name in chosen)
    return ("{" + text + "}").encode("utf-8", "surrogatepass")


MOMENTS = st.sampled_from(
    [
        *("2026-01-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00", "now", ""),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
    ]
)
"""Times as texts: what no clock shows is among them."""


def with_fields(names: list[str]) -> st.SearchStrategy[Any]:
    """Objects whose fields have these names and anybody's values, and what is none."""
    return VALUES | st.dictionaries(st.sampled_from(names), VALUES | MOMENTS, max_size=8)
