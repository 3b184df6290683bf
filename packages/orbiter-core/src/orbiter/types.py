"""The words of Orbiter: messages, usage, results, stream events and errors.

Everything else speaks in these. All classes are frozen: a value never changes under its reader.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import not_
from typing import Annotated, Any, Generic, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypeVar

from orbiter._input_requests import InputRequest
from orbiter._messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)
from orbiter._stream_events import (
    ErrorEvent,
    HandoffEvent,
    InputRequestEvent,
    StepEvent,
    TextEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)
from orbiter._usage import Usage
from orbiter.parts import Part

__all__ = [
    "AssistantMessage", "DepsT", "ErrorEvent", "HandoffEvent", "InputRequestEvent", "Message",
    "OrbiterError", "OutputT", "ResultEvent", "RunContext", "RunResult", "StepEvent", "StopReason",
    "StreamEvent", "SystemMessage", "TextEvent", "ThinkingEvent", "ToolCall", "ToolCallEvent",
    "ToolExecutionError", "ToolResult", "ToolResultEvent", "Usage", "UsageEvent", "UserMessage",
]  # fmt: skip


class OrbiterError(Exception):
    """The base of every exception Orbiter raises.

    One that ends a run has what there was up to then; so do other exceptions that end one.
    """

    messages: "Sequence[Message]" = ()
    usage: Usage = Usage()
    steps: int = 0
    run_id: str | None = None


class ToolExecutionError(OrbiterError):
    """A tool failed while it ran; the model is told, the run goes on."""

    def __init__(self, tool_name: str, cause: Exception) -> None:
        self.tool_name = tool_name
        self.cause = cause
        super().__init__(f"Tool '{tool_name}' failed: {cause}")


StopReason = Literal[
    "completed", "max_steps", "usage_limit", "timeout", "length", "content_filter", "refusal",
    "incomplete", "input_required", "cancelled", "error",
]  # fmt: skip

DepsT = TypeVar("DepsT", default=Any)
OutputT = TypeVar("OutputT", default=Any)


class RunResult(BaseModel, Generic[OutputT]):
    """What a run produced.

    Attributes:
        output: The final text, or a value of the agent's `output_type`, which raises an
            UnfinishedRunError when it is read of a run that was stopped before it had one.
        messages: The whole conversation without system prompts, ready for `run(messages=...)`;
            every tool call in it has a result, however the run ended.
        usage: Tokens of all model calls of all agents.
        steps: Model calls made.
        last_agent: Name of the agent that spoke last.
        stop_reason: `completed`, or what ended early; an untyped `output` is what was said last.
        requests: What a run waits for whose stop reason is `input_required`.
        paused: That run as JSON, for `run(agent, "", resume=..., answers=[...])`, once; whoever
            may change it may change the conversation.
    """

    # a run makes its result of what it knows; whoever reads one from somewhere builds the rest
    model_config = {"frozen": True, "defer_build": True}

    output: OutputT = ""  # type: ignore[assignment]
    messages: list[Annotated[Message, Field(discriminator="role")]] = []
    usage: Usage = Usage()
    steps: int = 0
    last_agent: str = ""
    stop_reason: StopReason = "completed"
    requests: tuple[InputRequest, ...] = Field(default=(), exclude_if=not_)
    paused: str | None = Field(default=None, exclude_if=not_, repr=False)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(k, v) for k, v in super().__repr_args__() if v or k != "requests"]

    @property
    def max_steps_reached(self) -> bool:
        """True when the agent was stopped by its `max_steps` before it had a final answer."""
        return self.stop_reason == "max_steps"

    @property
    def output_or_text(self) -> OutputT | str:
        """The output; of a run that was stopped before it had one, what was said last."""
        return self.__dict__["output"]  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class RunContext(Generic[DepsT]):
    """What callable instructions, hooks and tools learn about the run they are part of.

    A tool receives it in a parameter annotated so in any form, which the model does not see.

    Attributes:
        agent_name: The agent that runs now.
        input: The text this agent was started with.
        messages: The conversation so far; grows while the agent runs, read only.
        context: The agent's context engine, if any.
        deps: Whatever was given to `run(deps=...)`.
        runner: What `run` calls with an agent and its input. Whoever calls tools outside of a run
            may give `orbiter.run`.
    """

    agent_name: str
    input: str
    messages: Sequence[Message]
    context: Any
    deps: DepsT
    runner: Any = field(default=None, repr=False, compare=False)

    async def run(self, agent: Any, input: str | Sequence[Part]) -> RunResult:
        """Run an agent or a swarm as a part of this run.

        What it takes counts for this run, and this run's limits hold for it; so do its deps and
        its provider. This run's stream tells of it no more than its usage.

        Args:
            agent: An Agent or a Swarm.
            input: What it is asked; it sees nothing else.

        Returns:
            Its result, with the conversation, usage and steps of its own.

        Raises:
            OrbiterError: It failed, or this context belongs to no run.
        """
        if self.runner is None:
            raise OrbiterError(
                f"the context of '{self.agent_name}' belongs to no run: use `await run(...)`"
            )
        result: RunResult = await self.runner(agent, input)
        return result


class ResultEvent(BaseModel):
    """The last event of a run that ended by itself or by a limit."""

    model_config = {"frozen": True, "defer_build": True}

    type: Literal["result"] = "result"
    result: RunResult


StreamEvent = (
    TextEvent | ThinkingEvent | ToolCallEvent | ToolResultEvent | StepEvent | UsageEvent
    | HandoffEvent | InputRequestEvent | ErrorEvent | ResultEvent
)  # fmt: skip
