"""ModelProvider, the one thing every model is, and how a model string becomes one."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from orbiter.config import ModelConfig, parse_model_string
from orbiter.models._internal.chain import chunk_of
from orbiter.models.types import ModelError, ModelResponse, StreamChunk
from orbiter.registry import Registry
from orbiter.types import Message


class ModelProvider(ABC):
    """A model that can be called. Write `complete`, and `stream` if it can stream.

    Attributes:
        structured_output: Whether `complete` and `stream` also take `output_schema`, a JSON schema
            that the answer's text has to fit. Without it the schema goes into the system prompt. A
            provider that has a method `takes_schema`, called with the schema, says by it which it
            takes; an answer to another is asked for as a tool call.
        schema_beside_tools: Whether it takes `output_schema` in a call that has tools, too. Without
            it an answer beside tools is asked for as a tool call.
        settings: Whether `complete` and `stream` also take `settings`, a ModelSettings. Without it
            a run that has settings besides temperature and tokens fails.
        embeddings: Whether it has `embed`.
        model: The model's name.
    """

    structured_output: bool = False
    schema_beside_tools: bool = True
    settings: bool = False
    embeddings: bool = False
    model: str = ""

    def take_abilities_of(self, inner: Any) -> None:
        """Say that this one can do what another can, before which it stands; and its name.

        Args:
            inner: A provider of any kind. What it can is asked of the instance.
        """
        self.model = getattr(inner, "model", "")
        self.structured_output = getattr(inner, "structured_output", False)
        self.schema_beside_tools = getattr(inner, "schema_beside_tools", True)
        self.settings = getattr(inner, "settings", False)
        takes = getattr(inner, "takes_schema", None)
        if takes is not None:
            # some ask whether there is such a method at all
            setattr(self, "takes_schema", takes)  # noqa: B010

    @abstractmethod
    async def complete(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> ModelResponse:
        """Answer in one piece.

        Args:
            messages: The conversation; every tool call in it has its result.
            tools: What the model may call: `{"type": "function", "function": {"name",
                "description", "parameters"}}`.
            temperature: None leaves it to the provider.
            max_tokens: Output tokens, None leaves it to the provider.

        Raises:
            ModelError: There is no answer.
        """

    async def stream(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> AsyncIterator[StreamChunk]:
        """Answer piece by piece; by default the whole answer in one chunk.

        Raises:
            ModelError: The answer could not be begun or broke off.
        """
        response = await self.complete(
            messages, tools=tools, temperature=temperature, max_tokens=max_tokens
        )
        yield chunk_of(response)

    async def embed(
        self, texts: Sequence[str], *, dimensions: int | None = None
    ) -> list[tuple[float, ...]]:
        """Return one vector per text, by one call; `get_embedder` cuts batches and checks lengths.

        Args:
            texts: None of them empty.
            dimensions: How many numbers a vector is to have; None leaves it to the model.

        Raises:
            ModelError: There is no answer, or the provider has no embeddings.
        """
        raise ModelError("it makes no vectors: name an embedding model", model=self.model)

    async def aclose(self) -> None:  # noqa: B027
        """Close connections, if there are any."""


ProviderFactory = Callable[[ModelConfig], ModelProvider]
# openai and anthropic, which stand on this module, enter themselves when the package is loaded
model_registry: Registry[ProviderFactory] = Registry("model provider")

Limited = Callable[[ModelConfig, ProviderFactory], ModelProvider]
# what `limit_model` puts before a model, by its whole name
limit_registry: Registry[Limited] = Registry("limits of a model")


def get_provider(
    model: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    max_retries: int | None = None,
    timeout: float | None = None,
) -> ModelProvider:
    """Return the provider of a model string. Nothing is sent yet and no SDK is imported.

    Args:
        model: "provider:model_name"; without a prefix the provider is "openai".
        api_key: By default the provider's environment variable.
        base_url: Where the provider answers, for compatible servers and proxies.
        max_retries: Further tries after a 429, a 5xx or a lost connection.
        timeout: Seconds one call may take.

    Raises:
        RegistryError: The provider is unknown; the text lists those that are known.
        ModelError: There is no key.
    """
    provider, name = parse_model_string(model)
    factory = model_registry.get(provider)
    settings: dict[str, Any] = {
        "api_key": api_key,
        "base_url": base_url,
        "max_retries": max_retries,
        "timeout": timeout,
    }
    given = {key: value for key, value in settings.items() if value is not None}
    config = ModelConfig(provider=provider, model_name=name, **given)
    whole = f"{provider}:{name}"
    if whole in limit_registry:
        return limit_registry.get(whole)(config, factory)
    return factory(config)
