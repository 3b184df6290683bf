"""OpenAI's chat completions, and every server that speaks them."""

import re
from collections.abc import AsyncIterator
from typing import Any

from orbiter.config import ModelConfig, ModelSettings
from orbiter.models._internal.openai_messages import Thoughts, to_wire
from orbiter.models._internal.openai_wire import (
    add_settings,
    chunk_of,
    finish_of,
    response_format,
    usage_of,
)
from orbiter.models._internal.sdk import Clock, SdkClient
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
    """A model behind OpenAI's API. Needs `orbiter-models[openai]` and OPENAI_API_KEY."""

    structured_output = True
    settings = True

    def __init__(self, config: ModelConfig, *, clock: Clock | None = None) -> None:
        """Check the settings; nothing is sent yet.

        Args:
            config: A `base_url` (or OPENAI_BASE_URL) means a compatible server.
            clock: Time and chance of retries, for tests.

        Raises:
            ModelError: There is no key, or the address is no URL.
        """
        self.model = config.model_name
        self._client = SdkClient(
            config,
            client_class="AsyncOpenAI",
            key_variables={"OPENAI_API_KEY": "api_key"},
            url_variable="OPENAI_BASE_URL",
            public_url="https://api.openai.com/v1",
            clock=clock or Clock(),
        )

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
        content = choice.message.content or choice.message.refusal or ""
        calls = choice.message.tool_calls or ()
        return ModelResponse(
            id=answer.id or "",
            model=answer.model or self.model,
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
        request |= {"stream": True, "stream_options": {"include_usage": True}}
        answer = await self._client.send(
            lambda client: client.chat.completions.create(**request), settings
        )
        ended = False
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
                yield chunk
        if parts := thoughts.parts(content, len(calls)):
            yield StreamChunk(parts=parts)
        if not ended:
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
        output_schema: dict[str, Any] | None,
        settings: ModelSettings | None = None,
    ) -> dict[str, Any]:
        temperature, max_tokens = sampling(settings, temperature, max_tokens)
        request: dict[str, Any] = {
            "model": self.model,
            "messages": to_wire(
                messages, self._client.error, compatible=self._client.base_url is not None
            ),
        }
        if tools:
            request["tools"] = tools
        if temperature is not None:
            request["temperature"] = temperature
        if max_tokens is not None:
            # OpenAI's newer models refuse max_tokens, compatible servers know nothing else
            name = "max_tokens" if self._client.base_url else "max_completion_tokens"
            request[name] = max_tokens
        if output_schema is not None:
            ours = self._client.base_url is None
            request["response_format"] = response_format(output_schema, strictly=ours)
        if settings is not None:
            refusal(settings, _CANNOT, self._client.error)
            if settings.prompt_caching is False:
                raise self._client.error(
                    "the setting 'prompt_caching' is False: the API caches by itself; leave it out"
                )
            add_settings(request, settings)
            add_options(request, settings)
        return request


model_registry.register("openai", OpenAIProvider)
