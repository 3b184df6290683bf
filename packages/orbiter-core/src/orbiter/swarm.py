"""The Swarm: several agents that work on one input, by a flow, as a team or by handoffs."""

from collections.abc import Sequence
from typing import Literal, Union

from orbiter._internal.graph import Flow, FlowError, Step, parse_flow, sequence
from orbiter._misuse import SHOWN, require_all
from orbiter.agent import Agent
from orbiter.agent_tool import AgentTool, agents_in, waiting_tool
from orbiter.types import OrbiterError

Mode = Literal["workflow", "team", "handoff"]

__all__ = ["FlowError", "Mode", "Swarm", "agents_of"]


class Swarm:
    """Agents and how they work together; holds no state of a run.

    Attributes:
        name: What it is called as a member of another swarm, or as a tool; empty without one.
        description: What it is good for, for those who may call on it.
        agents: The members, in order; some of them may be swarms.
        mode: `workflow`: along the flow. `team`: the first agent leads and delegates to the
            others by `delegate_to_<name>(task)`. `handoff`: the first agent starts; agents pass
            the conversation on by `transfer_to_<name>`, to those in their `handoffs`, or, when no
            member has any, to every other member.
        flow: The flow as a tree whose `str()` is the DSL; None outside of `workflow`.
    """

    def __init__(
        self,
        *,
        agents: Sequence[Union[Agent, "Swarm"]],
        flow: str | None = None,
        mode: Mode = "workflow",
        name: str | None = None,
        description: str = "",
    ) -> None:
        """Create a swarm.

        Args:
            agents: At least one, with distinct names. Swarms with a name may stand in a flow, and
                work for the leader of a team.
            flow: For example "a >> (b | c) >> d": `>>` feeds the output of one into the next,
                `(b | c)` runs both at the same time and passes both outputs on. By default all
                agents one after the other.
            mode: How the agents work together.
            name: What others call it.
            description: What it is good for, in a sentence.

        Raises:
            FlowError: The flow has an error; the text shows where.
            OrbiterError: Agents are missing or share a name, a flow is given to another mode, or
                an agent has a tool that waits for a person where the run cannot wait.
        """
        kinds = (Agent, Swarm)
        require_all(agents, kinds, "Swarm(agents=...)", "Agents, such as Agent(name=...)", "a list")
        self.name = name or ""
        self.description = description
        self.agents = list(agents)
        self.mode = mode
        self._by_name = {agent.name: agent for agent in self.agents}
        self._check()
        self.flow: Flow | None = None
        if mode != "workflow":
            if flow is not None:
                raise OrbiterError(f"mode '{mode}' takes no flow; leave out one of the two")
        elif flow is not None:
            self.flow = parse_flow(flow, self._by_name)
        else:
            self.flow = sequence([Step(name) for name in self._by_name])
        if mode != "handoff":
            _refuse_waiting(self.agents if mode == "workflow" else self.agents[1:], mode)

    def _check(self) -> None:
        if self.mode not in ("workflow", "team", "handoff"):
            raise OrbiterError(f"unknown mode '{self.mode}'; modes: workflow, team, handoff")
        if not self.agents:
            raise OrbiterError("a Swarm needs at least one agent")
        talking = self.agents if self.mode == "handoff" else self.agents[: self.mode == "team"]
        for member in self.agents:
            if isinstance(member, Swarm) and not member.name:
                raise OrbiterError(f"{member!r:.{SHOWN}} is in a swarm: give it a name=")
        for member in talking:
            if isinstance(member, Swarm):
                raise OrbiterError(
                    f"'{member.name}' is a Swarm: it can neither lead a team nor take part in "
                    "handoffs; put an Agent there that has swarm.as_tool()"
                )
        names = [agent.name for agent in self.agents]
        for name in self._by_name:
            if names.count(name) > 1:
                raise OrbiterError(f"two agents of the swarm are named '{name}'; rename one")

    def agent(self, name: str) -> Union[Agent, "Swarm"]:
        """Return the member of that name.

        Raises:
            OrbiterError: There is none.
        """
        if name not in self._by_name:
            raise OrbiterError(
                f"no agent '{name}' in the swarm; agents: {', '.join(self._by_name)}"
            )
        return self._by_name[name]

    def as_tool(self, *, name: str | None = None, description: str | None = None) -> AgentTool:
        """Return a tool by which an agent asks this swarm; see AgentTool.

        Args:
            name: What the model calls it, by default the swarm's name.
            description: What it is for, by default the swarm's own description.

        Raises:
            OrbiterError: Neither has a name, or a member has a tool that waits for a person.
        """
        if not (name or self.name):
            raise OrbiterError(f"{self!r:.{SHOWN}} has no name: give as_tool(name=...)")
        return AgentTool(self, name=name, description=description)

    def __repr__(self) -> str:
        how = f"flow={str(self.flow)!r}" if self.flow else f"mode={self.mode!r}"
        return f"Swarm({', '.join(self._by_name)}, {how})"


def _refuse_waiting(members: Sequence[Agent | Swarm], mode: str) -> None:
    """Refuse tools that wait for a person in agents whose run cannot end in the middle."""
    for member in members:
        if found := waiting_tool(member):
            agent, tool = found
            what = "a flow" if mode == "workflow" else "the worker of a team"
            raise OrbiterError(
                f"agent '{agent.name}' has the tool '{tool.name}', which waits for a "
                f"person, and {what} cannot wait: give it to an agent that runs by itself, "
                "leads a team or hands off"
            )


def agents_of(target: Agent | Swarm, *, asked: bool = True) -> list[Agent]:
    """Return all agents that may have a part in a run, in the order they are met.

    Args:
        target: What is run.
        asked: Also those that others ask by a tool, whose conversation is none of the run's.
    """
    return agents_in(target, asked=asked)
