"""What commands load: the agent a command line names, and all agents that belong to it."""

from orbiter import Agent, Swarm
from orbiter.cli.agent_file import LoadedAgent, load_agent

__all__ = ["LoadedAgent", "agents_of", "load_agent"]


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
