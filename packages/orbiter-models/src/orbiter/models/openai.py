"""OpenAI's chat completions, and every server that speaks them."""

import re
from collections.abc import AsyncIterator
from typing import Any

from orbiter.config import ModelConfig, ModelSettings
from orbiter.models._internal.clock import Clock
from orbiter.models._internal.openai_messages import Thoughts, to_wire
from orbiter.models._internal.openai_wire import (
    add_settings,
    chunk_of,
    finish_of,
    response_format,
    text_in,
    usage_of,
)
from orbiter.models._internal.sdk import SdkClient
from orbiter.models._internal.server import COMPATIBLE, OPENAI, ModelServer
from orbiter.models._internal.settings import add_options, refusal, sampling
from orbiter.models.provider import ModelProvider, model_registry
from orbiter.models.types import ModelResponse, StreamChunk
from orbiter.types import Message, ToolCall

_CANNOT = {
    "thinking_budget": "chat completions know no budget; give reasoning_effort, or what a "
    "compatible server calls it in extra_body"
}

_WITHOUT_SCHEMAS = re.compile(r"gpt-3\.5|gpt-4(?:$|-)|gpt-4o-2024-05-13|chatgpt-4o")


class OpenAIProvider(ModelProvider):
    """A model behind OpenAI's API. Needs `orbiter-models[openai]` and a key."""

    structured_output = True
    settings = True

    def __init__(
        self,
        config: ModelConfig,
        *,
        clock: Clock | None = None,
        server: ModelServer | None = None,
    ) -> None:
        """Check the settings; nothing is sent yet.

        Args:
            config: A `base_url` (or OPENAI_BASE_URL) means a compatible server.
            clock: Time and chance of retries, for tests.
            server: Who answers, if it is not OpenAI: its address, its key and its words.

        Raises:
            ModelError: There is no key, or the address is no URL.
        """
        asked = server or OPENAI
        self.model = config.model_name
        self._client = SdkClient(
            config,
            sdk="openai",
            client_class="AsyncOpenAI",
            key_variables={asked.key_variable: "api_key"},
            url_variable=asked.url_variable,
            public_url=asked.base_url or "https://api.openai.com/v1",
            clock=clock or Clock(),
            default_url=asked.base_url,
            needs_key=asked.needs_key,
            account=server is None,
        )
        if server is None:
            asked = COMPATIBLE if self._client.base_url else OPENAI
        self._server = asked
        self.structured_output = asked.json_schema

    def takes_schema(self, schema: dict[str, Any]) -> bool:
        """Whether an answer can be held to a schema; OpenAI's first models know only tools."""
        old = self._client.base_url is None and _WITHOUT_SCHEMAS.match(self.model) is not None
        return self.structured_output and not old

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
        request = self._request(messages, tools, temperature, max_tokens, output_schema, settings)
        answer = await self._client.send(
            lambda client: client.chat.completions.create(**request), settings
        )
        if not answer.choices:
            raise self._client.error("the answer holds no choices")
        choice = answer.choices[0]
        thoughts = Thoughts()
        thoughts.add(choice.message)
        content = text_in(choice.message.content) or choice.message.refusal or ""
        calls = choice.message.tool_calls or ()
        return ModelResponse(
            id=answer.id or "",
            model=answer.model or self.model,
            provider=self._client.config.provider,
            content=content,
            tool_calls=[
                ToolCall(
                    id=call.id or "", name=call.function.name, arguments=call.function.arguments
                )
                for call in calls
            ],
            usage=usage_of(answer.usage),
            finish_reason=finish_of(choice.finish_reason, choice.message.refusal),
            reasoning_content=thoughts.text,
            parts=thoughts.parts(content, len(calls)),
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
        request = self._request(messages, tools, temperature, max_tokens, output_schema, settings)
        request["stream"] = True
        if self._server.stream_usage:
            request["stream_options"] = {"include_usage": True}
        answer = await self._client.send(
            lambda client: client.chat.completions.create(**request), settings
        )
        ended = False
        model, identity = self.model, ""
        refusal = content = ""
        calls: set[int] = set()
        thoughts = Thoughts()
        async with self._client.streaming(answer) as events:
            async for event in events:
                delta = event.choices[0].delta if event.choices else None
                refusal += (delta and getattr(delta, "refusal", None)) or ""
                chunk = chunk_of(event, refusal, thoughts.add(delta))
                content += chunk.delta
                calls.update(piece.index for piece in chunk.tool_call_deltas)
                ended = ended or chunk.finish_reason is not None
                model, identity = event.model or model, event.id or identity
                yield chunk
        yield StreamChunk(
            parts=thoughts.parts(content, len(calls)),
            finish_reason=None if ended else "incomplete",
            id=identity,
            model=model,
            provider=self._client.config.provider,
        )

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
        request: dict[str, Any] = {
            "model": self.model,
            "messages": to_wire(messages, self._client.error, self._server),
        }
        if tools:
            request["tools"] = tools
        if temperature is not None:
            request["temperature"] = temperature
        if max_tokens is not None:
            request[self._server.tokens_field] = max_tokens
        if output_schema is not None:
            ours = self._client.base_url is None
            request["response_format"] = response_format(output_schema, strictly=ours)
        if settings is not None:
            refusal(settings, _CANNOT, self._client.error)
            if settings.prompt_caching is False:
                raise self._client.error(
                    "the setting 'prompt_caching' is False: the API caches by itself; leave it out"
                )
            add_settings(request, settings, self._server)
            add_options(request, settings)
        return request


model_registry.register("openai", OpenAIProvider)
