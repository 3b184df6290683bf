"""How large JSON from a stranger may be, where a person is asked about it or answers with it."""

import json
import math
from typing import Any

MAX_DEPTH = 64
MAX_VALUES = 10_000
MAX_BYTES = 256 * 1024
INT64 = 2**63


def canonical(value: Any) -> str:
    """Write a JSON value in the one way that digests are made of: keys sorted, nothing between."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def problem_of(value: Any) -> str | None:
    """Say why a value cannot travel as JSON everywhere, in words; None when it can."""
    level, values = [value], 0
    for _ in range(MAX_DEPTH + 1):
        if not level:
            break
        values += len(level)
        if values > MAX_VALUES:
            return f"has more than {MAX_VALUES} values"
        for one in level:
            if problem := _of_one(one):
                return problem
        level = [part for one in level for part in _parts(one)]
    else:
        if level:
            return f"is nested more than {MAX_DEPTH} deep"
    if len(canonical(value).encode()) > MAX_BYTES:
        return f"is longer than {MAX_BYTES} bytes as JSON"
    return None


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _of_one(value: Any) -> str | None:
    if isinstance(value, str):
        halves = any("\ud800" <= character <= "\udfff" for character in value)
        return "has half a character (a lone surrogate)" if halves else None
    if isinstance(value, float) and not math.isfinite(value):
        return "has a number that is NaN or infinite"
    if isinstance(value, int) and not -INT64 <= value < INT64:
        return "has an integer beyond 64 bits"
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return "has a key that is no text"
    if value is None or isinstance(value, int | float | dict | list):
        return None
    return f"has a value of type {type(value).__name__}, which JSON does not have"
