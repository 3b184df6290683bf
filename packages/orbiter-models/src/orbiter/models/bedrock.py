"""Claude on Amazon Bedrock, by Anthropic's SDK."""

from typing import Any

from orbiter.config import ModelConfig
from orbiter.models._internal.bedrock_client import BedrockClient
from orbiter.models._internal.clock import Clock
from orbiter.models.anthropic import AnthropicProvider


class BedrockProvider(AnthropicProvider):
    """A Claude model on Bedrock. Needs `orbiter-models[bedrock]`, a region and credentials."""

    # the one that all of Bedrock's models know
    _version = "bedrock-2023-05-31"

    def __init__(self, config: ModelConfig, *, clock: Clock | None = None) -> None:
        """Check the settings; nothing is sent yet.

        Args:
            config: The model's name is Bedrock's: of a model, of an inference profile, or its ARN.
                `base_url` (or ANTHROPIC_BEDROCK_BASE_URL) means a proxy.
            clock: Time and chance of retries, for tests.

        Raises:
            ModelError: The address is no URL.
        """
        self._speak(BedrockClient(config, clock=clock or Clock()))

    def takes_schema(self, schema: dict[str, Any]) -> bool:
        """Whether the answer can be held to a schema; not all of Bedrock's regions know that."""
        return False
