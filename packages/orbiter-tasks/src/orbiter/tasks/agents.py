"""What can run a task: an AgentSpec, an Agent, a Swarm or an async function of the Task.

They are found by the task's `config_name`; the task's `system_prompt` outranks their own.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

from orbiter import Agent, Swarm, Tool, tool
from orbiter.config import DEFAULT_MAX_STEPS, DEFAULT_TEMPERATURE
from orbiter.tasks._shown import shown
from orbiter.tasks.models import Task
from orbiter.tasks.state import TaskError
from orbiter.types import OrbiterError

DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."
# whether the agent that runs in this context can be put aside to wait for an answer
can_ask: ContextVar[bool] = ContextVar("orbiter_tasks_can_ask", default=False)


class InputRequiredError(TaskError):
    """A task cannot go on without an answer; raised by an async function that runs tasks."""

    def __init__(self, question: str) -> None:
        self.question = question
        super().__init__(question)


class AgentSpec(BaseModel):
    """What an agent is made from, anew for each task.

    Attributes:
        name: The agent's name.
        system_prompt: Its instructions, unless the task has its own.
        model: "provider:model_name"; None takes the worker's.
        tools: What it may call; with `ask_user` among them it can ask questions.
        output_type: Makes the task's result the JSON of a value of it; any type an `Agent` takes.
        max_steps: Model calls it may make.
        temperature: From 0 to 2.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    name: str = "agent"
    system_prompt: str = DEFAULT_SYSTEM_PROMPT
    model: str | None = None
    tools: tuple[Tool, ...] = ()
    output_type: Any = None
    max_steps: int = DEFAULT_MAX_STEPS
    temperature: float = DEFAULT_TEMPERATURE

    @model_validator(mode="after")
    def _has_a_type_of_answers(self) -> Self:
        try:
            Agent(name=self.name, output_type=self.output_type)
        except OrbiterError as error:
            raise ValueError(str(error)) from error
        return self


TaskFunction = Callable[[Task], Awaitable[Any]]
TaskAgent = AgentSpec | Agent | Swarm | TaskFunction


@tool
async def ask_user(question: str) -> str:
    """Ask the user a question when the task cannot be done without the answer.

    Args:
        question: What the user has to tell you.
    """
    if not can_ask.get():
        raise TaskError("nobody can be asked here: only a single agent that runs a task can ask")
    # the worker puts the task aside before the model sees this, and the answer in its place
    return question


def named(agents: Any) -> dict[str, TaskAgent]:
    """Return agents by name.

    Args:
        agents: A mapping, or several that have a `name` (a function's is its own).

    Raises:
        TaskError: Something cannot run a task.
    """
    if isinstance(agents, AgentSpec | Agent | Swarm | str) or not isinstance(agents, Iterable):
        raise TaskError(f"{shown(agents)} is no list: give [agent] or {{'name': agent}}")
    pairs = agents.items() if hasattr(agents, "items") else ((_name(a), a) for a in agents)
    found = dict(pairs)
    for name, agent in found.items():
        usable = isinstance(agent, AgentSpec | Agent | Swarm)
        if not usable and not inspect.iscoroutinefunction(agent):
            raise TaskError(
                f"'{name}' cannot run a task: {agent!r} is no AgentSpec, Agent, Swarm or async "
                "function of a Task"
            )
    return found


def _name(agent: Any) -> str:
    name = getattr(agent, "name", None) or getattr(agent, "__name__", None)
    if not isinstance(name, str):
        raise TaskError(f"{agent!r} has no name; register it as {{'name': agent}}")
    return name
