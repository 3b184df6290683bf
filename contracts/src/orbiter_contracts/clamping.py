"""Bring what an agent or its command line program made into the range of a message.

A worker calls these where it makes a verdict, a usage or an output: an agent's slip costs the value
that was out of range, not the turn. Total: whatever goes in, what comes out is valid.
"""

import math
from typing import Any, Final, TypeVar

from pydantic_core import to_json

from orbiter_contracts.bounds import (
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
_INT64 = 2**63


def clamped_count(value: Any) -> int:
    """A count (tokens, turns, milliseconds) from whatever a program reported; 0 for no number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return int(min(max(value, 0), MAX_COUNT))


def clamped_cost(value: Any) -> float | None:
    """A cost in US dollars from whatever a program reported; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    return float(value) if value <= MAX_COST_USD else None


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


def fitted(output: Output, most: int = MAX_OUTPUT_BYTES) -> Output:
    """An output whose JSON has at most so many bytes: its longest texts give way first.

    Args:
        output: What is to be published.
        most: The bound in bytes. Beside the texts an output may have `data` of MAX_DATA_BYTES.
    """
    characters = most // 4
    while len(output.model_dump_json().encode()) > most and characters >= _SHORTEST:
        output = _cut(output, characters)
        characters //= 2
    return output


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
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        # `str` refuses an integer of thousands of digits, `to_json` does not.
        return shortened(to_json(value).decode(), _SHORTEST)
    if isinstance(value, str):
        return printable(value)
    return value if value is None or isinstance(value, int) else printable(str(value))


def _cut(message: M, characters: int) -> M:
    """The message with every text at most so long."""
    update: dict[str, Any] = {}
    for name in type(message).model_fields:
        value = getattr(message, name)
        if isinstance(value, str):
            update[name] = shortened(value, characters)
        elif isinstance(value, Message):
            update[name] = _cut(value, characters)
    return message.model_copy(update=update)
