"""Anthropic's messages."""

import json
from collections.abc import AsyncIterator
from typing import Any

from orbiter.config import ModelConfig
from orbiter.models._internal.counter import Counter
from orbiter.models._internal.sdk import Clock, SdkClient
from orbiter.models.provider import ModelProvider, model_registry
from orbiter.models.types import FinishReason, ModelResponse, StreamChunk, ToolCallDelta
from orbiter.types import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolResult,
)

# the API wants a number; every Claude can write this much
_DEFAULT_MAX_TOKENS = 4096

_FINISH: dict[str | None, FinishReason] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "incomplete",
}


class AnthropicProvider(ModelProvider):
    """A Claude model. Needs `orbiter-models[anthropic]` and ANTHROPIC_API_KEY."""

    def __init__(self, config: ModelConfig, *, clock: Clock | None = None) -> None:
        """Check the settings; nothing is sent yet.

        Args:
            config: A `base_url` (or ANTHROPIC_BASE_URL) means a proxy.
            clock: Time and chance of retries, for tests.

        Raises:
            ModelError: There is no key, or the address is no URL.
        """
        self.model = config.model_name
        self._client = SdkClient(
            config,
            client_class="AsyncAnthropic",
            key_variables={
                "ANTHROPIC_API_KEY": "api_key",
                "ANTHROPIC_AUTH_TOKEN": "auth_token",
            },
            url_variable="ANTHROPIC_BASE_URL",
            public_url="https://api.anthropic.com",
            clock=clock or Clock(),
        )

    async def complete(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> ModelResponse:
        """Answer in one piece; see ModelProvider."""
        request = self._request(messages, tools, temperature, max_tokens)
        answer = await self._client.send(lambda client: client.messages.create(**request))
        blocks = answer.content
        return ModelResponse(
            id=answer.id,
            model=answer.model,
            content="".join(block.text for block in blocks if block.type == "text"),
            tool_calls=[
                ToolCall(id=block.id, name=block.name, arguments=json.dumps(block.input))
                for block in blocks
                if block.type == "tool_use"
            ],
            usage=Counter().add(answer.usage).usage,
            finish_reason=_FINISH.get(answer.stop_reason, "stop"),
            reasoning_content="".join(b.thinking for b in blocks if b.type == "thinking"),
        )

    async def stream(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> AsyncIterator[StreamChunk]:
        """Answer piece by piece; see ModelProvider."""
        request = self._request(messages, tools, temperature, max_tokens)
        request["stream"] = True
        answer = await self._client.send(lambda client: client.messages.create(**request))
        counter = Counter()
        reason: FinishReason | None = None
        ended = False
        async with self._client.streaming(answer) as events:
            async for event in events:
                if event.type == "message_start":
                    yield StreamChunk(usage=counter.add(event.message.usage).increment())
                elif event.type == "message_delta":
                    reason = _FINISH.get(event.delta.stop_reason, "stop")
                    usage = counter.add(event.usage).increment()
                    yield StreamChunk(finish_reason=reason, usage=usage)
                elif event.type == "message_stop":
                    ended = True
                elif (chunk := _chunk(event)) is not None:
                    yield chunk
        if not ended and reason in (None, "stop", "tool_calls"):
            yield StreamChunk(finish_reason="incomplete")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _request(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None,
        temperature: float | None,
        max_tokens: int | None,
    ) -> dict[str, Any]:
        system, wire = _to_wire(messages)
        request: dict[str, Any] = {
            "model": self.model,
            "messages": wire,
            "max_tokens": max_tokens or _DEFAULT_MAX_TOKENS,
        }
        if system:
            request["system"] = system
        if tools:
            request["tools"] = [
                {
                    "name": tool["function"]["name"],
                    "description": tool["function"]["description"],
                    "input_schema": tool["function"]["parameters"],
                }
                for tool in tools
            ]
        if temperature not in (None, 1.0):
            # 1 is what the API takes itself; newer models refuse the field and newer SDKs lack it
            request["extra_body"] = {"temperature": temperature}
        return request


model_registry.register("anthropic", AnthropicProvider)


def _to_wire(messages: list[Message]) -> tuple[str, list[dict[str, Any]]]:
    """Write a conversation as the API takes it.

    Returns:
        The system prompt, and messages whose roles alternate, beginning with the user's.
    """
    system: list[str] = []
    wire: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            system.append(message.content)
            continue
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message)
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"].extend(blocks)
        elif blocks:
            wire.append({"role": role, "content": blocks})
    if wire and wire[0]["role"] == "assistant":
        wire.insert(0, {"role": "user", "content": [_text("(The conversation goes on.)")]})
    return "\n\n".join(system), wire


def _blocks(message: Message) -> list[dict[str, Any]]:
    if isinstance(message, ToolResult):
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            "content": message.content if message.error is None else message.error,
        }
        return [block if message.error is None else block | {"is_error": True}]
    # the API refuses empty text
    blocks = [_text(message.content)] if message.content else []
    if isinstance(message, AssistantMessage):
        blocks += [
            {
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": _object(call.arguments),
            }
            for call in message.tool_calls
        ]
    return blocks


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _object(arguments: str) -> dict[str, Any]:
    """Read arguments for the API, which takes nothing but objects; others are shown as text."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"invalid": arguments}


def _chunk(event: Any) -> StreamChunk | None:
    if event.type == "content_block_start" and event.content_block.type == "tool_use":
        block = event.content_block
        piece = ToolCallDelta(index=event.index, id=block.id, name=block.name)
        return StreamChunk(tool_call_deltas=[piece])
    if event.type != "content_block_delta":
        return None
    if event.delta.type == "text_delta":
        return StreamChunk(delta=event.delta.text)
    if event.delta.type == "input_json_delta":
        piece = ToolCallDelta(index=event.index, arguments=event.delta.partial_json)
        return StreamChunk(tool_call_deltas=[piece])
    return None
