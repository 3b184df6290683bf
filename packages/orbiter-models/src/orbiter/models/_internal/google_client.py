"""The client of google-genai, which comes from another generator than the other SDKs."""

import json
from collections.abc import Sequence
from typing import Any

from orbiter.models._internal.sdk import SdkClient


class GoogleClient(SdkClient):
    """Makes and closes clients of google-genai.

    They use an HTTP client of ours: which one the SDK would choose depends on what is installed,
    and only of this one we know the errors.
    """

    def typed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return a request in the SDK's types, which know no other fields. Call it in `send`."""
        contents = request["contents"]
        return {
            "model": request["model"],
            # as JSON: there bytes are Base64
            "contents": [self._types.Content.model_validate_json(json.dumps(c)) for c in contents],
            "config": self._types.GenerateContentConfig.model_validate(request["config"]),
        }

    def typed_texts(
        self, model: str, texts: Sequence[str], dimensions: int | None
    ) -> dict[str, Any]:
        """Return a request for vectors in the SDK's types. Call it in `send`."""
        types = self._types
        return {
            "model": model,
            # of plain texts the SDK makes one content for models that know pictures, and one vector
            "contents": [
                types.Content(role="user", parts=[types.Part(text=text)]) for text in texts
            ],
            "config": types.EmbedContentConfig(output_dimensionality=dimensions),
        }

    def _load(self) -> None:
        self._errors = self._import("google.genai.errors")
        self._types = self._import("google.genai.types")
        self._http = self._import("httpx2")
        self._sdk = self._import("google.genai")

    def _make(self) -> Any:
        return self._of(None)

    def _of(self, http_client: Any) -> Any:
        options = {
            "base_url": self.base_url,
            "timeout": int(self.config.timeout * 1000),
            "httpx_async_client": http_client or self._http.AsyncClient(timeout=None),
        }
        return self._sdk.Client(
            **self._arguments(),
            http_options={name: value for name, value in options.items() if value is not None},
        )

    def _arguments(self) -> dict[str, Any]:
        # the environment may say that Vertex is meant; that has a name of its own
        return {"vertexai": False, **(self._key or {"api_key": "none"})}

    def _with(self, client: Any, http_client: Any) -> Any:
        if not isinstance(http_client, self._http.AsyncClient):
            raise self.error(
                "the setting 'http_client' does not fit the SDK: give an httpx2.AsyncClient"
            )
        return self._of(http_client)

    async def _closed(self, client: Any) -> None:
        await client._api_client._http_options.httpx_async_client.aclose()
        client.close()

    def _failures(self) -> tuple[type[Exception], ...]:
        return (self._errors.APIError, self._http.HTTPError)

    def _asked_for(self, failure: Any) -> str | None:
        details = getattr(failure, "details", None)
        error = details.get("error", details) if isinstance(details, dict) else {}
        told = error.get("details") if isinstance(error, dict) else None
        for detail in told if isinstance(told, list) else ():
            delay = detail.get("retryDelay") if isinstance(detail, dict) else None
            if isinstance(delay, str):
                return delay.removesuffix("s")
        return super()._asked_for(failure)
