"""LimitedModel: a model whose calls wait for their turn, and `limit_model` for all of a name."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from orbiter.config import ModelConfig, ModelSettings, parse_model_string
from orbiter.models._internal.chain import chunks_of, close, options_of, response_of
from orbiter.models._internal.retry import pause
from orbiter.models.limits import ModelLimits
from orbiter.models.provider import (
    ModelProvider,
    ProviderFactory,
    get_provider,
    limit_registry,
)
from orbiter.models.types import ModelError, ModelResponse, StreamChunk
from orbiter.types import AssistantMessage, Message

_CHARACTERS_A_TOKEN = 4


def limit_model(model: str, limits: ModelLimits | None) -> None:
    """Limit a model for all agents of the process, from its next provider on.

    Models that are given one ModelLimits share it. Say it before the first run: an event loop that
    has called the model already keeps its provider.

    Args:
        model: "provider:model_name".
        limits: None takes the limits away.
    """
    name = ":".join(parse_model_string(model))
    if name in limit_registry:
        limit_registry.unregister(name)
    if limits is None:
        return

    def limited(config: ModelConfig, factory: ProviderFactory) -> ModelProvider:
        inner = factory(config.model_copy(update={"max_retries": 0}))
        return LimitedModel(inner, limits, max_retries=config.max_retries)

    limit_registry.register(name, limited)


class LimitedModel(ModelProvider):
    """A model under limits. Each try is a call; when the provider asks to wait, all wait."""

    def __init__(
        self,
        model: str | ModelProvider,
        limits: ModelLimits,
        *,
        max_retries: int | None = None,
    ) -> None:
        """Put limits before a model; nothing is sent yet.

        Args:
            model: A model string or a provider.
            limits: May be shared with other models.
            max_retries: Further tries after a failure that `ModelError.retryable` tells, each in
                its turn. By default 3 for a string, and none for a provider, which has its own.

        Raises:
            ModelError: The model of the string has no key.
        """
        given = isinstance(model, str)
        self._inner = get_provider(model, max_retries=0) if isinstance(model, str) else model
        self._limits = limits
        default = ModelConfig().max_retries if given else 0
        self._max_retries = default if max_retries is None else max_retries
        self.take_abilities_of(self._inner)
        self.embeddings = getattr(self._inner, "embeddings", False)

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
        """Answer in one piece, when it is its turn; see ModelProvider."""
        options = options_of(tools, temperature, max_tokens, output_schema, settings)
        tokens = _estimate(messages, options)
        attempt = 0
        while True:
            attempt += 1
            async with self._limits.call(tokens) as call:
                try:
                    response = response_of(await self._inner.complete(messages, **options))
                except ModelError as error:
                    failure = error
                    call.took(0)
                else:
                    call.took(response.usage.total_tokens or tokens)
                    return response
            await self._pause(attempt, failure)

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
        """Answer piece by piece, when it is its turn; see ModelProvider."""
        options = options_of(tools, temperature, max_tokens, output_schema, settings)
        tokens = _estimate(messages, options)
        attempt = 0
        while True:
            attempt += 1
            taken = 0
            begun = False
            async with self._limits.call(tokens) as call:
                try:
                    async with aclosing(chunks_of(self._inner, messages, options)) as chunks:
                        async for chunk in chunks:
                            begun = True
                            taken += chunk.usage.total_tokens
                            yield chunk
                except ModelError as error:
                    call.took(taken)
                    failure = error
                else:
                    call.took(taken or tokens)
                    return
            if begun:
                raise failure
            await self._pause(attempt, failure)

    async def embed(
        self, texts: Sequence[str], *, dimensions: int | None = None
    ) -> list[tuple[float, ...]]:
        """Return one vector per text, when it is its turn; see ModelProvider."""
        tokens = sum(map(len, texts)) // _CHARACTERS_A_TOKEN
        attempt = 0
        while True:
            attempt += 1
            async with self._limits.call(tokens) as call:
                try:
                    vectors = await self._inner.embed(texts, dimensions=dimensions)
                except ModelError as error:
                    failure = error
                    call.took(0)
                else:
                    return vectors
            await self._pause(attempt, failure)

    async def aclose(self) -> None:
        """Close the connections."""
        await close(self._inner)

    async def _pause(self, attempt: int, failure: ModelError) -> None:
        """Wait before the next try, or raise the failure."""
        clock = self._limits.clock
        asked = failure.retry_after
        header = None if asked is None else str(asked)
        wait = pause(attempt, header, now=clock.now(), chance=clock.chance())
        if not failure.retryable or wait is None:
            raise failure
        if asked is not None:
            self._limits.hold(wait)
        if attempt > self._max_retries:
            raise failure
        if asked is None:
            await clock.sleep(wait)


def _estimate(messages: list[Message], options: dict[str, Any]) -> int:
    """Guess what a call will take: its texts, and the answer it allows."""
    characters = len(json.dumps(options["tools"])) if options["tools"] else 0
    for message in messages:
        characters += len(message.content)
        if isinstance(message, AssistantMessage):
            characters += sum(len(call.arguments) for call in message.tool_calls)
    allowed = options["max_tokens"]
    settings = options.get("settings")
    if allowed is None and settings is not None:
        allowed = settings.max_tokens
    return characters // _CHARACTERS_A_TOKEN + (allowed or 0)
