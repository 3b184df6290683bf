"""The seams of the run loop: what it calls, never what implements it.

orbiter-core must not import orbiter-models, orbiter-context or orbiter-memory. It calls them
through these structural protocols, so any object with the right methods will do.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol, TypedDict

from orbiter.config import ModelSettings
from orbiter.types import Message, ToolCall, Usage

ContextEventName = Literal["pre_llm_call", "post_llm_call", "pre_tool_call", "post_tool_call"]


class ModelReply(Protocol):
    """What a provider's response must have; `orbiter.models.ModelResponse` is one.

    It may also have a `finish_reason`: "length", "content_filter", "refusal" and "incomplete" end
    the run with the stop reason of that name. Without one the reply counts as whole. And it may
    have `parts`, all of it in its order, when there is more than text and calls. `id` is what the
    vendor calls it; `model` and `provider` say who answered.
    """

    @property
    def content(self) -> str:
        """The text."""
        ...

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        """The tools the model wants called."""
        ...

    @property
    def usage(self) -> Usage:
        """What the call took."""
        ...


class ToolCallPiece(Protocol):
    """A fragment of a tool call in a stream; pieces with the same index belong together."""

    @property
    def index(self) -> int:
        """Which call of the reply it belongs to, from 0."""
        ...

    @property
    def id(self) -> str | None:
        """The call's id, in its first piece."""
        ...

    @property
    def name(self) -> str | None:
        """The tool's name, in its first piece."""
        ...

    @property
    def arguments(self) -> str:
        """A piece of the arguments' JSON text."""
        ...


class ReplyChunk(Protocol):
    """A fragment of a streamed reply; `orbiter.models.StreamChunk` is one.

    It may also have a `finish_reason`, as a reply has; the last one counts. `thinking` is a piece
    of what the model thinks, and `parts` are as a reply's: those of all chunks in their order.
    `id`, `model` and `provider` are as a reply's, in one of the chunks.
    """

    @property
    def delta(self) -> str:
        """A piece of the text."""
        ...

    @property
    def tool_call_deltas(self) -> Sequence[ToolCallPiece]:
        """Pieces of tool calls."""
        ...

    @property
    def usage(self) -> Usage:
        """What the call took; chunks add up."""
        ...


class Provider(Protocol):
    """A model that can be called; `orbiter.models.ModelProvider` is the base of real ones.

    `tools` are JSON objects of the form `{"type": "function", "function": {"name",
    "description", "parameters"}}`. A provider whose class says `structured_output = True` also
    takes `output_schema`, a JSON schema its answer has to fit; others find it in the system prompt.
    If it has a method `takes_schema(schema) -> bool` and that says no, the model answers by calling
    a tool with such parameters; likewise beside other tools if it says `schema_beside_tools =
    False`.
    One whose class says `settings = True` also takes `settings`, the ModelSettings that hold for
    the call besides temperature and tokens; a run that has such settings fails with another.
    """

    async def complete(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> ModelReply:
        """Answer `messages` in one piece."""
        ...

    def stream(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> AsyncIterator[ReplyChunk]:
        """Answer `messages` piece by piece."""
        ...


class ContextPayload(TypedDict, total=False):
    """What context processors see of a step, and may replace where noted.

    Only the keys that make sense for the event are present: `agent_name` always;
    pre_llm_call: `system_prompt`, `messages` and `added` (all replaceable, for this call only;
    `messages` holds no system message; `added` is text that will stand in a marked block at the end
    of the newest of them: what changes from call to call belongs there), and `settings` if a
    processor puts ModelSettings there, which go before those of run and agent for this call;
    post_llm_call: `messages` (read only), `response`; pre_tool_call: `tool_call`;
    post_tool_call: `tool_call`, `tool_result` (the result's text, or its error's; replaceable).
    """

    agent_name: str
    system_prompt: str
    messages: list[Message]
    added: str
    settings: ModelSettings
    response: ModelReply
    tool_call: ToolCall
    tool_result: str


class ContextEngine(Protocol):
    """What `Agent(context=...)` takes.

    It may also have `async def fail_run(self, *, agent_name, messages)`: called in place of
    `finish_run` when a run ends with an exception, is cancelled, or waits for a person: then
    another run begins with the same history. What it raises is logged.
    """

    async def start_run(
        self, *, agent_name: str, input: str, history: list[Message], provider: Provider
    ) -> list[Message]:
        """Begin an agent's run.

        Args:
            agent_name: The agent about to run.
            input: The text it is started with.
            history: The conversation before `input`, without system messages. After a handoff it
                is the whole conversation so far, `input` included.
            provider: The agent's model, for summaries: what they take counts in the run, and they
                are sent the way its calls are (timeout, headers, HTTP client).

        Returns:
            The history to show to the model, perhaps windowed or summarised; a tool call is never
            parted from its result.
        """
        ...

    async def process(self, event: ContextEventName, payload: dict[str, Any]) -> None:
        """Run the processors of `event`; see ContextPayload for the keys."""
        ...

    def record_step(self, agent_name: str, usage: Usage) -> None:
        """Note the tokens of one model call."""
        ...

    async def finish_run(self, *, agent_name: str, messages: list[Message], output: Any) -> None:
        """End an agent's run: save what is to be saved.

        Args:
            agent_name: The agent that ran.
            messages: What the run added, from the user's input on; every call has its result.
            output: The final text or an instance of the agent's `output_type`.
        """
        ...


class MemoryStore(Protocol):
    """What `Agent(memory=...)` takes."""

    async def recall(self, query: str, *, agent_name: str) -> str | None:
        """Return text that matters for `query`, or None; it is shown with the newest message."""
        ...

    async def remember(self, messages: list[Message], *, agent_name: str) -> None:
        """Keep what a finished run added to the conversation."""
        ...
