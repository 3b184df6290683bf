"""What all attempts of a task together have cost: `status.usage`, and its column COST. Pure."""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from orbiter_contracts.bounds import MAX_COUNT
from orbiter_contracts.messages import Usage

_INT32: Final = 2**31 - 1


class TaskUsage(BaseModel):
    """`status.usage`: what all attempts so far have cost; camelCase outside."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = Field(None, alias="costUSD")
    turns: int = 0


def shown_cost(usd: float) -> float:
    """US dollars as a status has them: to a millionth, as budgets count.

    A sum of floats ends in digits that nobody has told, and `kubectl get` prints each of them.

    >>> shown_cost(0.1 + 0.2)
    0.3
    """
    return round(usd, 6)


def total_usage(before: TaskUsage | None, usage: Usage | None) -> TaskUsage | None:
    """What all attempts together have cost, once one more has ended; None when none has told.

    Bounded by what the resource definition's integers can hold.
    """
    if usage is None:
        return before
    old = before or TaskUsage()
    costs = [cost for cost in (old.cost_usd, usage.cost_usd) if cost is not None]
    return TaskUsage(
        input_tokens=min(old.input_tokens + usage.input_tokens, MAX_COUNT),
        output_tokens=min(old.output_tokens + usage.output_tokens, MAX_COUNT),
        cache_read_tokens=min(old.cache_read_tokens + usage.cache_read_tokens, MAX_COUNT),
        cache_write_tokens=min(old.cache_write_tokens + usage.cache_write_tokens, MAX_COUNT),
        cost_usd=shown_cost(sum(costs)) if costs else None,
        turns=min(old.turns + usage.turns, _INT32),
    )
