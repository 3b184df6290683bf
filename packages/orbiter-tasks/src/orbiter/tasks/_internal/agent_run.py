"""Runs an agent on a task: builds it, follows it by hooks, continues it after an answer."""

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import TypeAdapter

from orbiter import Agent, Swarm, run
from orbiter.agent import Provider
from orbiter.config import DEFAULT_MODEL
from orbiter.errors import InputAnswerError
from orbiter.hooks import Hook, HookEvent, HookManager, HookPoint
from orbiter.registry import agent_registry
from orbiter.tasks._internal.waiting import AgentWaitsError, waiting
from orbiter.tasks._keepable import outcome
from orbiter.tasks.agents import AgentSpec, InputRequiredError, TaskAgent, ask_user, can_ask
from orbiter.tasks.models import EventType, Task
from orbiter.tasks.state import TaskError
from orbiter.types import Message, RunResult, StreamEvent, ToolResult

DEFAULT = "default"
Emit = Callable[[EventType, dict[str, Any]], Awaitable[None]]
Listener = Callable[[str, StreamEvent], object]
_messages: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


class AgentAsksError(InputRequiredError):
    """An agent called ask_user; `messages` is its conversation up to that."""

    def __init__(self, question: str, call_id: str, messages: list[Message]) -> None:
        super().__init__(question)
        self.call_id = call_id
        self.messages: list[Message] = messages


def question_payload(asked: InputRequiredError) -> dict[str, Any]:
    """Return what has to be recorded for the task to go on after the answer."""
    payload: dict[str, Any] = {"question": asked.question}
    if isinstance(asked, AgentWaitsError):
        return asked.payload()
    if isinstance(asked, AgentAsksError):
        payload["call_id"] = asked.call_id
        payload["messages"] = _messages.dump_python(asked.messages, mode="json")
    return payload


def conversation(task: Task) -> list[Message]:
    """Return the conversation that was interrupted by a question, with its answer in it."""
    asked: dict[str, Any] | None = None
    answer: str | None = None
    for event in task.events:
        if "question" in event.payload:
            asked, answer = event.payload, None
        elif "answer" in event.payload:
            answer = event.payload["answer"]
    if asked is None or answer is None or "messages" not in asked:
        return []
    return [
        message.model_copy(update={"content": answer})
        if isinstance(message, ToolResult) and message.tool_call_id == asked["call_id"]
        else message
        for message in _messages.validate_python(asked["messages"])
    ]


def chosen(task: Task, agents: Mapping[str, TaskAgent]) -> TaskAgent:
    """Return what runs the task.

    Raises:
        TaskError: Its `config_name` is unknown.
    """
    name = str(task.metadata.get("config_name") or DEFAULT)
    if name in agents:
        return agents[name]
    if name in agent_registry:
        registered: TaskAgent = agent_registry.get(name)
        return registered
    if name == DEFAULT:
        return AgentSpec()
    known = ", ".join(sorted([*agents, *agent_registry.names()])) or "none yet"
    raise TaskError(f"unknown agent '{name}'; registered: {known}; see register_agents")


async def run_task(
    task: Task,
    agents: Mapping[str, TaskAgent],
    model: Provider | str | None,
    emit: Emit,
    listener: Listener | None,
    resumed: Callable[[dict[str, Any]], Awaitable[None]],
) -> str:
    """Run the task's agent to its end and return what it answered, as text.

    The run is streamed when there is a listener to hear of it. `resumed` keeps what other workers
    have to know before anything that was approved begins, or raises.

    Raises:
        InputRequiredError: It cannot go on without an answer.
        TaskError: It met a limit before it had an answer.
    """
    agent = chosen(task, agents)
    if not isinstance(agent, AgentSpec | Agent | Swarm):
        return outcome(await agent(task))
    waits = waiting(task)
    if waits is not None:
        waits.ask()
    follower = _Follower(emit)
    target = agent if isinstance(agent, Swarm) else _prepared(agent, task, model, follower)
    messages = conversation(task)
    words = "" if messages else task.input
    if not messages:
        messages = _messages.validate_python(task.metadata.get("messages", []))
    given: dict[str, Any] = {"messages": messages}
    if waits is not None:
        # from here on what was approved may have been done
        await resumed({"resumed": len(waits.answers)})
        words, given = "", {"resume": waits.paused, "answers": waits.answers}
    if not isinstance(model, str):
        given["provider"] = model
    asking = can_ask.set(target is not agent)
    try:
        if listener is None:
            result = await run(target, words, **given)
        else:
            result = await _streamed(target, words, given, task.id, listener)
    except InputAnswerError as refused:
        if waits is None:
            raise
        raise waits.again(str(refused)) from refused
    finally:
        can_ask.reset(asking)
    if follower.asked is not None:
        raise AgentAsksError(*follower.asked, result.messages)
    if result.paused is not None:
        raise AgentWaitsError(result.requests[0], result.paused)
    if result.stop_reason != "completed":
        raise TaskError(
            f"the agent was stopped by its {result.stop_reason} before it had an answer; it said "
            f"last: {outcome(result.output_or_text) or 'nothing'}"
        )
    return outcome(result.output)


async def _streamed(
    target: Agent | Swarm,
    words: str,
    given: dict[str, Any],
    task_id: str,
    listener: Listener,
) -> RunResult:
    async with run.stream(target, words, **given) as stream:
        async for event in stream:
            listener(task_id, event)
    assert stream.result is not None  # noqa: S101 - a stream that has ended has one
    return stream.result


def _prepared(
    agent: AgentSpec | Agent, task: Task, model: Provider | str | None, follower: "_Follower"
) -> Agent:
    prompt = task.metadata.get("system_prompt")
    if isinstance(agent, Agent):
        own = _followed(agent, follower, {})
        own.instructions = agent.instructions if prompt is None else str(prompt)
        return own
    return Agent(
        name=agent.name,
        model=agent.model or (model if isinstance(model, str) else DEFAULT_MODEL),
        instructions=agent.system_prompt if prompt is None else str(prompt),
        tools=agent.tools,
        hooks=follower.hooks,
        output_type=agent.output_type,
        max_steps=agent.max_steps,
        temperature=agent.temperature,
    )


def _followed(agent: Agent, follower: "_Follower", copies: dict[int, Agent]) -> Agent:
    """Copy an agent and all it may hand off to; they may run elsewhere at the same time."""
    if id(agent) not in copies:
        own = copies[id(agent)] = copy.copy(agent)
        own.hooks = _Both(agent.hooks, follower.hooks)
        own.handoffs = [_followed(target, follower, copies) for target in agent.handoffs]
    return copies[id(agent)]


class _Follower:
    """Tells of an agent's steps and tools, and stops it when it has asked a question."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.asked: tuple[str, str] | None = None
        self.hooks = [
            Hook(HookPoint.PRE_LLM_CALL, self._step),
            Hook(HookPoint.PRE_TOOL_CALL, self._tool),
            Hook(HookPoint.POST_TOOL_CALL, self._answered),
        ]

    async def _step(self, event: HookEvent) -> None:
        # here all tools of the step before have finished
        if self.asked is not None:
            raise AgentAsksError(*self.asked, list(event.run.messages))
        await self._emit(EventType.PROGRESS, {"step": event.step, "agent": event.agent_name})

    async def _tool(self, event: HookEvent) -> None:
        # arguments and results may hold secrets, the name does not
        if event.tool_call is not None:
            await self._emit(EventType.LOG, {"tool": event.tool_call.name})

    def _answered(self, event: HookEvent) -> None:
        result = event.tool_result
        if result is not None and result.tool_name == ask_user.name and result.error is None:
            self.asked = (result.content, result.tool_call_id)


class _Both(HookManager):
    """The agent's own hooks, then ours."""

    def __init__(self, own: HookManager, ours: list[Hook]) -> None:
        super().__init__(ours)
        self._own = own
        self.observer = own.observer

    def __contains__(self, point: object) -> bool:
        return point in self._own or super().__contains__(point)

    def __bool__(self) -> bool:
        return True

    async def run(self, event: HookEvent) -> None:
        await self._own.run(event)
        await super().run(event)
