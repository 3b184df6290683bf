"""Bring what an agent or its command line program made into the range of a message.

A worker calls these where it makes a verdict, a usage or an output: an agent's slip costs the value
that was out of range, not the turn. Total: whatever goes in, what comes out is valid.
"""

import math
from typing import Any, Final, TypeVar

from pydantic_core import to_json

from orbiter_contracts.bounds import (
    COST_DIGITS,
    INT64,
    MAX_COST_USD,
    MAX_COUNT,
    MAX_DATA_DEPTH,
    MAX_OUTPUT_BYTES,
    data_problem,
    printable,
    shortened,
)
from orbiter_contracts.messages import Message, WorkerOutput

Output = TypeVar("Output", bound=WorkerOutput)
M = TypeVar("M", bound=Message)
_SHORTEST: Final = 1024


def clamped_count(value: Any, default: int = 0) -> int:
    """A count (tokens, turns, milliseconds) from whatever a program reported.

    Args:
        value: What it reported.
        default: What counts when that is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return default
    return int(min(max(value, 0), MAX_COUNT))


def clamped_cost(value: Any) -> float | None:
    """A cost in US dollars from whatever a program reported; None for what is none.

    To a billionth: sums and differences of such numbers have noise in their last digits, which
    people would read in the column COST.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    return round(float(value), COST_DIGITS) if value <= MAX_COST_USD else None


def clamped_data(value: dict[Any, Any]) -> tuple[dict[str, Any], str | None]:
    """An agent's `data` as a message can carry it.

    Numbers that are none (NaN, infinity) become null, as JavaScript's JSON has it; integers beyond
    64 bits become text; halves of characters become `?`.

    Args:
        value: A JSON object.

    Returns:
        The object, and what is wrong with it in words: it is empty then, and None otherwise. Half
        of a large object would be read as a whole one.
    """
    try:
        sane = _sane(value, 0)
        problem = data_problem(sane)
    except _TooDeepError:
        sane, problem = {}, f"is nested more than {MAX_DATA_DEPTH} deep"
    return ({}, problem) if problem else (sane, None)


def fitted(output: Output, most: int = MAX_OUTPUT_BYTES) -> tuple[Output, list[str]]:
    """An output whose JSON has at most so many bytes: its longest texts give way first.

    Args:
        output: What is to be published.
        most: The bound in bytes. Beside the texts an output may have `data` of MAX_DATA_BYTES.

    Returns:
        The output, and what of it was cut: the names of the texts, each with how long it was.
    """
    short, cut = output, list[str]()
    characters = most // 4
    while len(short.model_dump_json().encode()) > most and characters >= _SHORTEST:
        short, cut = _cut(output, characters)
        characters //= 2
    return short, cut


class _TooDeepError(Exception):
    pass


def _sane(value: Any, depth: int) -> Any:
    if depth > MAX_DATA_DEPTH:
        raise _TooDeepError
    if isinstance(value, dict):
        return {printable(str(key)): _sane(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_sane(one, depth + 1) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not -INT64 <= value < INT64:
        # `str` refuses an integer of thousands of digits, `to_json` does not.
        return shortened(to_json(value).decode(), _SHORTEST)
    if isinstance(value, str):
        return printable(value)
    return value if value is None or isinstance(value, int) else printable(str(value))


def _cut(message: M, characters: int, prefix: str = "") -> tuple[M, list[str]]:
    """The message with every text at most so long, and which were longer."""
    update: dict[str, Any] = {}
    cut = []
    for name in type(message).model_fields:
        value = getattr(message, name)
        if isinstance(value, str) and len(value) > characters:
            update[name] = shortened(value, characters)
            cut.append(f"{prefix}{name} ({len(value)} characters)")
        elif isinstance(value, Message):
            update[name], within = _cut(value, characters, f"{prefix}{name}.")
            cut += within
    return message.model_copy(update=update), cut
