"""What commands load: the agent a command line names, and all agents that belong to it."""

from orbiter import Agent, Swarm
from orbiter.cli.agent import file as agent_file
from orbiter.cli.agent.file import LoadedAgent
from orbiter.cli.ui.outcome import usage
from orbiter.config import parse_model_string

__all__ = ["LoadedAgent", "agents_of", "load_agent"]


def load_agent(reference: str, *, model: str | None = None) -> LoadedAgent:
    """Load an agent whose models there are.

    Args:
        reference: The path of a YAML file, or `module:attr`.
        model: Takes the place of all agents' own.

    Raises:
        UsageError: It cannot be loaded, or names a model that no provider is known for.
    """
    from orbiter.models import model_registry

    with usage():
        loaded = agent_file.load_agent(reference, model=model)
        for agent in agents_of(loaded.target):
            # told now rather than in the middle of a run
            if agent.provider is None:
                model_registry.get(parse_model_string(agent.model)[0])
        return loaded


def agents_of(target: Agent | Swarm) -> list[Agent]:
    """Return all agents that may have a part in a run, in the order they are met."""
    waiting = list(target.agents) if isinstance(target, Swarm) else [target]
    seen: dict[int, Agent] = {}
    while waiting:
        agent = waiting.pop(0)
        if id(agent) not in seen:
            seen[id(agent)] = agent
            waiting += agent.handoffs
    return list(seen.values())
