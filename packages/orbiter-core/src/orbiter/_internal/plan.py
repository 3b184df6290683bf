"""What an agent can do in one run: its tools, its handoffs and how the model is told of them."""

from collections.abc import Collection, Iterable
from copy import copy
from typing import Any

from orbiter._naming import purpose, tool_name
from orbiter.agent import Agent
from orbiter.tool import Tool


class Plan:
    """The tools and handoffs of an agent, by the names the model uses.

    Attributes:
        tools: Tool by name.
        handoffs: Agent by the name of the tool that transfers to it.
        schemas: All of them as the provider takes them; None when there are none.
    """

    __slots__ = ("handoffs", "schemas", "tools")

    def __init__(
        self, agent: Agent, extra: Iterable[Tool] = (), peers: Iterable[Agent] = ()
    ) -> None:
        """Collect what `agent` has.

        Args:
            agent: Whose plan it is.
            extra: Tools the swarm adds.
            peers: Agents it may transfer to although it does not list them.
        """
        self.tools: dict[str, Tool] = {tool.name: tool for tool in (*agent.tools, *extra)}
        self.handoffs: dict[str, Agent] = {}
        schemas = [tool.to_schema() for tool in self.tools.values()]
        for target in agent.handoffs or (peer for peer in peers if peer is not agent):
            name = tool_name("transfer_to", target.name)
            self.handoffs[name] = target
            schemas.append(_transfer_schema(name, target))
        self.schemas: list[dict[str, Any]] | None = schemas or None

    def without(self, hidden: Collection[str]) -> "Plan":
        """Return this plan as if there were no tools of these names."""
        rest = copy(self)
        rest.tools = {name: tool for name, tool in self.tools.items() if name not in hidden}
        schemas = [s for s in self.schemas or () if s["function"]["name"] not in hidden]
        rest.schemas = schemas or None
        return rest


def _transfer_schema(name: str, target: Agent) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Hand the conversation over to {target.name}.{purpose(target)}",
            "parameters": {"type": "object", "properties": {}},
        },
    }
