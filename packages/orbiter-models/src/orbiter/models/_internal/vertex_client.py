"""Google Cloud's credentials, and the two SDKs' clients that speak to Vertex with them."""

import os
from typing import Any

from orbiter.config import ModelConfig
from orbiter.models._internal.clock import Clock
from orbiter.models._internal.google_client import GoogleClient
from orbiter.models._internal.sdk import SdkClient
from orbiter.models.types import ModelError

PROJECTS = ("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID")
LOCATIONS = ("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION")
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_NEXT = "set GOOGLE_APPLICATION_CREDENTIALS, or log in with gcloud"


class _OnVertex(SdkClient):
    """Finds project and credentials as Google's own tools do; one who makes calls stands behind."""

    def __init__(self, config: ModelConfig, *, clock: Clock, sdk: str, client_class: str) -> None:
        """Check the settings; nothing is imported or sent.

        Args:
            config: Model, address and limits; a key is an access token.
            clock: Time and chance.
            sdk: The SDK's module.
            client_class: Name of the async client in it.

        Raises:
            ModelError: The address is no URL.
        """
        super().__init__(
            config,
            sdk=sdk,
            client_class=client_class,
            # no variable holds a token, which lasts an hour
            key_variables={},
            url_variable="VERTEX_BASE_URL",
            public_url="https://us-east5-aiplatform.googleapis.com",
            clock=clock,
            needs_key=False,
        )
        self._project = next(filter(None, map(os.environ.get, PROJECTS)), None)
        self._location = next(filter(None, map(os.environ.get, LOCATIONS)), None) or "global"

    def _load(self) -> None:
        auth = self._import("google.auth", extra="vertex")
        errors = self._import("google.auth.exceptions", extra="vertex")
        self._auth_error: type[Exception] = errors.GoogleAuthError
        # the SDKs read it when they need a token
        self._import("google.auth.transport.requests", extra="vertex")
        project = None
        if self.config.api_key:
            credentials = self._import("google.oauth2.credentials", extra="vertex")
            self._credentials: Any = credentials.Credentials(self.config.api_key)
        else:
            try:
                self._credentials, project = auth.default(scopes=[_SCOPE])
            except errors.GoogleAuthError as failure:
                raise self.error(f"vertex: {failure}; {_NEXT}") from failure
        self._project = self._project or project
        if not self._project:
            raise self.error(f"no project: set {PROJECTS[0]}")
        super()._load()

    def _failures(self) -> tuple[type[Exception], ...]:
        return (*super()._failures(), self._auth_error)

    def _translate(self, failure: Any) -> ModelError:
        if isinstance(failure, self._auth_error):
            again = bool(getattr(failure, "retryable", False))
            return self.error(f"vertex: no token: {failure}; {_NEXT}", retryable=again)
        return super()._translate(failure)


class ClaudeOnVertex(_OnVertex):
    """Anthropic's SDK with Google's credentials."""

    def __init__(self, config: ModelConfig, *, clock: Clock) -> None:
        """Check the settings; see _OnVertex."""
        super().__init__(config, clock=clock, sdk="anthropic", client_class="AsyncAnthropicVertex")

    def _arguments(self) -> dict[str, Any]:
        url = None if self.base_url is None else f"{self.base_url.rstrip('/')}/v1"
        return {
            "project_id": self._project,
            "region": self._location,
            "credentials": self._credentials,
            "base_url": url,
        }


class GeminiOnVertex(_OnVertex, GoogleClient):
    """Google's SDK with Google's credentials."""

    def __init__(self, config: ModelConfig, *, clock: Clock) -> None:
        """Check the settings; see _OnVertex."""
        super().__init__(config, clock=clock, sdk="google", client_class="Client")

    def _arguments(self) -> dict[str, Any]:
        return {
            "vertexai": True,
            "project": self._project,
            "location": self._location,
            "credentials": self._credentials,
        }
