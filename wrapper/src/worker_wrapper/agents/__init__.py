"""The agents this wrapper can run: a module here is one, named as AGENT_TYPE says.

But for what they share: their protocol (base.py), what writes of MCP servers (mcp.py), and what
reads a CLI's words (json_output.py, decoding.py; claude_transcript.py for one of them). Adding an
agent is adding a file that defines `AGENT`; only one is ever imported.
"""

import pkgutil
from importlib import import_module

from worker_wrapper.agents.base import Agent

_NOT_AGENTS = frozenset({"base", "claude_transcript", "decoding", "json_output", "mcp"})


class UnknownAgentError(ValueError):
    """There is no adapter of that name; the text names those there are."""


def known_agents() -> tuple[str, ...]:
    """Names of all agents, sorted."""
    names = {module.name for module in pkgutil.iter_modules(__path__)}
    return tuple(sorted(names - _NOT_AGENTS))


def load_agent(name: str) -> Agent:
    """Import the adapter of one agent.

    Raises:
        UnknownAgentError: There is none of that name.
    """
    if name not in known_agents():
        raise UnknownAgentError(
            f"unknown agent type {name!r}: this worker knows {', '.join(known_agents())}"
        )
    agent: Agent = import_module(f"{__name__}.{name}").AGENT
    return agent
