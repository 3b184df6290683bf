"""Whether what is to be served can be, said before anything is opened."""

from collections.abc import Mapping

from orbiter import Agent, Swarm
from orbiter.server.config import ServerConfig
from orbiter.types import OrbiterError


def check_given(agents: object, config: object) -> None:
    """Refuse what is no mapping of agents, and what is no configuration.

    Raises:
        OrbiterError: The text has what was given, and what to give.
    """
    give = 'give agents by name, such as {"helper": Agent(name="helper")}'
    if not isinstance(agents, Mapping):
        raise OrbiterError(f"{_shown(agents)} cannot be served: {give}")
    if not agents:
        raise OrbiterError("there is nothing to serve: give at least one agent")
    for name, agent in agents.items():
        if not isinstance(agent, Agent | Swarm):
            raise OrbiterError(f"{name!r}: {_shown(agent)} cannot be served: {give}")
    if config is not None and not isinstance(config, ServerConfig):
        # not its values: one may be the token
        keys = ", ".join(f"{key}=..." for key in config) if isinstance(config, dict) else "..."
        raise OrbiterError(f"config= is a {type(config).__name__}: give ServerConfig({keys})")


def _shown(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "a list" if isinstance(value, list | tuple | set) else f"{value!r:.80}"
