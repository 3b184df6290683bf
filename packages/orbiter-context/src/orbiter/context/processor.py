"""Processors: what a context does around each model call and each tool call.

A processor belongs to one of four events and may replace values of the payload the run loop
hands it. What the modes do by themselves is done by the processors at the end of this module.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Literal, get_args

from orbiter.context._internal.compactor import compacted
from orbiter.context._internal.entities import entities_in
from orbiter.context._internal.modes import Processor, mode_registry
from orbiter.context.config import ContextConfig, Mode
from orbiter.context.context import Context
from orbiter.context.errors import ContextError
from orbiter.context.prompt_builder import PromptBuilder

ProcessorEvent = Literal["pre_llm_call", "post_llm_call", "pre_tool_call", "post_tool_call"]
EVENTS: tuple[ProcessorEvent, ...] = get_args(ProcessorEvent)
MAX_ENTITIES = 50
PREVIEW_CHARS = 400


class ContextProcessor(ABC):
    """Something done at one event of every run of the agents a context is attached to.

    Attributes:
        event: `pre_llm_call` (payload: system_prompt, messages), `post_llm_call` (messages,
            response), `pre_tool_call` (tool_call) or `post_tool_call` (tool_call, tool_result);
            `agent_name` is always there. system_prompt, messages and tool_result are replaceable.
    """

    event: ProcessorEvent

    @abstractmethod
    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        """Read the payload and replace what is to be changed."""


class ProcessorPipeline:
    """The processors of a context, by event, in the order they were added."""

    def __init__(self, processors: Iterable[Processor] = ()) -> None:
        self._by_event: dict[str, list[Processor]] = {}
        for processor in processors:
            self.add(processor)

    def add(self, processor: Processor) -> None:
        """Add a processor behind those of the same event.

        Raises:
            ContextError: It belongs to no known event.
        """
        event = getattr(processor, "event", None)
        if event not in EVENTS:
            raise ContextError(
                f"processor {type(processor).__name__} has event {event!r}; "
                f"set it to one of {', '.join(EVENTS)}"
            )
        self._by_event.setdefault(event, []).append(processor)

    async def run(self, ctx: Context, event: str, payload: dict[str, Any]) -> None:
        """Run the processors of an event one after the other."""
        for processor in self._by_event.get(event, ()):
            await processor.process(ctx, payload)


class PromptAugmenter(ContextProcessor):
    """Adds neurons behind the agent's instructions: the mode's, and those of `neuron_names`."""

    event = "pre_llm_call"

    def __init__(self) -> None:
        self._builder: PromptBuilder | None = None

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        """Replace the system prompt."""
        ctx.turn_to(payload["agent_name"])
        if self._builder is None:
            self._builder = _builder_of(ctx)
        added = await self._builder.build()
        if added:
            prompt = payload["system_prompt"]
            payload["system_prompt"] = f"{prompt}\n\n{added}" if prompt else added


class ToolResultOffloader(ContextProcessor):
    """Moves large tool results to the workspace; the model sees their beginning and a name."""

    event = "post_tool_call"

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        """Replace the result when it has more than `offload_threshold` tokens."""
        result = payload["tool_result"]
        # Text that is short in characters is short in tokens; counting it would cost every step.
        if len(result) <= ctx.config.offload_threshold:
            return
        tokens = ctx.token_counter(result)
        if tokens > ctx.config.offload_threshold:
            payload["tool_result"] = await offload(ctx, result, tokens)


class ResultShortener(ContextProcessor):
    """Shortens tool results the model has had before its eyes for long; they stay in full."""

    event = "pre_llm_call"

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        """Replace the messages when some were shortened."""
        shown = ctx.turn_to(payload["agent_name"]).shown
        payload["messages"] = await compacted(
            shown, payload["messages"], lambda text: offload(ctx, text, ctx.token_counter(text))
        )


class EntityNoter(ContextProcessor):
    """Notes the names the model mentions, for the entities neuron."""

    event = "post_llm_call"

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        """Add new names to the state key `entities`; the oldest give way."""
        found = entities_in(payload["response"].content)
        known = ctx.state.get("entities", [])
        new = [name for name in found if name not in known]
        if new:
            ctx.state.set("entities", [*known, *new][-MAX_ENTITIES:])


async def offload(ctx: Context, result: str, tokens: int) -> str:
    """Write a tool result to the workspace and return what the model sees in its place."""
    artifact_id = await ctx.workspace.write_artifact(result)
    if ctx.config.enable_retrieval:
        await ctx.knowledge.add(artifact_id, content=result)
    return (
        f"[Result stored as artifact: {artifact_id}] It has about {tokens} tokens and begins:\n"
        f"{result[:PREVIEW_CHARS]}"
    )


# What each mode adds to the prompt by itself, as far as it has something to say.
AUTOMATIC: dict[str, tuple[str, ...]] = {
    "pilot": (),
    "copilot": ("task", "todo", "workspace"),
    "navigator": ("task", "todo", "workspace", "facts", "entities"),
}
OPTIONS: dict[str, dict[str, Any]] = {"task": {"current": False}}


def _builder_of(ctx: Context) -> PromptBuilder:
    """Return a builder of what a context's configuration adds to the instructions."""
    config = ctx.config
    builder = PromptBuilder(ctx)
    for name in config.neuron_names:
        builder.add(name)
    for name in AUTOMATIC[config.mode]:
        if name not in config.neuron_names:
            builder.add(name, **OPTIONS.get(name, {}))
    if config.mode == "navigator" and config.enable_retrieval:
        builder.add("knowledge")
    return builder


def processors_of(config: ContextConfig) -> list[ContextProcessor]:
    """Return the processors that make up a mode."""
    augmenter = [PromptAugmenter()] if config.neuron_names or config.mode != "pilot" else []
    if config.mode == "pilot":
        return [*augmenter]
    if config.mode == "copilot":
        return [*augmenter, ToolResultOffloader()]
    return [ResultShortener(), *augmenter, ToolResultOffloader(), EntityNoter()]


for _mode in get_args(Mode):
    mode_registry.register(_mode, lambda config: ProcessorPipeline(processors_of(config)))
