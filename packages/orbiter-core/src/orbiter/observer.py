"""Observers: what encloses the pieces of a run, from its first line to its last.

A hook is told that a point was passed; an observer holds a scope open around a piece, so it also
sees how long the piece took, what it raised and that it was cancelled. Tracing is one. The run loop
asks once whether there is an observer: a run without one pays nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from orbiter.tool import Tool
from orbiter.types import Message, RunContext, ToolCall


class ObservedAgent(Protocol):
    """What an observer may ask of an agent, which knows its observer and not the reverse."""

    @property
    def name(self) -> str:
        """Unique among the agents it works with."""
        ...

    @property
    def model(self) -> str:
        """Provider and name: "openai:gpt-4o"."""
        ...

    @property
    def temperature(self) -> float:
        """From 0 to 2."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """Output tokens per model call."""
        ...

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON schema its output has to fit."""
        ...


class ObservedSwarm(Protocol):
    """What an observer may ask of a swarm; a run's target that is no agent is one."""

    @property
    def name(self) -> str:
        """What others call it; empty without a name."""
        ...

    @property
    def agents(self) -> Sequence["ObservedAgent | ObservedSwarm"]:
        """The members, in order."""
        ...

    @property
    def mode(self) -> str:
        """How the agents work together."""
        ...

    @property
    def flow(self) -> object | None:
        """The flow, whose `str()` is the DSL; None outside of `workflow`."""
        ...


class Scope:
    """A piece of a run while it lasts; this one does nothing.

    It is entered and left in the task that does the work, so context variables set on entering
    hold inside.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        return None

    def asked_with(self, settings: Mapping[str, Any]) -> None:
        """Learn what was given for a model call, before it begins.

        Args:
            settings: The settings that hold for it, by name; none that may be a secret.
        """

    def done(self, outcome: Any, cause: BaseException | None = None) -> None:
        """Learn what came of the piece; not called when it raises.

        Args:
            outcome: A RunResult (run), the output (agent), the provider's reply (model call),
                a ToolResult (tool call), None (step).
            cause: What a tool raised when its result is an error.
        """


NOTHING = Scope()


class Observer:
    """Opens a scope around each piece of a run. Write the methods you need.

    Give it to `Agent(hooks=[observer])` for one agent or to `observe` for all runs; an agent's own
    takes the place of the one for all.
    """

    def run(self, target: ObservedAgent | ObservedSwarm, input: str) -> Scope:
        """Open the scope of a whole run; only for the observer of all runs."""
        return NOTHING

    def agent(self, agent: ObservedAgent, run: RunContext) -> Scope:
        """Open the scope of one agent while it has the floor."""
        return NOTHING

    def step(self, agent: ObservedAgent, number: int) -> Scope:
        """Open the scope of a step: a model call and what it asks for; they count from 1."""
        return NOTHING

    def model_call(
        self, agent: ObservedAgent, messages: Sequence[Message], provider: Any, *, streamed: bool
    ) -> Scope:
        """Open the scope of a model call; `messages` has the system message."""
        return NOTHING

    def tool_call(self, agent: ObservedAgent, call: ToolCall, tool: Tool | None) -> Scope:
        """Open the scope of a tool call; without a tool when the model made up its name."""
        return NOTHING

    def handoff(self, agent: ObservedAgent, target: ObservedAgent, call: ToolCall) -> None:
        """Learn that `agent` passes the conversation on to `target`."""


_of_all_runs: list[Observer] = []


def observe(observer: Observer | None) -> Observer | None:
    """Observe all runs that begin from now on; None ends that.

    Returns:
        The observer before.
    """
    before = observer_of_all_runs()
    _of_all_runs[:] = [] if observer is None else [observer]
    return before


def observer_of_all_runs() -> Observer | None:
    """Return what was given to `observe`."""
    return _of_all_runs[0] if _of_all_runs else None
