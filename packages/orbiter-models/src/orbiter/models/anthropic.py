"""Anthropic's messages."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

from orbiter.config import ModelConfig, ModelSettings
from orbiter.models._internal.anthropic_blocks import Blocks, reply_parts
from orbiter.models._internal.anthropic_cache import add_breakpoints
from orbiter.models._internal.anthropic_wire import (
    FINISH,
    MOST_PAUSES,
    PAUSE,
    add_format,
    add_settings,
    drop_thinking,
    going_on,
    to_wire,
)
from orbiter.models._internal.clock import Clock
from orbiter.models._internal.counter import Counter
from orbiter.models._internal.sdk import SdkClient
from orbiter.models._internal.settings import add_options, refusal, sampling
from orbiter.models._internal.strict import is_closed, is_recursive
from orbiter.models.provider import ModelProvider, model_registry
from orbiter.models.types import FinishReason, ModelError, ModelResponse, StreamChunk
from orbiter.types import Message, ToolCall, Usage

# the API wants a number; every Claude can write this much
_DEFAULT_MAX_TOKENS = 4096
_WITHOUT_SCHEMAS = re.compile(r"claude-(?:instant|[23]|(?:opus|sonnet)-4(?:-[01])?(?:-20\d{6})?$)")

_CANNOT = {
    "seed": "the API knows none; leave it out",
}


class AnthropicProvider(ModelProvider):
    """A Claude model. Needs `orbiter-models[anthropic]` and ANTHROPIC_API_KEY."""

    structured_output = True
    settings = True
    _version = ""

    def __init__(self, config: ModelConfig, *, clock: Clock | None = None) -> None:
        """Check the settings; nothing is sent yet.

        Args:
            config: A `base_url` (or ANTHROPIC_BASE_URL) means a proxy.
            clock: Time and chance of retries, for tests.

        Raises:
            ModelError: There is no key, or the address is no URL.
        """
        self._speak(
            SdkClient(
                config,
                sdk="anthropic",
                client_class="AsyncAnthropic",
                key_variables={
                    "ANTHROPIC_API_KEY": "api_key",
                    "ANTHROPIC_AUTH_TOKEN": "auth_token",
                },
                url_variable="ANTHROPIC_BASE_URL",
                public_url="https://api.anthropic.com",
                clock=clock or Clock(),
            )
        )

    def _speak(self, client: SdkClient) -> None:
        """Choose who makes the calls."""
        self.model = client.config.model_name
        self._client = client

    def takes_schema(self, schema: dict[str, Any]) -> bool:
        """Whether the API can hold an answer to a schema; Claude's first models know only tools."""
        known = self.model.startswith("claude-") and not _WITHOUT_SCHEMAS.match(self.model)
        return known and is_closed(schema) and not is_recursive(schema)

    async def complete(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        output_schema: dict[str, Any] | None = None,
        settings: ModelSettings | None = None,
    ) -> ModelResponse:
        """Answer in one piece; see ModelProvider."""
        if output_schema is not None:
            # the SDK knows how its vendor writes schemas
            await self._client.ready()
        request = self._request(messages, tools, temperature, max_tokens, output_schema, settings)
        blocks: list[Any] = []
        usage = Usage()
        for left in reversed(range(1 + MOST_PAUSES)):
            try:
                answer = await self._send(request, settings)
            except ModelError as error:
                error.paid = usage
                raise
            blocks += answer.content
            usage += Counter().add(answer.usage).usage
            if answer.stop_reason != PAUSE or not left:
                break
            request = going_on(request, [block.to_dict() for block in answer.content])
        return ModelResponse(
            id=answer.id,
            model=answer.model,
            provider=self._client.config.provider,
            content="".join(block.text for block in blocks if block.type == "text"),
            tool_calls=[
                ToolCall(id=block.id, name=block.name, arguments=json.dumps(block.input))
                for block in blocks
                if block.type == "tool_use"
            ],
            usage=usage,
            finish_reason=FINISH.get(answer.stop_reason, "stop"),
            reasoning_content="".join(b.thinking for b in blocks if b.type == "thinking"),
            parts=reply_parts([block.to_dict() for block in blocks]),
        )

    async def stream(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        output_schema: dict[str, Any] | None = None,
        settings: ModelSettings | None = None,
    ) -> AsyncIterator[StreamChunk]:
        """Answer piece by piece; see ModelProvider."""
        if output_schema is not None:
            # the SDK knows how its vendor writes schemas
            await self._client.ready()
        request = self._request(messages, tools, temperature, max_tokens, output_schema, settings)
        request["stream"] = True
        blocks = Blocks()
        reason: FinishReason | None = None
        ended = False
        for left in reversed(range(1 + MOST_PAUSES)):
            answer = await self._send(request, settings)
            counter, reason, ended, paused = Counter(), None, False, False
            async with self._client.streaming(answer) as events:
                async for event in events:
                    if event.type == "message_start":
                        yield StreamChunk(
                            usage=counter.add(event.message.usage).increment(),
                            id=event.message.id,
                            model=event.message.model,
                            provider=self._client.config.provider,
                        )
                    elif event.type == "message_delta":
                        paused = event.delta.stop_reason == PAUSE and left > 0
                        if not paused:
                            reason = FINISH.get(event.delta.stop_reason, "stop")
                        usage = counter.add(event.usage).increment()
                        yield StreamChunk(finish_reason=reason, usage=usage)
                    elif event.type == "message_stop":
                        ended = True
                    elif (chunk := blocks.add(event)) is not None:
                        yield chunk
            if not (paused and ended):
                break
            request = going_on(request, blocks.go_on())
        if parts := blocks.parts:
            yield StreamChunk(parts=parts)
        if not ended and reason in (None, "stop", "tool_calls"):
            yield StreamChunk(finish_reason="incomplete")

    async def _send(self, request: dict[str, Any], settings: ModelSettings | None) -> Any:
        return await self._client.send(lambda client: client.messages.create(**request), settings)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _request(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None,
        temperature: float | None,
        max_tokens: int | None,
        output_schema: dict[str, Any] | None,
        settings: ModelSettings | None = None,
    ) -> dict[str, Any]:
        temperature, max_tokens = sampling(settings, temperature, max_tokens)
        system, wire = to_wire(messages, self._client.error)
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
        if temperature is not None:
            # newer SDKs lack the field, as newer models refuse it
            request["extra_body"] = {"temperature": temperature}
        if settings is None or _is_cached(settings):
            add_breakpoints(request)
        if settings is not None:
            refusal(settings, _CANNOT, self._client.error)
            add_settings(request, settings, max_tokens, self._client.error)
            drop_thinking(request)
        if output_schema is not None:
            add_format(request, output_schema)
        if settings is not None:
            add_options(request, settings)
        if self._version:
            # in a cloud it stands in the body; the SDK would send its vendor's newest
            given = request.get("extra_body", {})
            request["extra_body"] = {"anthropic_version": self._version, **given}
        return request


def _is_cached(settings: ModelSettings) -> bool:
    # whoever has the API place its breakpoint by itself needs none of ours
    return settings.prompt_caching is not False and "cache_control" not in (
        settings.extra_body or {}
    )


model_registry.register("anthropic", AnthropicProvider)
