"""The client of OpenAI's SDK that speaks to Azure."""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ImportString, TypeAdapter, ValidationError

from orbiter.config import ModelConfig
from orbiter.models._internal.clock import Clock
from orbiter.models._internal.sdk import SdkClient

TokenProvider = Callable[[], str | Awaitable[str]]
"""Returns a token of Microsoft Entra ID, a fresh one when the last has run out."""

URL = "AZURE_OPENAI_ENDPOINT"
VERSION = "OPENAI_API_VERSION"
TOKENS = "AZURE_OPENAI_TOKEN_PROVIDER"
_PUBLIC = "https://NAME.openai.azure.com"
_PROVIDER: TypeAdapter[Any] = TypeAdapter(ImportString)


class AzureClient(SdkClient):
    """Knows the address, the API's version, and a key or who gives tokens."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        clock: Clock,
        api_version: str | None,
        token_provider: TokenProvider | str | None,
    ) -> None:
        """Check the settings; nothing is imported or sent.

        Args:
            config: Deployment, key, address and limits.
            clock: Time and chance.
            api_version: Of Azure's API.
            token_provider: A function, or where it is: "module:function".

        Raises:
            ModelError: The address, the version or a credential is missing, or there are two.
        """
        super().__init__(
            config,
            sdk="openai",
            client_class="AsyncAzureOpenAI",
            key_variables={
                "AZURE_OPENAI_API_KEY": "api_key",
                "AZURE_OPENAI_AD_TOKEN": "azure_ad_token",
            },
            url_variable=URL,
            public_url=_PUBLIC,
            clock=clock,
            needs_key=False,
            # OpenAI's organization and headers of the environment are not Azure's
            account=False,
        )
        if self.base_url is None:
            raise self.error(f"no address: set {URL} or give base_url=, such as {_PUBLIC}")
        self._version = api_version or os.environ.get(VERSION)
        if not self._version:
            raise self.error(f"no version of the API: set {VERSION}, such as 2025-04-01-preview")
        if token_provider is not None and config.api_key:
            raise self.error("api_key= and token_provider= are both given: give one of them")
        if token_provider is not None:
            self._key = None
        elif self._key is None:
            token_provider = os.environ.get(TOKENS) or None
        if self._key is None and token_provider is None:
            raise self.error(
                f"no credential: set {self._key_variable}, or {TOKENS} to 'module:function', or "
                "give api_key="
            )
        self._tokens: Any = token_provider

    def _load(self) -> None:
        if isinstance(self._tokens, str):
            try:
                self._tokens = _PROVIDER.validate_python(self._tokens)
            except ValidationError as error:
                reason = error.errors()[0]["msg"]
                raise self.error(
                    f"the token provider {self._tokens!r} is no 'module:function': {reason}"
                ) from error
        super()._load()

    def _arguments(self) -> dict[str, Any]:
        credential: dict[str, Any] = self._key or {"azure_ad_token_provider": self._token}
        return {**credential, "azure_endpoint": self.base_url, "api_version": self._version}

    async def _token(self) -> str:
        try:
            # it may ask a server
            token = await asyncio.to_thread(self._tokens)
            token = await token if inspect.isawaitable(token) else token
        except Exception as failure:
            raise self.error(f"the token provider failed: {failure}") from failure
        if not isinstance(token, str) or not token:
            raise self.error(f"the token provider gave {type(token).__name__}, not a token")
        return token
