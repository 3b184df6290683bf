"""The Agent: a model, its instructions and what it may use. It holds no state of a run."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, overload

from typing_extensions import TypeForm

from orbiter._agent_values import agreed_settings, check_given, check_tools, checked_config
from orbiter._misuse import require, require_all
from orbiter._output import OutputFunction, OutputSchema, OutputValidator
from orbiter.agent_tool import AgentTool
from orbiter.config import (
    DEFAULT_MAX_STEPS,
    DEFAULT_MODEL,
    DEFAULT_RETRIES,
    DEFAULT_TEMPERATURE,
    ModelSettings,
)
from orbiter.guardrails import Guardrail
from orbiter.hooks import Hook, HookFunction, HookManager, HookPoint
from orbiter.observer import Observer
from orbiter.protocols import ContextEngine, MemoryStore, Provider
from orbiter.tool import Tool
from orbiter.types import DepsT, OutputT, RunContext

Instructions = str | Callable[[RunContext[DepsT]], str | Awaitable[str]]
ToolFilter = Callable[[RunContext[DepsT], Tool], bool | Awaitable[bool]]

__all__ = [
    "Agent",
    "ContextEngine",
    "Instructions",
    "MemoryStore",
    "OutputFunction",
    "Provider",
    "ToolFilter",
]


class Agent(Generic[DepsT, OutputT]):
    """What runs: give it to `run` as often as you like, also concurrently.

    Attributes are those of the constructor; `hooks` is a HookManager. `tools` and `handoffs` may
    be extended between runs, which is how two agents can hand off to each other. `provider` is
    what a subclass brings along as its model, whatever the run uses for others: a remote agent
    does. `expected` is what `output_type` makes of an answer, None where text will do.
    """

    provider: Provider | None = None

    @overload
    def __init__(
        self: "Agent[DepsT, str]",
        *,
        name: str,
        model: str = DEFAULT_MODEL,
        instructions: Instructions[DepsT] = "",
        tools: Sequence[Tool] = (),
        handoffs: Sequence["Agent[Any, Any]"] = (),
        hooks: Sequence[Hook | Observer | tuple[HookPoint, HookFunction]] = (),
        output_type: None = None,
        max_steps: int = DEFAULT_MAX_STEPS,
        temperature: float = DEFAULT_TEMPERATURE,
        max_tokens: int | None = None,
        memory: MemoryStore | None = None,
        context: ContextEngine | None = None,
        settings: ModelSettings | None = None,
        output_validators: Sequence[OutputFunction[DepsT, str]] = (),
        retries: int = DEFAULT_RETRIES,
        description: str = "",
        tool_filter: ToolFilter[DepsT] | None = None,
        guardrails: Sequence[Guardrail] = (),
    ) -> None: ...
    @overload
    def __init__(
        self,
        *,
        name: str,
        model: str = DEFAULT_MODEL,
        instructions: Instructions[DepsT] = "",
        tools: Sequence[Tool] = (),
        handoffs: Sequence["Agent[Any, Any]"] = (),
        hooks: Sequence[Hook | Observer | tuple[HookPoint, HookFunction]] = (),
        output_type: type[OutputT],
        max_steps: int = DEFAULT_MAX_STEPS,
        temperature: float = DEFAULT_TEMPERATURE,
        max_tokens: int | None = None,
        memory: MemoryStore | None = None,
        context: ContextEngine | None = None,
        settings: ModelSettings | None = None,
        output_validators: Sequence[OutputFunction[DepsT, OutputT]] = (),
        retries: int = DEFAULT_RETRIES,
        description: str = "",
        tool_filter: ToolFilter[DepsT] | None = None,
        guardrails: Sequence[Guardrail] = (),
    ) -> None: ...
    @overload
    def __init__(
        self,
        *,
        name: str,
        model: str = DEFAULT_MODEL,
        instructions: Instructions[DepsT] = "",
        tools: Sequence[Tool] = (),
        handoffs: Sequence["Agent[Any, Any]"] = (),
        hooks: Sequence[Hook | Observer | tuple[HookPoint, HookFunction]] = (),
        output_type: TypeForm[OutputT],
        max_steps: int = DEFAULT_MAX_STEPS,
        temperature: float = DEFAULT_TEMPERATURE,
        max_tokens: int | None = None,
        memory: MemoryStore | None = None,
        context: ContextEngine | None = None,
        settings: ModelSettings | None = None,
        output_validators: Sequence[OutputFunction[DepsT, OutputT]] = (),
        retries: int = DEFAULT_RETRIES,
        description: str = "",
        tool_filter: ToolFilter[DepsT] | None = None,
        guardrails: Sequence[Guardrail] = (),
    ) -> None: ...
    def __init__(
        self,
        *,
        name: str,
        model: str = DEFAULT_MODEL,
        instructions: Instructions[DepsT] = "",
        tools: Sequence[Tool] = (),
        handoffs: Sequence["Agent[Any, Any]"] = (),
        hooks: Sequence[Hook | Observer | tuple[HookPoint, HookFunction]] = (),
        output_type: Any = None,
        max_steps: int = DEFAULT_MAX_STEPS,
        temperature: float = DEFAULT_TEMPERATURE,
        max_tokens: int | None = None,
        memory: MemoryStore | None = None,
        context: ContextEngine | None = None,
        settings: ModelSettings | None = None,
        output_validators: Sequence[OutputFunction[DepsT, Any]] = (),
        retries: int = DEFAULT_RETRIES,
        description: str = "",
        tool_filter: ToolFilter[DepsT] | None = None,
        guardrails: Sequence[Guardrail] = (),
    ) -> None:
        """Create an agent.

        Args:
            name: Unique among the agents it works with.
            model: "provider:model_name".
            instructions: The system prompt, or a function, sync or async, that makes it from the
                RunContext before each model call.
            tools: What the model may call.
            handoffs: Agents this one may pass the conversation to, by `transfer_to_<name>`.
            hooks: Functions called at points of the run, and at most one Observer.
            output_type: Makes `result.output` a value of it: anything that pydantic's TypeAdapter
                takes. A model's answer that does not fit is sent back for correction.
            max_steps: Model calls the agent may make in one run.
            temperature: From 0 to 2; a vendor is sent one that was given, 1.0 too.
            max_tokens: Output tokens per model call.
            memory: Recalled before the run, told of it afterwards.
            context: Builds prompts, keeps the window small, holds state.
            settings: What else a model can be told; its `temperature` and `max_tokens` are those
                of the agent.
            output_validators: Functions, sync or async, that return the output, or raise
                ModelRetry with what the model is to do better. They take the output, or the
                RunContext and the output.
            retries: How often a run asks for a better answer, and for a better call of each tool
                that raises ModelRetry.
            description: What it is good for, in a sentence: by it others decide to call on it.
            tool_filter: A function, sync or async, asked before each model call whether a tool is
                offered in it. It takes the RunContext and the Tool.
            guardrails: What looks at its input, its output and its tool calls.

        Raises:
            OrbiterError: A value is out of range, or two tools have one name.
        """
        if settings is not None:
            temperature, max_tokens = agreed_settings(name, settings, temperature, max_tokens)
        self.config = checked_config(
            name=name,
            model=model,
            instructions=instructions if isinstance(instructions, str) else "",
            max_tokens=max_tokens,
            max_steps=max_steps,
            retries=retries,
            description=description,
            **({} if temperature is DEFAULT_TEMPERATURE else {"temperature": temperature}),
        )
        where = f"Agent '{name}'"
        require_all(handoffs, Agent, f"{where}: handoffs=", "an Agent", "a list, such as [agent]")
        check_given(where, tools, guardrails, memory, context)
        self.name = name
        self.model = model
        self.description = description
        self.instructions = instructions
        self.tools = list(tools)
        self.handoffs = list(handoffs)
        self.hooks = HookManager(hooks)
        self.output_type = output_type
        self.expected: OutputSchema | None = None
        if output_type is not None and output_type is not str:
            self.expected = OutputSchema(output_type, f"{where}: output_type=")
        self.output_schema = None if self.expected is None else self.expected.schema
        self.max_steps = max_steps
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.memory = memory
        self.context = context
        self.settings = settings
        self.retries = retries
        self.tool_filter = tool_filter
        self.guardrails = list(guardrails)
        self.output_validators: list[OutputValidator] = []
        require(output_validators, Iterable, f"{where}: output_validators=", "a list of functions")
        for validator in output_validators:
            self.output_validator(validator)
        check_tools(name, self.tools)

    def output_validator(
        self, validator: OutputFunction[DepsT, OutputT], /
    ) -> OutputFunction[DepsT, OutputT]:
        """Have a function check each output: `@agent.output_validator`; see `output_validators`.

        Raises:
            OrbiterError: It takes neither the output nor the RunContext and the output.
        """
        where = f"Agent '{self.name}': output_validators="
        self.output_validators.append(OutputValidator(validator, where))
        return validator

    def as_tool(self, *, name: str | None = None, description: str | None = None) -> AgentTool:
        """Return a tool by which another agent asks this one; AgentTool says what is refused.

        Args:
            name: What the model calls it, by default the agent's name.
            description: What it is for, by default the agent's own description.
        """
        return AgentTool(self, name=name, description=description)

    def __repr__(self) -> str:
        return f"Agent(name={self.name!r}, model={self.model!r})"
