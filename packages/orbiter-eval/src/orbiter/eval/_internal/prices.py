"""What a run costs, whose agents may have different models."""

from orbiter.agent import Agent
from orbiter.config import parse_model_string
from orbiter.prices import price
from orbiter.swarm import Swarm, agents_of
from orbiter.types import RunResult


def models_of(target: Agent | Swarm) -> set[str]:
    """Return the model strings of all agents that may have a part in a run."""
    return {agent.model for agent in agents_of(target)}


def price_of(target: Agent | Swarm, result: RunResult) -> float | None:
    """Return the US dollars of a run; None when the table is missing or does not know the model.

    A run whose agents have several models has no price: its usage is told in one sum.
    """
    models = models_of(target)
    if len(models) != 1:
        return None
    provider, name = parse_model_string(models.pop())
    return price(provider, name, result.usage)
