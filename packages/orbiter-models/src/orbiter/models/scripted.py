"""A model that says what it is told: for tests, demonstrations and benchmarks."""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from orbiter.config import ModelConfig, ModelSettings
from orbiter.models.provider import ModelProvider, model_registry
from orbiter.models.types import ModelError, ModelResponse, StreamChunk, ToolCallDelta
from orbiter.parts import ThinkingPart
from orbiter.types import Message, ToolCall, Usage

Line = str | ToolCall | Sequence[ToolCall] | ModelResponse | Exception
Reply = Line | Callable[[list[Message]], Line]

_WORDS = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a ScriptedModel was asked."""

    messages: list[Message]
    tools: list[dict[str, Any]]
    temperature: float | None
    max_tokens: int | None
    settings: ModelSettings | None = None


def call(name: str, /, **arguments: Any) -> ToolCall:
    """Write a tool call for a script: `call("add", a=2, b=3)`."""
    return ToolCall(id="", name=name, arguments=json.dumps(arguments))


class ScriptedModel(ModelProvider):
    """Gives its replies in order, the same way for `complete` and `stream`.

    A reply is text, a tool call or several (their ids may be empty), a whole ModelResponse, an
    exception to raise, or a function that makes one of these from the messages.

    Attributes:
        requests: What it was asked, in order.
    """

    settings = True
    model = "scripted"

    def __init__(self, *replies: Reply, repeat: bool = False, usage: Usage | None = None) -> None:
        """Write the script.

        Args:
            replies: What it says, one reply a call.
            repeat: Begin again after the last reply, rather than fail.
            usage: What each call claims to have taken; a ModelResponse says its own.
        """
        self._replies = replies
        self._repeat = repeat
        self._usage = usage or Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        self._tool_calls = 0
        self.requests: list[ModelRequest] = []

    async def complete(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        settings: ModelSettings | None = None,
    ) -> ModelResponse:
        """Give the next reply.

        Raises:
            ModelError: The script is at its end.
        """
        position = len(self.requests)
        self.requests.append(
            ModelRequest(list(messages), tools or [], temperature, max_tokens, settings)
        )
        if position >= len(self._replies) and not (self._repeat and self._replies):
            raise ModelError(
                f"the script has {len(self._replies)} replies, call {position + 1} needs another",
                model=self.model,
            )
        reply = self._replies[position % len(self._replies)]
        if not isinstance(reply, (str, ToolCall, Sequence, ModelResponse, Exception)):
            reply = reply(messages)
        return self._response(reply)

    async def stream(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        settings: ModelSettings | None = None,
    ) -> AsyncIterator[StreamChunk]:
        """Give the next reply word by word, tool calls in two pieces each.

        Raises:
            ModelError: The script is at its end.
        """
        response = await self.complete(
            messages,
            tools=tools,
            temperature=temperature,
            max_tokens=max_tokens,
            settings=settings,
        )
        for part in response.parts:
            if isinstance(part, ThinkingPart):
                yield StreamChunk(thinking=part.text)
        for word in _WORDS.findall(response.content):
            yield StreamChunk(delta=word)
        for index, tool_call in enumerate(response.tool_calls):
            first = ToolCallDelta(index=index, id=tool_call.id, name=tool_call.name)
            yield StreamChunk(tool_call_deltas=[first])
            rest = ToolCallDelta(index=index, arguments=tool_call.arguments)
            yield StreamChunk(tool_call_deltas=[rest])
        yield StreamChunk(
            finish_reason=response.finish_reason,
            usage=response.usage,
            parts=response.parts,
            id=response.id,
            model=response.model,
            provider=response.provider,
        )

    def _response(self, reply: Line) -> ModelResponse:
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, ModelResponse):
            return reply
        if isinstance(reply, str):
            return ModelResponse(model=self.model, content=reply, usage=self._usage)
        calls = [reply] if isinstance(reply, ToolCall) else reply
        return ModelResponse(
            model=self.model,
            tool_calls=[self._with_id(tool_call) for tool_call in calls],
            usage=self._usage,
            finish_reason="tool_calls",
        )

    def _with_id(self, tool_call: ToolCall) -> ToolCall:
        self._tool_calls += 1
        if tool_call.id:
            return tool_call
        return tool_call.model_copy(update={"id": f"call_{self._tool_calls}"})


def _of_one_answer(config: ModelConfig) -> ModelProvider:
    # "scripted:it-works" says it-works to everything, which is enough to try an installation
    return ScriptedModel(config.model_name, repeat=True)


model_registry.register("scripted", _of_one_answer)
