"""Runs the agents of a swarm: along its flow, as a team, or by handoffs."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from orbiter._internal.call_runner import Outcome, run_agent
from orbiter._internal.graph import Flow, Parallel, Step, steps
from orbiter._internal.graph import Sequence as Chain
from orbiter._internal.plan import purpose, tool_name
from orbiter._internal.state import RunState
from orbiter.agent import Agent
from orbiter.outputs import as_text
from orbiter.tool import Tool
from orbiter.types import Message, OrbiterError


class Members(Protocol):
    """A swarm, which stands above the loop that runs it."""

    @property
    def agents(self) -> Sequence[Agent]:
        """The members, in order."""
        ...

    @property
    def mode(self) -> str:
        """How they work together."""
        ...

    @property
    def flow(self) -> Flow | None:
        """The way through them; None outside of a workflow."""
        ...

    def agent(self, name: str) -> Agent:
        """Return the member of that name."""
        ...


async def run_target(
    target: Agent | Members, input: str, history: list[Message], state: RunState
) -> Outcome:
    """Run an agent or a swarm on an input, after a valid history."""
    if isinstance(target, Agent):
        return await run_agent(target, input, history, state, state.open_log(), made=state.made)
    first = target.agents[0]
    if target.flow is not None:
        return await _FlowRun(target, target.flow, history, state).run(input)
    if target.mode == "team":
        tools = [_Delegate(worker, state) for worker in target.agents[1:]]
        return await run_agent(first, input, history, state, state.open_log(), extra=tools)
    peers: Sequence[Agent] = target.agents
    if any(agent.handoffs for agent in target.agents):
        peers = ()
    return await run_agent(first, input, history, state, state.open_log(), peers=peers)


class _FlowRun:
    """One run along a flow. The conversation is told in the order of the flow's text."""

    def __init__(self, swarm: Members, flow: Flow, history: list[Message], state: RunState) -> None:
        self.swarm = swarm
        self.flow = flow
        self.state = state
        self.history = history
        self.logs = {step.name: state.open_log() for step in steps(flow)}

    async def run(self, input: str) -> Outcome:
        return await self._run(self.flow, input, self.history)

    async def _run(self, flow: Flow, input: str, history: list[Message]) -> Outcome:
        if isinstance(flow, Step):
            agent = self.swarm.agent(flow.name)
            return await run_agent(agent, input, history, self.state, self.logs[flow.name])
        if isinstance(flow, Parallel):
            return await self._parallel(flow, input, history)
        return await self._chain(flow, input, history)

    async def _chain(self, flow: Chain, input: str, history: list[Message]) -> Outcome:
        outcome = await self._run(flow.stages[0], input, history)
        for stage in flow.stages[1:]:
            if outcome.stop_reason != "completed":
                break
            # later stages work on what the one before them made; the history is not theirs
            outcome = await self._run(stage, as_text(outcome.output), [])
        return outcome

    async def _parallel(self, flow: Parallel, input: str, history: list[Message]) -> Outcome:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._run(branch, input, history)) for branch in flow.branches
                ]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        outcomes = [task.result() for task in tasks]
        early = [o.stop_reason for o in outcomes if o.stop_reason != "completed"]
        text = "\n\n".join(f"[{o.agent_name}]\n{as_text(o.output)}" for o in outcomes)
        return Outcome(text, outcomes[-1].agent_name, early[0] if early else "completed")


class _Delegate(Tool):
    """Lets the leader of a team give a task to a worker, who sees nothing but the task."""

    def __init__(self, worker: Agent, state: RunState) -> None:
        self.worker = worker
        self.state = state
        self.name = tool_name("delegate_to", worker)
        self.description = f"Give a task to {worker.name} and get the result.{purpose(worker)}"

    async def execute(self, task: str) -> Any:
        """Run the worker.

        Args:
            task: Everything the worker has to know, in full sentences.
        """
        outcome = await run_agent(self.worker, task, [], self.state, [])
        if outcome.stop_reason != "completed":
            raise OrbiterError(
                f"stopped early ({outcome.stop_reason}) after: {as_text(outcome.output)!r}"
            )
        return outcome.output
