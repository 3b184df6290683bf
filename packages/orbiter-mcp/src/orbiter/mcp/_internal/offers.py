"""What an MCPServer offers: how a tool or an agent looks to a client, and what calling it does."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pydantic import BaseModel

from orbiter import run
from orbiter.agent import Agent, Provider
from orbiter.mcp._internal.files import split
from orbiter.mcp._internal.names import full_name
from orbiter.outputs import as_text
from orbiter.parts import ResultPart, has_parts
from orbiter.swarm import Swarm
from orbiter.tool import Tool, ToolArgumentsError
from orbiter.types import ResultEvent, RunContext, StepEvent, ToolCallEvent, ToolExecutionError

Report = Callable[[float, float | None, str | None], Awaitable[None]]


class Answer(NamedTuple):
    """What a call gives: text for models, data for programs, or why it failed."""

    text: str
    structured: Any = None
    failed: bool = False
    files: Sequence[ResultPart] = ()


class Offer(ABC):
    """One tool of the server."""

    name: str

    @abstractmethod
    def definition(self) -> dict[str, Any]:
        """Return the fields of the SDK's Tool."""

    @abstractmethod
    async def call(self, arguments: dict[str, Any], report: Report) -> Answer:
        """Do it; what goes wrong is told in the answer."""


class ToolOffer(Offer):
    """A tool as it is."""

    def __init__(self, tool: Tool, server: str, provider: Provider | None, deps: Any) -> None:
        self.name = tool.name
        self._tool = tool
        runner = partial(run, provider=provider, deps=deps)
        self._context = RunContext(server, "", (), None, deps, runner)

    def definition(self) -> dict[str, Any]:
        """Return the fields of the SDK's Tool."""
        tool = self._tool
        schema = {"type": "object", **tool.parameters}
        return {"name": tool.name, "description": tool.description, "input_schema": schema}

    async def call(self, arguments: dict[str, Any], report: Report) -> Answer:
        """Check the arguments and execute the tool."""
        try:
            keywords = self._tool.parse(json.dumps(arguments))
            if self._tool.context_parameter is not None:
                keywords[self._tool.context_parameter] = self._context
            value = await self._tool.execute(**keywords)
        except ToolArgumentsError as error:
            return Answer(f"arguments: {error}", failed=True)
        except ToolExecutionError as error:
            return Answer(str(error.cause) or type(error.cause).__name__, failed=True)
        except Exception as error:
            return Answer(str(error) or type(error).__name__, failed=True)
        return _answer(value)


class AgentOffer(Offer):
    """An agent or a swarm that is run from the beginning at each call."""

    def __init__(self, agent: Agent | Swarm, provider: Provider | None, deps: Any) -> None:
        shown: Agent | Swarm = agent
        while isinstance(shown, Swarm) and not shown.name:
            shown = shown.agents[0]
        self.name = full_name("", shown.name)
        self._agent = agent
        self._provider = provider
        self._deps = deps
        last = agent if isinstance(agent, Agent) else None
        self._expected = last.expected if last is not None else None
        said = shown.description
        if not said and isinstance(shown, Agent) and isinstance(shown.instructions, str):
            said = shown.instructions
        self._description = f"Ask the agent '{shown.name}'." + (f" {said}" if said else "")

    def definition(self) -> dict[str, Any]:
        """Return the fields of the SDK's Tool."""
        schema = {
            "type": "object",
            "properties": {"input": {"type": "string", "description": "What to ask or tell it."}},
            "required": ["input"],
            "additionalProperties": False,
        }
        return {
            "name": self.name,
            "description": self._description,
            "input_schema": schema,
            "output_schema": None if self._expected is None else self._expected.schema,
        }

    async def call(self, arguments: dict[str, Any], report: Report) -> Answer:
        """Run the agent; its steps and tool calls are reported."""
        text = arguments.get("input")
        if not isinstance(text, str) or set(arguments) != {"input"}:
            return Answer('arguments: give {"input": "what to ask"} and nothing else', failed=True)
        told = 0
        output: Any = ""
        stopped = "completed"
        try:
            stream = run.stream(self._agent, text, provider=self._provider, deps=self._deps)
            async with stream:
                async for event in stream:
                    if isinstance(event, StepEvent | ToolCallEvent):
                        told += 1
                        await report(told, None, _what(event))
                    elif isinstance(event, ResultEvent):
                        output, stopped = event.result.output, event.result.stop_reason
        except Exception as error:
            return Answer(str(error) or type(error).__name__, failed=True)
        if stopped != "completed":
            return Answer(f"the agent '{self.name}' was stopped: {stopped}", failed=True)
        # what is no object is in one, as the schema says
        return _answer(output if self._expected is None else self._expected.holding(output))


def _what(event: StepEvent | ToolCallEvent) -> str:
    if isinstance(event, StepEvent):
        return f"{event.agent_name}: step {event.step}"
    return f"{event.agent_name} calls {event.tool_name}"


def _answer(value: Any) -> Answer:
    if has_parts(value):
        said, files = split(value)
        return Answer("\n".join(_answer(one).text for one in said), files=files)
    if isinstance(value, str):
        return Answer(value)
    text = as_text(value)
    structured = json.loads(text)
    if isinstance(value, BaseModel) or isinstance(structured, dict):
        return Answer(text, structured)
    return Answer(text)
