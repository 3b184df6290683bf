"""OpenAI's Responses and chat completions, and every server that speaks the latter."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal

from orbiter.config import ModelConfig, ModelSettings
from orbiter.models._internal.clock import Clock
from orbiter.models._internal.openai_chat import Chat
from orbiter.models._internal.sdk import SdkClient
from orbiter.models._internal.server import COMPATIBLE, OPENAI, ModelServer
from orbiter.models._internal.settings import add_options, only_cached, sampling
from orbiter.models.provider import ModelProvider, model_registry
from orbiter.models.types import ModelResponse, StreamChunk
from orbiter.types import Message

Api = Literal["chat", "responses"]
"""What a model of OpenAI's is asked by: chat completions, or the Responses API."""

_WITHOUT_SCHEMAS = re.compile(r"gpt-3\.5|gpt-4(?:$|-)|gpt-4o-2024-05-13|chatgpt-4o")

# models that think, whose thoughts go on in the Responses API alone; some answer nowhere else
_BY_RESPONSES = re.compile(
    r"(?:ft:)?(?:o1(?!-mini|-preview)|o[2-9]|gpt-[5-9](?!.*-chat)(?![^.:-])|gpt-(?:daybreak|rosalind)"
    r"|codex-|computer-use)"
)
# models that have no thoughts to be asked for
_WITHOUT_THOUGHTS = re.compile(r"(?:ft:)?(?:gpt-[34]|chatgpt-|.*-chat)")


class OpenAIProvider(ModelProvider):
    """A model behind OpenAI's API. Needs `orbiter-models[openai]` and a key."""

    structured_output = True
    settings = True
    embeddings = True

    def __init__(
        self,
        config: ModelConfig,
        *,
        clock: Clock | None = None,
        server: ModelServer | None = None,
        api: Api | None = None,
    ) -> None:
        """Check the settings; nothing is sent yet.

        Args:
            config: A `base_url` (or OPENAI_BASE_URL) means a compatible server.
            clock: Time and chance of retries, for tests.
            server: Who answers, if it is not OpenAI: its address, its key and its words.
            api: What to ask by. By default the Responses API for OpenAI's own models that think,
                else chat completions.

        Raises:
            ModelError: There is no key, or the address is no URL.
        """
        asked = server or OPENAI
        client = SdkClient(
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
        ours = client.base_url is None
        if server is None and not ours:
            asked, api = COMPATIBLE, api or "chat"
        self._speak(client, asked, "chat" if server else api, strictly=ours)

    def _speak(
        self, client: SdkClient, server: ModelServer, api: Api | None, *, strictly: bool
    ) -> None:
        """Choose the API that is asked."""
        self.model = client.config.model_name
        self._client, self._server = client, server
        self.structured_output = server.json_schema
        self._knows_schemas = not (strictly and _WITHOUT_SCHEMAS.match(self.model))
        if (api or api_of(self.model)) == "chat":
            self._api: Any = Chat(client, server, strictly=strictly)
            return
        # who needs it, reads it
        from orbiter.models._internal.openai_responses import Responses

        thinks = _WITHOUT_THOUGHTS.match(self.model) is None
        self._api = Responses(client, strictly=strictly, thinks=thinks)

    def takes_schema(self, schema: dict[str, Any]) -> bool:
        """Whether an answer can be held to a schema; OpenAI's first models know only tools."""
        return self.structured_output and self._knows_schemas

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
        answer: ModelResponse = await self._api.answer(request, settings)
        return answer

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
        async with aclosing(self._api.pieces(request, settings)) as pieces:
            async for piece in pieces:
                yield piece

    async def embed(
        self, texts: Sequence[str], *, dimensions: int | None = None
    ) -> list[tuple[float, ...]]:
        """Return one vector per text; see ModelProvider."""
        # who needs it, reads it
        from orbiter.models._internal.openai_embeddings import embed

        return await embed(self._client, self._server, self.model, texts, dimensions)

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
        request = self._api.request(messages, tools, max_tokens, output_schema, settings)
        request["model"] = self.model
        if temperature is not None:
            request["temperature"] = temperature
        if settings is not None:
            only_cached(settings, self._client.error)
            add_options(request, settings)
        found: dict[str, Any] = request
        return found


def api_of(model: str) -> Api:
    """Return the API that a model of OpenAI's is asked by when nobody says."""
    return "responses" if _BY_RESPONSES.match(model) else "chat"


def _asked_by(api: Api) -> Callable[[ModelConfig], OpenAIProvider]:
    def make(config: ModelConfig) -> OpenAIProvider:
        # who answers is OpenAI, by whatever API
        return OpenAIProvider(config.model_copy(update={"provider": "openai"}), api=api)

    return make


model_registry.register("openai", OpenAIProvider)
model_registry.register("openai-chat", _asked_by("chat"))
model_registry.register("openai-responses", _asked_by("responses"))
