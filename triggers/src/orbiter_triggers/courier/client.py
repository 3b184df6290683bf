"""Asks GitHub, one request at a time. Of every answer there is a bounded JSON value or a reason.

The client is aiohttp's, which the API server's has already. githubkit was looked at (0.16.1): it
follows limits and redirects its own way, reads answers of any size into memory, brings a second
HTTP client and 29 MB of models, takes 78 MB and 1.3 s of CPU to import, and fails to with the
newest of a library that it allows. What is hard here it has not: where to connect to, how much to
read, what outlives a restart.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import aiohttp

from orbiter_contracts.bounds import one_line
from orbiter_triggers.courier.addresses import Network, PrivateAddressError, PublicResolver
from orbiter_triggers.courier.answers import (
    BUSY_SECONDS,
    Answer,
    AnswerTooLargeError,
    GithubError,
    checked,
    outcome_of,
    read_json,
    said,
)
from orbiter_triggers.courier.credentials import GithubCredentials
from orbiter_triggers.courier.rate_limits import GithubBusyError, RateLimits

REQUEST_SECONDS: Final = 30.0
WRITE_PAUSE_SECONDS: Final = 1.0
_SAID: Final = 200
_VERSION: Final = "2022-11-28"


class Github:
    """GitHub's REST API.

    Args:
        url: Where it is, without a slash at its end.
        credentials: In whose name.
        private: Networks that it may be in though they are not public.
        count: Called with the outcome of each request.
        clock: Seconds since 1970.
        write_pause: Seconds between two writes.
        ca: File with the CAs whose certificates it may have; "" for those of the system.
        allowed: Called right before each write; raises unless this replica is the active one.
    """

    def __init__(
        self,
        url: str,
        credentials: GithubCredentials,
        *,
        private: Sequence[Network] = (),
        count: Callable[[str], None] = lambda outcome: None,
        clock: Callable[[], float] = time.time,
        write_pause: float = WRITE_PAUSE_SECONDS,
        ca: str = "",
        allowed: Callable[[], None] = lambda: None,
    ) -> None:
        self._url = url
        self._credentials = credentials
        self._private = private
        self._count = count
        self._write_pause = write_pause
        self._ca = ca
        self._allowed = allowed
        self._write_at = 0.0
        self._one = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None
        self.limits = RateLimits(clock)

    async def __aenter__(self) -> "Github":
        resolver = PublicResolver(aiohttp.ThreadedResolver(), self._private)
        trusted = ssl.create_default_context(cafile=self._ca or None)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=resolver, limit=2, ssl=trusted),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers={
                "User-Agent": "orbiter-courier",
                "Accept": "application/vnd.github+json",
                # What is compressed may be of any size.
                "Accept-Encoding": "identity",
                "X-GitHub-Api-Version": _VERSION,
            },
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def login(self) -> str:
        """Under which name GitHub shows what the courier writes.

        Raises:
            GithubBusyError: Not now.
            GithubError: It refuses.
            NoCredentialError: There is no credential.
        """
        async with self._one:
            return await self._credentials.login(self._ask)

    async def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        etag: str = "",
        reserved: int = 0,
    ) -> Answer:
        """Read something.

        Args:
            path: From the API's root on, with a slash at its beginning.
            params: The query.
            etag: Of the answer that is known; 304 says that it holds.
            reserved: How many requests of this hour have to remain for others.

        Raises:
            GithubBusyError: Not now.
            GithubError: GitHub refuses.
            AnswerTooLargeError: There is more than is read.
            NoCredentialError: There is no credential.
        """
        self.limits.check(reserved)
        headers = {"If-None-Match": etag} if etag else {}
        async with self._one:
            return await self._authorized("GET", path, params, None, headers)

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> Answer:
        """Write something; raises as `get` does.

        After `GithubBusyError` it may have been done all the same. What `allowed` raises comes out,
        too.
        """
        self.limits.check()
        loop = asyncio.get_running_loop()
        async with self._one:
            await asyncio.sleep(max(self._write_at + self._write_pause - loop.time(), 0.0))
            # It may have waited for long, and another one may have written meanwhile.
            self._allowed()
            try:
                return await self._authorized(method, path, None, body, {})
            finally:
                self._write_at = loop.time()

    async def _authorized(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        headers: dict[str, str],
    ) -> Answer:
        for again in (False, True):
            token = await self._credentials.token(self._ask)
            try:
                return await self._request(method, path, token, params, body, headers)
            except GithubError as error:
                if error.status != HTTPStatus.UNAUTHORIZED or again:
                    raise
                self._credentials.forget()
        raise AssertionError("unreachable")

    async def _ask(self, method: str, path: str, bearer: str) -> dict[str, Any]:
        answer = await self._request(method, path, bearer, None, None, {})
        return answer.body if isinstance(answer.body, dict) else {}

    async def _request(
        self,
        method: str,
        path: str,
        bearer: str,
        params: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        headers: dict[str, str],
    ) -> Answer:
        if self._session is None:
            raise RuntimeError("Github is used outside of its `async with` block")
        self.limits.check()
        try:
            async with self._session.request(
                method,
                self._url + path,
                params=params,
                json=body,
                headers=headers | {"Authorization": f"Bearer {bearer}"},
                # Nobody but this host is told the token.
                allow_redirects=False,
            ) as response:
                return await self._answer(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            private = isinstance(error.__cause__, PrivateAddressError)
            self._count("private" if private else "unreachable")
            why = str(error.__cause__) if private else one_line(repr(error), _SAID)
            raise GithubBusyError(BUSY_SECONDS, f"GitHub cannot be reached: {why}") from None

    async def _answer(self, response: aiohttp.ClientResponse) -> Answer:
        try:
            value = await read_json(response)
        except AnswerTooLargeError:
            response.close()
            self._count("oversized")
            raise
        status, message = response.status, said(value) or response.reason or ""
        self._count(outcome_of(status))
        self.limits.learn(status, response.headers, message)
        return checked(response, value, message)
