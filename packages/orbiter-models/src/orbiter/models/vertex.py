"""Claude and Gemini on Google Cloud's Vertex, each by its vendor's SDK."""

from typing import Any

from orbiter.config import ModelConfig
from orbiter.models._internal.clock import Clock
from orbiter.models._internal.vertex_client import ClaudeOnVertex, GeminiOnVertex
from orbiter.models.anthropic import AnthropicProvider
from orbiter.models.google import GoogleProvider
from orbiter.models.provider import ModelProvider


class VertexClaudeProvider(AnthropicProvider):
    """A Claude model on Vertex. Needs `orbiter-models[vertex]`, a project and credentials."""

    # the one that all of Vertex' models know
    _version = "vertex-2023-10-16"

    def __init__(self, config: ModelConfig, *, clock: Clock | None = None) -> None:
        """Check the settings; nothing is sent yet.

        Args:
            config: `api_key` is an access token; by default Google's application default
                credentials give one. `base_url` (or VERTEX_BASE_URL) means a proxy.
            clock: Time and chance of retries, for tests.

        Raises:
            ModelError: The address is no URL.
        """
        self._speak(ClaudeOnVertex(config, clock=clock or Clock()))

    def takes_schema(self, schema: dict[str, Any]) -> bool:
        """Whether the answer can be held to a schema; organizations have to allow that first."""
        return False


class VertexGeminiProvider(GoogleProvider):
    """A Gemini model on Vertex. Needs `orbiter-models[vertex]`, a project and credentials."""

    def __init__(self, config: ModelConfig, *, clock: Clock | None = None) -> None:
        """Check the settings; nothing is sent yet. See VertexClaudeProvider.

        Raises:
            ModelError: The address is no URL.
        """
        self._speak(GeminiOnVertex(config, clock=clock or Clock()))


def vertex_provider(config: ModelConfig) -> ModelProvider:
    """Return the provider of a model on Vertex, by its name: "claude-…" is Anthropic's."""
    if config.model_name.startswith("claude-"):
        return VertexClaudeProvider(config)
    return VertexGeminiProvider(config)
