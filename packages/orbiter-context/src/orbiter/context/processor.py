"""Processors: what a context does around each model call and each tool call.

A processor belongs to one of four events and may replace values of the payload the run loop
hands it. What the modes do by themselves is done by the processors at the end of this module.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, get_args

from orbiter.context._internal.budget import compact
from orbiter.context._internal.compactor import MOST_RESULTS, shorten_old_results
from orbiter.context._internal.entities import entities_in
from orbiter.context._internal.modes import Processor, mode_registry
from orbiter.context._internal.shortening import Store
from orbiter.context._internal.steps_left import stand_in
from orbiter.context.config import ContextConfig, Mode
from orbiter.context.context import Context
from orbiter.context.errors import ContextError
from orbiter.context.prompt_builder import PromptBuilder
from orbiter.context.tokens import message_tokens

ProcessorEvent = Literal["pre_llm_call", "post_llm_call", "pre_tool_call", "post_tool_call"]
EVENTS: tuple[ProcessorEvent, ...] = get_args(ProcessorEvent)
MAX_ENTITIES = 50
PREVIEW_CHARS = 400
_GAP = "\n\n"


class ContextProcessor(ABC):
    """Something done at one event of every run of the agents a context is attached to.

    Attributes:
        event: `pre_llm_call` (payload: system_prompt, messages, added), `post_llm_call` (messages,
            response), `pre_tool_call` (tool_call) or `post_tool_call` (tool_call, tool_result);
            `agent_name` is always there. system_prompt, messages, added and tool_result are
            replaceable.
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
    """Adds neurons: those of `neuron_names` behind the agent's instructions, the mode's own aside.

    What a mode says unasked changes from call to call, so it is added to the newest message: the
    system prompt stays the same, and vendors' caches keep it.
    """

    event = "pre_llm_call"

    def __init__(self) -> None:
        self._builders: tuple[PromptBuilder, PromptBuilder] | None = None

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        """Replace the system prompt and what is added."""
        prompt, added = payload["system_prompt"], payload.get("added", "")
        run = ctx.turn_to(payload["agent_name"])
        run.prompt = f"{prompt}\n\n{added}" if added else prompt
        if self._builders is None:
            self._builders = _asked_for(ctx), _unasked(ctx)
        asked_for, unasked = self._builders
        if ctx.config.neuron_names:
            texts = prompt, await asked_for.build()
            payload["system_prompt"] = _GAP.join(filter(None, texts))
        found = added, await unasked.build(), run.shown.fitted.passages
        payload["added"] = _GAP.join(filter(None, found))


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
    """Keeps what is sent within the budget; the conversation itself stays as it was.

    In `navigator` mode tool results that the model has had before its eyes for long are shortened
    even before.
    """

    event = "pre_llm_call"

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        """Replace the messages when there is less to show than there is."""
        run = ctx.turn_to(payload["agent_name"])
        shown, count = run.shown, ctx.token_counter
        size = partial(message_tokens, count=count)
        shown.read(payload["messages"], size)
        if ctx.config.mode == "navigator" and len(shown.large) > MOST_RESULTS:
            await shorten_old_results(shown, _store(ctx), size)
        if shown.tokens > run.limit(payload["system_prompt"], payload.get("added", ""), count):
            await compact(
                shown,
                run.room(),
                input=run.input,
                store=_store(ctx),
                summarize=lambda left: stand_in(ctx, run, left),
                size=size,
            )
        run.meter.estimate = run.system_tokens + shown.tokens
        if shown.changed:
            payload["messages"] = shown.messages[:]


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


def _store(ctx: Context) -> Store:
    async def store(text: str) -> str:
        return await offload(ctx, text, ctx.token_counter(text))

    return store


# What each mode adds by itself, as far as it has something to say.
AUTOMATIC: dict[str, tuple[str, ...]] = {
    "pilot": (),
    "copilot": ("task", "todo", "workspace"),
    "navigator": ("task", "todo", "workspace", "facts", "entities"),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "task": {"current": False},
    "workspace": {"artifacts": False},
}


def _asked_for(ctx: Context) -> PromptBuilder:
    """Return a builder of what the user wants behind the instructions."""
    builder = PromptBuilder(ctx)
    for name in ctx.config.neuron_names:
        builder.add(name)
    return builder


def _unasked(ctx: Context) -> PromptBuilder:
    """Return a builder of what a mode says by itself."""
    config, builder = ctx.config, PromptBuilder(ctx)
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
        return [*augmenter, ResultShortener(), ToolResultOffloader()]
    return [*augmenter, ResultShortener(), ToolResultOffloader(), EntityNoter()]


for _mode in get_args(Mode):
    mode_registry.register(_mode, lambda config: ProcessorPipeline(processors_of(config)))
