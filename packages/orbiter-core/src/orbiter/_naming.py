"""How agents and swarms are called, and told of, as something that a model may call."""

import re
from typing import Any

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def tool_name(verb: str, name: str) -> str:
    """Return for example "transfer_to_billing", with only characters that providers allow."""
    fitting = _NOT_IN_NAMES.sub("_", name)
    return f"{verb}_{fitting}" if verb else fitting


def purpose(agent: Any) -> str:
    """Say what an agent or a swarm is good for, behind a sentence; empty when nothing is known.

    It is its description, else the first line of its instructions.
    """
    if agent.description:
        return f" {agent.description}"
    text = getattr(agent, "instructions", "")
    line = text.strip().partition("\n")[0] if isinstance(text, str) else ""
    return f" Its instructions: {line}" if line else ""
