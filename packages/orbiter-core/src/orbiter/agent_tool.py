"""An agent as a tool of another one: its run is a part of the run that calls it."""

from typing import Any, Protocol

from orbiter._naming import purpose, tool_name
from orbiter.outputs import as_text
from orbiter.tool import Tool
from orbiter.types import OrbiterError, RunContext

__all__ = ["AgentTool"]


class Described(Protocol):
    """An agent or a swarm, which stand above this module."""

    @property
    def name(self) -> str:
        """Unique among those it works with."""
        ...

    @property
    def description(self) -> str:
        """What it is good for."""
        ...


class AgentTool(Tool):
    """Runs an agent or a swarm on the text that a model gives it; made by their `as_tool`.

    It begins afresh at each call and sees nothing but that text. What it takes counts for the run
    that calls it, whose limits, deps and observer are its own, and whose stream tells the usage.

    Attributes:
        target: Who is run.
    """

    description = "Ask an agent."

    def __init__(
        self, target: Described, *, name: str | None = None, description: str | None = None
    ) -> None:
        """Make a tool of `target`.

        Args:
            target: An Agent or a Swarm.
            name: What the model calls it, by default the target's name.
            description: What it is for, by default what the target says of itself.

        Raises:
            OrbiterError: A tool of the target, or of whom it may hand off to, waits for a person:
                a run inside of a tool cannot.
        """
        if found := waiting_tool(target):
            agent, tool = found
            raise OrbiterError(
                f"as_tool(): agent '{agent.name}' has the tool '{tool.name}', which waits for a "
                "person, and an agent that is asked by a tool cannot wait: have the tool that "
                "asks wait (its approval = True), or hand off to the agent"
            )
        self.target = target
        self.name = name or tool_name("", target.name)
        self.description = description or f"Ask {target.name}, and get the answer.{purpose(target)}"

    async def execute(self, context: RunContext, input: str) -> Any:
        """Run it.

        Args:
            context: Of the run that calls it.
            input: All that it has to know, in full sentences.

        Returns:
            Its output.

        Raises:
            OrbiterError: A limit stopped it before it had one.
        """
        return completed(await context.run(self.target, input))


def agents_in(target: Any, *, asked: bool) -> list[Any]:
    """Return the agents of an agent or a swarm; `swarm.agents_of` says which."""
    waiting: list[Any] = [target]
    seen: dict[int, Any] = {}
    while waiting:
        one = waiting.pop(0)
        if (agents := getattr(one, "agents", None)) is not None:
            waiting[:0] = agents
        elif id(one) not in seen:
            seen[id(one)] = one
            waiting += getattr(one, "handoffs", ())
            if asked:
                waiting += [tool.target for tool in one.tools if isinstance(tool, AgentTool)]
    return list(seen.values())


def waiting_tool(target: Any) -> tuple[Any, Tool] | None:
    """Return an agent with a tool of its that waits for a person; None when no run has one."""
    found = (
        (agent, tool)
        for agent in agents_in(target, asked=False)
        for tool in getattr(agent, "tools", ())
        if tool.approval is not False
    )
    return next(found, None)


def completed(result: Any) -> Any:
    """Return the output of a run that nothing has stopped.

    Raises:
        OrbiterError: Something has; the text has what was said last.
    """
    if result.stop_reason != "completed":
        said = as_text(result.output_or_text)
        raise OrbiterError(f"stopped early ({result.stop_reason}) after: {said!r}")
    return result.output
