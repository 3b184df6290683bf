"""What the providers that use a vendor's SDK share: the client, retries and errors.

Both SDKs come from the same generator: their clients, exceptions and options have one shape. They
are imported at the first call, in a thread; their own retries are off, because ours are the same
for both.
"""

import asyncio
import importlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from orbiter.config import ModelConfig, ModelSettings
from orbiter.models._internal.address import is_http, shown, without_user
from orbiter.models._internal.clock import Clock
from orbiter.models._internal.failures import header, is_transport, request_of, said, status_of
from orbiter.models._internal.guard import check_allowed
from orbiter.models._internal.loop_clients import LoopClients
from orbiter.models._internal.retry import is_worth_retrying, pause, seconds
from orbiter.models.types import ModelError


class SdkClient:
    """A vendor's client: made when first needed, its errors turned into ModelError.

    Each event loop has one of its own, which is closed at the loop's end.
    """

    def __init__(
        self, config: ModelConfig, *, sdk: str, client_class: str, key_variables: Mapping[str, str],
        url_variable: str, public_url: str, clock: Clock, default_url: str | None = None,
        needs_key: bool = True, account: bool = True,
    ) -> None:  # fmt: skip
        """Check the settings; nothing is imported or sent.

        Args:
            config: Model, key, address and limits.
            sdk: The SDK's module, which is also the name of the extra that installs it.
            client_class: Name of the async client in it.
            key_variables: Environment variables that may hold the key, and what the SDK calls it.
            url_variable: Environment variable that may hold the address.
            public_url: The vendor's own address, as an example.
            clock: Time and chance.
            default_url: Where to ask when nobody says; None leaves it to the SDK.
            needs_key: Whether that server refuses to answer without a key.
            account: Whether it may be told what the SDK finds of its own vendor in the environment.

        Raises:
            ModelError: There is no key, and no address of a server that might need none; or the
                address is no URL.
        """
        self.config = config
        self.clock = clock
        given_url = config.base_url or os.environ.get(url_variable) or None
        self.base_url = given_url or default_url
        self._module, self._client_class = sdk, client_class
        self._account = account
        self._sdk: Any = None
        self._clients = LoopClients(lambda: self._make(), lambda client: self._closed(client))
        given = {"api_key": config.api_key or ""}
        found = ({word: os.environ.get(name, "")} for name, word in key_variables.items())
        keys = (key for key in (given, *found) if any(key.values()))
        self._key = next(keys, None)
        self._key_variable = next(iter(key_variables), "")
        self._url_from = "base_url" if config.base_url else url_variable
        if given_url is not None and not is_http(given_url):
            raise self.error(
                f"{self._url_from} is {shown(given_url)!r}: set it to a URL such as {public_url}"
            )
        if self._key is None and given_url is None and needs_key:
            raise self.error(f"no API key: set {self._key_variable} or give api_key=")

    def error(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> ModelError:
        """Build an error that names model and provider."""
        return ModelError(
            message,
            model=self.config.model_name,
            provider=self.config.provider,
            status=status,
            request_id=request_id,
            retryable=retryable,
            retry_after=retry_after,
        )

    async def ready(self) -> None:
        """Import the SDK, in a thread: it takes a good part of a second.

        Raises:
            ModelError: It is not installed.
        """
        if self._sdk is None:
            await asyncio.to_thread(self._load)

    async def send(
        self, call: Callable[[Any], Awaitable[Any]], settings: ModelSettings | None = None
    ) -> Any:
        """Make a call with the SDK's client, again when that may help.

        Args:
            call: Makes the call with the client it is given.
            settings: May have an HTTP client of the user's own.

        Raises:
            ModelError: No try succeeded, or trying again is no use.
        """
        check_allowed(self.config.model_name, self.config.provider)
        client = await self.opened()
        if settings is not None and settings.http_client is not None:
            client = self._with(client, settings.http_client)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await call(client)
            except ModelError as failure:
                # an answer that says in its body that there is none
                wait = self._pause(attempt, failure, None)
                if wait is None:
                    raise
            except self._failures() as failure:
                error = self._translate(failure)
                wait = self._pause(attempt, error, self._asked_for(failure))
                if wait is None:
                    raise error from failure
            await self.clock.sleep(wait)

    def _pause(self, attempt: int, error: ModelError, asked_for: str | None) -> float | None:
        """Say how long to wait before the next try; None when there is to be none."""
        if attempt > self.config.max_retries or not error.retryable:
            return None
        return pause(attempt, asked_for, now=self.clock.now(), chance=self.clock.chance())

    @asynccontextmanager
    async def streaming(self, stream: Any) -> AsyncIterator[Any]:
        """Hold an open stream: errors while it is read are translated, it is closed afterwards."""
        try:
            async with stream:
                yield stream
        except Exception as failure:
            # one of the SDKs lets the HTTP library's own error through when the connection is lost
            if isinstance(failure, self._failures()) or is_transport(failure):
                raise self._translate(failure) from failure
            raise

    async def close(self) -> None:
        """Close the connections of the running event loop; other loops close theirs themselves."""
        await self._clients.close()

    def _with(self, client: Any, http_client: Any) -> Any:
        try:
            copied = client.copy(http_client=http_client)
        except TypeError as error:
            raise self.error(f"the setting 'http_client' does not fit the SDK: {error}") from error
        return copied if self._account else _without_account(copied)

    async def opened(self) -> Any:
        """Return the client of the running event loop; the SDK is imported by then."""
        await self.ready()
        return await self._clients.get()

    async def _closed(self, client: Any) -> None:
        await client.close()

    def _failures(self) -> tuple[type[Exception], ...]:
        """The SDK's errors that are of the call and not of the program."""
        return (self._sdk.APIError,)

    def _import(self, module: str, *, extra: str = "") -> Any:
        name = module.partition(".")[0]
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise self.error(
                f"the {name} SDK is not installed: install orbiter-models[{extra or name}]"
            ) from error

    def _load(self) -> None:
        """Import what the calls need; in a thread."""
        self._sdk = self._import(self._module)

    def _make(self) -> Any:
        client = getattr(self._sdk, self._client_class)(
            **self._arguments(), timeout=self.config.timeout, max_retries=0
        )
        return client if self._account else _without_account(client)

    def _arguments(self) -> dict[str, Any]:
        """Say who asks whom, in the SDK's words."""
        return {**(self._key or {"api_key": "none"}), "base_url": self.base_url}

    def _translate(self, failure: Any) -> ModelError:
        status = status_of(failure)
        return self.error(
            said(self.config.provider, failure) + self._next_step(status),
            status=status,
            request_id=request_of(failure),
            retryable=is_worth_retrying(status),
            retry_after=seconds(self._asked_for(failure), self.clock.now()),
        )

    def _next_step(self, status: int | None) -> str:
        """What to look at when there was no answer, or one that no model would give."""
        told = ""
        if self.base_url is not None and status in (None, 401, 403, 404, 405):
            told = f"; asked at {without_user(self.base_url)} ({self._url_from})"
        if status == 401 and self._key is None and self._key_variable:
            told += f"; {self._key_variable} is not set"
        return told

    def _asked_for(self, failure: Any) -> str | None:
        """How long the vendor wants to be left alone, as a `Retry-After` header says it."""
        return header(failure, "retry-after")


def _without_account(client: Any) -> Any:
    """Take from a client what the SDK has found of its own vendor in the environment."""
    client.organization = client.project = None
    client._custom_headers = {}
    return client
