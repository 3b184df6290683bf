"""Runs the agents of a swarm: along its flow, as a team, or by handoffs."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from orbiter._internal.call_runner import Outcome, run_agent
from orbiter._internal.content import given
from orbiter._internal.graph import Flow, Parallel, Step, steps
from orbiter._internal.graph import Sequence as Chain
from orbiter._internal.nested import NestedState
from orbiter._internal.resume import check_edits, waiting_agent
from orbiter._internal.resumed import Resumed
from orbiter._internal.state import RunState
from orbiter._naming import purpose, tool_name
from orbiter.agent import Agent
from orbiter.agent_tool import completed
from orbiter.outputs import as_text
from orbiter.tool import Tool
from orbiter.types import Message, OrbiterError, RunResult


class Members(Protocol):
    """A swarm, which stands above the loop that runs it."""

    @property
    def name(self) -> str:
        """What others call it."""
        ...

    @property
    def description(self) -> str:
        """What it is good for."""
        ...

    @property
    def agents(self) -> Sequence["Agent | Members"]:
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

    def agent(self, name: str) -> "Agent | Members":
        """Return the member of that name."""
        ...


async def run_target(
    target: Agent | Members, input: str, history: list[Message], state: RunState
) -> Outcome:
    """Run an agent or a swarm on an input, after a valid history."""
    if state.resumed is not None and state.journal is None:
        return await _go_on(target, state.resumed, history, state)
    journal = None if state.journal is None else state.journal.scope()
    # whoever runs inside of a run has nobody to go on with it
    may = state.depth == 0
    if isinstance(target, Agent):
        log, made = state.open_log(), state.made
        return await run_agent(
            target, input, history, state, log, made=made, pausable=may, journal=journal
        )
    if target.flow is not None:
        return await _FlowRun(target, target.flow, history, state).run(input)
    first, tools, peers = _leading(target, state)
    log = state.open_log()
    return await run_agent(
        first,
        input,
        history,
        state,
        log,
        extra=tools,
        peers=peers,
        pausable=may,
        journal=journal,
    )


def _leading(target: Members, state: RunState) -> tuple[Agent, Sequence[Tool], Sequence[Agent]]:
    """Return who begins, with what the swarm gives it, and to whom agents may hand off."""
    # who leads a team, and all that hand off, are agents: the Swarm has seen to it
    members: Any = target.agents
    if target.mode == "team":
        return members[0], [_Delegate(worker, state) for worker in members[1:]], ()
    return members[0], (), () if any(agent.handoffs for agent in members) else members


async def _go_on(
    target: Agent | Members, resumed: Resumed, history: list[Message], state: RunState
) -> Outcome:
    """Go on with a run that has waited for a person."""
    extra: Sequence[Tool] = ()
    peers: Sequence[Agent] = ()
    if isinstance(target, Agent):
        agent = waiting_agent(resumed, [target])
    elif target.flow is not None:
        raise OrbiterError("run(resume=...): a flow does not wait; run the agent that was paused")
    else:
        first, extra, peers = _leading(target, state)
        agent = waiting_agent(resumed, peers or [first])
        if agent is not first:
            extra = ()
    check_edits(resumed, agent, extra)
    return await run_agent(
        agent,
        resumed.paused.input,
        history,
        state,
        state.open_log(),
        extra=extra,
        peers=peers,
        made=state.made,
        pausable=True,
        resumed=resumed,
    )


async def run_nested(
    target: Agent | Members, input: Any, outer: RunState, *, heard: bool = False
) -> RunResult:
    """Run an agent or a swarm inside of a run; see NestedState.

    Raises:
        OrbiterError: It failed, or is neither.
    """
    text: str = input if isinstance(input, str) else given(input)
    state = NestedState(outer, heard=heard)
    return _result(await _observed(target, text, [], state), state)


async def _observed(
    target: Agent | Members, input: str, history: list[Message], state: RunState
) -> Outcome:
    """Run a part of a run; a swarm in it is told to the observer as a run of its own."""
    if isinstance(target, Agent) or state.observer is None:
        return await run_target(target, input, history, state)
    with state.observer.run(target, input) as scope:
        outcome = await run_target(target, input, history, state)
        scope.done(_result(outcome, state))
        return outcome


def _result(outcome: Outcome, state: RunState) -> RunResult:
    state.last_agent, state.typed = outcome.agent_name, outcome.typed
    return state.result(outcome.output, outcome.stop_reason)


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
            member, log = self.swarm.agent(flow.name), self.logs[flow.name]
            if not isinstance(member, Agent):
                return await self._swarm(member, input, history, log)
            kept = self.state.journal
            journal = None if kept is None else kept.scope(flow.name)
            return await run_agent(member, input, history, self.state, log, journal=journal)
        if isinstance(flow, Parallel):
            return await self._parallel(flow, input, history)
        return await self._chain(flow, input, history)

    async def _swarm(
        self, member: Members, input: str, history: list[Message], log: list[Message]
    ) -> Outcome:
        inner = NestedState(self.state, heard=True)
        if self.state.journal is not None:
            inner.journal = self.state.journal.within(member.name)
        try:
            outcome = await _observed(member, input, history, inner)
        finally:
            # all that was said stands where the flow's text has the swarm
            log += inner.result("", "completed").messages
            self.state.last_agent = inner.last_agent
        return outcome._replace(agent_name=member.name)

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

    def __init__(self, worker: Agent | Members, state: RunState) -> None:
        self.worker = worker
        self.state = state
        self.name = tool_name("delegate_to", worker.name)
        self.description = f"Give a task to {worker.name} and get the result.{purpose(worker)}"

    async def execute(self, task: str) -> Any:
        """Run the worker.

        Args:
            task: Everything the worker has to know, in full sentences.
        """
        return completed(await run_nested(self.worker, task, self.state, heard=True))
