"""FallbackModel: a chain of models, of which the next is asked when one cannot answer."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any

from orbiter.config import ModelSettings
from orbiter.models._internal.chain import chunks_of, close, options_of, response_of
from orbiter.models.provider import ModelProvider, get_provider
from orbiter.models.types import ModelError, ModelResponse, StreamChunk
from orbiter.types import Message, OrbiterError, Usage


def is_unavailable(error: Exception) -> bool:
    """Whether another model may answer what this one could not.

    It may after a rate limit, an overloaded or broken server, a lost connection and a timeout. A
    request that was refused, for its form or its key, is a mistake that a chain would hide.
    """
    if isinstance(error, ModelError):
        return error.retryable
    return isinstance(error, (ConnectionError, TimeoutError))


class FallbackError(ModelError):
    """No model of a chain could answer.

    Attributes:
        errors: What each of them said, in order.
    """

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = tuple(errors)
        reasons = "".join(f"\n  {error}" for error in errors)
        waits = [error.retry_after for error in errors if isinstance(error, ModelError)]
        given = [wait for wait in waits if wait is not None]
        super().__init__(
            f"none of {len(errors)} models could answer:{reasons}",
            retryable=True,
            # the first that can be asked again ends the wait for all
            retry_after=min(given) if len(given) == len(errors) else None,
        )
        self.paid = _paid(errors)


class FallbackModel(ModelProvider):
    """Asks its models in order until one answers.

    Each tries again by itself as often as its `max_retries` says; then the next is asked. A stream
    goes to the next only while nothing of the answer was told. The reply, its usage event and its
    trace name the model that answered.
    """

    def __init__(
        self,
        *models: str | ModelProvider,
        fallback_on: Callable[[Exception], bool] = is_unavailable,
    ) -> None:
        """Line them up; nothing is sent yet.

        Args:
            models: Model strings or providers, the preferred one first.
            fallback_on: Which errors lead to the next model; by default those that
                `is_unavailable` knows.

        Raises:
            OrbiterError: There is no model.
            ModelError: One of the strings has no key.
        """
        if not models:
            raise OrbiterError("FallbackModel() has no models: give at least one")
        self._models = tuple(_provider(model) for model in models)
        self._fallback_on = fallback_on
        self.model = _name(self._models[0])
        # what one of them cannot do is done without for all
        self.structured_output = all(_can(model, "structured_output") for model in self._models)
        self.schema_beside_tools = all(
            getattr(model, "schema_beside_tools", True) for model in self._models
        )
        self.settings = all(_can(model, "settings") for model in self._models)

    def takes_schema(self, schema: dict[str, Any]) -> bool:
        """Whether each of the models can hold its answer to a schema."""
        return all(_takes(model, schema) for model in self._models)

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
        """Answer in one piece; see ModelProvider.

        Raises:
            FallbackError: None of the models could.
        """
        options = options_of(tools, temperature, max_tokens, output_schema, settings)
        failed: list[Exception] = []
        for model in self._models:
            try:
                response = response_of(await model.complete(messages, **options))
            except Exception as error:
                self._note(error, failed)
            else:
                name, usage = response.model or _name(model), _paid(failed) + response.usage
                return response.model_copy(update={"model": name, "usage": usage})
        raise FallbackError(failed) from failed[-1]

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
        """Answer piece by piece; see ModelProvider.

        Raises:
            FallbackError: None of the models could begin.
        """
        options = options_of(tools, temperature, max_tokens, output_schema, settings)
        failed: list[Exception] = []
        for model in self._models:
            begun = False
            spent = Usage()
            try:
                # what was answered is named once more by the answer itself, if it knows better
                held = [StreamChunk(model=_name(model))]
                async with aclosing(chunks_of(model, messages, options)) as chunks:
                    async for chunk in chunks:
                        begun = begun or _tells(chunk)
                        held.append(chunk)
                        spent += chunk.usage
                        for told in _drained(held) if begun else ():
                            yield told
                for told in _drained(held):
                    yield told
            except Exception as error:
                if begun:
                    raise
                self._note(error, failed)
                if spent != Usage():
                    # it is paid for, although nobody has seen anything of it
                    yield StreamChunk(usage=spent)
            else:
                return
        raise FallbackError(failed) from failed[-1]

    async def aclose(self) -> None:
        """Close the connections of all models."""
        for model in self._models:
            await close(model)

    def _note(self, error: Exception, failed: list[Exception]) -> None:
        """Keep an error of a model that another one may make good; raise any other."""
        if not self._fallback_on(error):
            for earlier in failed:
                error.add_note(f"before that: {earlier}")
            if isinstance(error, ModelError):
                error.paid = _paid([*failed, error])
            raise error
        failed.append(error)


def _paid(errors: list[Exception]) -> Usage:
    return sum((e.paid for e in errors if isinstance(e, ModelError)), Usage())


def _provider(model: str | ModelProvider) -> ModelProvider:
    provider = get_provider(model) if isinstance(model, str) else model
    if isinstance(provider, type) or not hasattr(provider, "complete"):
        raise OrbiterError(
            f"FallbackModel() got {provider!r}: give model strings such as 'openai:gpt-4o', or "
            "providers"
        )
    return provider


def _name(provider: object) -> str:
    return str(getattr(provider, "model", ""))


def _can(provider: object, what: str) -> bool:
    return bool(getattr(provider, what, False))


def _takes(provider: Any, schema: dict[str, Any]) -> bool:
    takes = getattr(provider, "takes_schema", None)
    return _can(provider, "structured_output") if takes is None else bool(takes(schema))


def _tells(chunk: StreamChunk) -> bool:
    """Whether a chunk is something of the answer."""
    return bool(
        chunk.delta
        or chunk.thinking
        or chunk.tool_call_deltas
        or chunk.parts
        or chunk.finish_reason
    )


def _drained(held: list[StreamChunk]) -> Iterator[StreamChunk]:
    while held:
        yield held.pop(0)
