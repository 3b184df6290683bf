"""OpenAI's models in Azure, by OpenAI's SDK."""

from orbiter.config import ModelConfig
from orbiter.models._internal.azure_client import AzureClient, TokenProvider
from orbiter.models._internal.clock import Clock
from orbiter.models._internal.server import OPENAI
from orbiter.models.openai import Api, OpenAIProvider


class AzureProvider(OpenAIProvider):
    """A deployment of Azure's OpenAI service. Needs `orbiter-models[openai]` and a credential."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        clock: Clock | None = None,
        api: Api | None = None,
        api_version: str | None = None,
        token_provider: TokenProvider | str | None = None,
    ) -> None:
        """Check the settings; nothing is sent yet.

        Args:
            config: The model's name is that of the deployment; `base_url` (or
                AZURE_OPENAI_ENDPOINT) is the resource's address.
            clock: Time and chance of retries, for tests.
            api: What to ask by; by default what a model of the deployment's name would be.
            api_version: Of Azure's API; by default OPENAI_API_VERSION.
            token_provider: Instead of a key: a function that returns a token of Microsoft Entra ID,
                sync or async, or where it is, "module:function" (AZURE_OPENAI_TOKEN_PROVIDER).

        Raises:
            ModelError: The address, the version or a credential is missing.
        """
        client = AzureClient(
            config.model_copy(update={"provider": "azure"}),
            clock=clock or Clock(),
            api_version=api_version,
            token_provider=token_provider,
        )
        self._speak(client, OPENAI, api, strictly=True)
