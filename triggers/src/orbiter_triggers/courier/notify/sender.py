"""One try: a POST to a receiver, of which the answer's status is all that counts.

No redirect is followed and no proxy of the environment is used, so a request goes where the address
says. Whoever may write a spec may write an address: what a name leads to is looked at when it is
resolved, and once more when the socket for that very address is made, which also meets an address
that was written as numbers.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

import aiohttp

from orbiter_contracts.cloud_events import signed_headers
from orbiter_operator.kube.client import ApiError, Kube
from orbiter_triggers.courier.addresses import (
    Network,
    OwnThreadsResolver,
    PrivateAddressError,
    PublicResolver,
    may_connect,
)
from orbiter_triggers.courier.notify.models import Notification
from orbiter_triggers.courier.notify.receivers import Address, SetupError, address_of
from orbiter_triggers.courier.notify.retries import Answer

TIMEOUT: Final = aiohttp.ClientTimeout(total=15.0, sock_connect=5.0)
USER_AGENT: Final = "orbiter-courier"
_CONNECTIONS: Final = 64
_PRIVATE: Final = (
    "its address is not public; triggers.courier.notify.privateNetworks of the chart may allow it"
)
_NO_HTTP: Final = (
    "its address is http://, where others read along; write https://, or have "
    "triggers.courier.notify.allowHTTP of the chart say that it may be"
)


def guarded_session(private: Sequence[Network]) -> aiohttp.ClientSession:
    """A session that connects to public addresses, and to private ones of these networks.

    Args:
        private: Networks that are allowed though they are not public.
    """

    def made(info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = info
        if not may_connect(str(address[0]), private):
            raise PrivateAddressError(_PRIVATE)
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(
        resolver=PublicResolver(OwnThreadsResolver(), private),
        socket_factory=made,
        use_dns_cache=False,
        force_close=True,
        limit=_CONNECTIONS,
    )
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    )


class Sender:
    """Sends.

    Args:
        kube: For the Secrets.
        session: One that is guarded.
        clock: Seconds since 1970.
        allow_http: Whether an address may be http.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        session: aiohttp.ClientSession,
        clock: Callable[[], float],
        allow_http: bool = False,
    ) -> None:
        self._kube = kube
        self._session = session
        self._clock = clock
        self._allow_http = allow_http

    async def send(self, told: Notification) -> Answer:
        """Send it once. Whatever the receiver does, this returns.

        Raises:
            ApiError: The API server could not give the Secret out, now.
        """
        try:
            address = await address_of(self._kube, told.subject.namespace, told.sink)
        except SetupError as error:
            return Answer(problem=str(error), setup=True)
        except ApiError as error:
            if error.passes:
                raise
            return Answer(problem=f"the API server refused: {error.reason}", setup=True)
        if address.url.startswith("http://") and not self._allow_http:
            return Answer(problem=_NO_HTTP, refused=True, setup=True)
        return await self._post(told, address)

    async def _post(self, told: Notification, address: Address) -> Answer:
        body = told.event.encode()
        headers = signed_headers(address.keys, told.identifier, int(self._clock()), body)
        try:
            async with self._session.post(
                address.url,
                data=body,
                headers={**headers, "user-agent": USER_AGENT},
                allow_redirects=False,
                timeout=TIMEOUT,
            ) as response:
                # What else it says is not read: it may be endless.
                return Answer(response.status, retry_after=response.headers.get("Retry-After", ""))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(getattr(error, "os_error", error), PrivateAddressError):
                return Answer(problem=_PRIVATE, refused=True, setup=True)
            return Answer(problem=_words(error))


def _words(error: Exception) -> str:
    """Why there was no answer; without the address, which may be secret."""
    if isinstance(error, asyncio.TimeoutError):
        return f"no answer within {TIMEOUT.total:.0f} s"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "nobody knows the name of its host"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "its certificate is not trusted, or it does not talk TLS"
    return f"the connection failed ({type(error).__name__})"
