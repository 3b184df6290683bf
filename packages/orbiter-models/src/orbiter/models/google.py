"""Google's Gemini models, by its own SDK."""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from orbiter.config import ModelConfig, ModelSettings
from orbiter.models._internal.clock import Clock
from orbiter.models._internal.google_client import GoogleClient
from orbiter.models._internal.google_contents import to_wire
from orbiter.models._internal.google_schema import gemini_schema
from orbiter.models._internal.google_wire import Reply, add_settings
from orbiter.models._internal.settings import sampling
from orbiter.models._internal.strict import is_closed, is_recursive
from orbiter.models.provider import ModelProvider
from orbiter.models.types import ModelResponse, StreamChunk
from orbiter.types import Message

_WITH_SCHEMAS = re.compile(r"gemini-(?!1\.|embedding)")
# these know neither schemas nor tools
_BY_PROMPT = re.compile(r"gemma-[1-3]|gemini-2\..*-image")


class GoogleProvider(ModelProvider):
    """A Gemini model. Needs `orbiter-models[google]` and GOOGLE_API_KEY or GEMINI_API_KEY."""

    structured_output = True
    schema_beside_tools = False
    settings = True
    embeddings = True

    def __init__(self, config: ModelConfig, *, clock: Clock | None = None) -> None:
        """Check the settings; nothing is sent yet.

        Args:
            config: A `base_url` (or GOOGLE_GEMINI_BASE_URL) means a proxy.
            clock: Time and chance of retries, for tests.

        Raises:
            ModelError: There is no key, or the address is no URL.
        """
        self._speak(
            GoogleClient(
                config,
                sdk="google",
                client_class="Client",
                key_variables={"GOOGLE_API_KEY": "api_key", "GEMINI_API_KEY": "api_key"},
                url_variable="GOOGLE_GEMINI_BASE_URL",
                public_url="https://generativelanguage.googleapis.com",
                clock=clock or Clock(),
            )
        )

    def _speak(self, client: GoogleClient) -> None:
        """Choose who makes the calls."""
        self.model = client.config.model_name
        self._client = client
        if _BY_PROMPT.match(self.model):
            self.structured_output = False
            # whoever has no such method is told the schema in its prompt
            setattr(self, "takes_schema", None)  # noqa: B010

    def takes_schema(self, schema: dict[str, Any]) -> bool:
        """Whether an answer can be held to a schema; an answer to another is a tool call."""
        known = _WITH_SCHEMAS.match(self.model) is not None
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
        request = self._request(messages, tools, temperature, max_tokens, output_schema, settings)
        answer = await self._client.send(
            lambda client: client.aio.models.generate_content(**self._client.typed(request)),
            settings,
        )
        reply = Reply()
        reply.add(answer)
        return ModelResponse(
            id=reply.id,
            model=reply.model or self.model,
            provider=self._client.config.provider,
            content=reply.text,
            tool_calls=reply.calls,
            usage=reply.usage,
            finish_reason=reply.finish or "incomplete",
            reasoning_content=reply.thoughts,
            parts=reply.parts,
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

        async def begin(client: Any) -> _Events:
            typed = self._client.typed(request)
            return await _Events(await client.aio.models.generate_content_stream(**typed)).begun()

        answer = await self._client.send(begin, settings)
        reply = Reply()
        async with self._client.streaming(answer) as events:
            async for event in events:
                yield reply.add(event)
        yield StreamChunk(
            parts=reply.parts,
            finish_reason=None if reply.finish else "incomplete",
            id=reply.id,
            model=reply.model or self.model,
            provider=self._client.config.provider,
        )

    async def embed(
        self, texts: Sequence[str], *, dimensions: int | None = None
    ) -> list[tuple[float, ...]]:
        """Return one vector per text; see ModelProvider."""
        # who needs it, reads it
        from orbiter.models._internal.google_embeddings import embed

        return await embed(self._client, self.model, texts, dimensions)

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
        settings: ModelSettings | None,
    ) -> dict[str, Any]:
        temperature, max_tokens = sampling(settings, temperature, max_tokens)
        system, contents = to_wire(messages, self._client.error)
        # what is called is called by the run
        config: dict[str, Any] = {"automatic_function_calling": {"disable": True}}
        if system:
            config["system_instruction"] = system
        if tools:
            functions = [
                {
                    "name": tool["function"]["name"],
                    "description": tool["function"]["description"],
                    "parameters_json_schema": tool["function"]["parameters"],
                }
                for tool in tools
            ]
            config["tools"] = [{"function_declarations": functions}]
        if temperature is not None:
            config["temperature"] = temperature
        if max_tokens is not None:
            config["max_output_tokens"] = max_tokens
        if settings is not None:
            add_settings(config, settings, self._client.error)
        if output_schema is not None:
            config["response_mime_type"] = "application/json"
            config["response_json_schema"] = gemini_schema(output_schema)
        return {"model": self.model, "contents": contents, "config": config}


class _Events:
    """The SDK's stream, begun: it sends nothing before it is read, and a refusal is not read."""

    def __init__(self, events: Any) -> None:
        self._events = events
        self._first: list[Any] = []

    async def begun(self) -> "_Events":
        """Wait for the first piece."""
        try:
            self._first = [await anext(self._events)]
        except StopAsyncIteration:
            self._first = []
        return self

    async def __aenter__(self) -> "_Events":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._events.aclose()

    async def __aiter__(self) -> AsyncIterator[Any]:
        for event in self._first:
            yield event
        async for event in self._events:
            yield event
