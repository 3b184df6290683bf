"""What a run costs, by the price table that the extra `prices` installs."""

import importlib
from functools import cache
from typing import Any

from orbiter.agent import Agent
from orbiter.config import parse_model_string
from orbiter.swarm import Swarm
from orbiter.types import RunResult, Usage


def models_of(target: Agent | Swarm) -> set[str]:
    """Return the model strings of all agents that may have a part in a run."""
    waiting = list(target.agents) if isinstance(target, Swarm) else [target]
    seen: dict[int, Agent] = {}
    while waiting:
        agent = waiting.pop()
        if id(agent) not in seen:
            seen[id(agent)] = agent
            waiting += agent.handoffs
    return {agent.model for agent in seen.values()}


def price_of(target: Agent | Swarm, result: RunResult) -> float | None:
    """Return the US dollars of a run; None when the table is missing or does not know the model.

    A run whose agents have several models has no price: its usage is told in one sum.
    """
    models = models_of(target)
    if len(models) != 1:
        return None
    provider, name = parse_model_string(models.pop())
    return _price(provider, name, result.usage)


def _price(provider: str, model: str, usage: Usage) -> float | None:
    table = _table()
    if table is None or not (usage.input_tokens or usage.output_tokens):
        return None
    spent = table.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
    )
    try:
        return float(table.calc_price(spent, model, provider_id=provider).total_price)
    except (LookupError, ValueError):
        return None


@cache
def _table() -> Any:
    try:
        return importlib.import_module("genai_prices")
    except ModuleNotFoundError:
        return None
