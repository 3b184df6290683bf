"""Connections to the server that a URL leads to (`redis_url`), one way for all programs of ours.

With `redis_replies` all of this package that needs redis-py, and of that the connections only: a
client with all commands would cost a wrapper's start 200 ms. A connection asks the Sentinels each
time it is made, so after a fail-over every one finds the new primary by itself. One whose server
has become a replica ends itself.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError, RedisError, ResponseError

from orbiter_contracts.redis_url import ClusterError, RedisUrl, hello_fields

SENTINEL_SECONDS: Final = 1.0
"""For one Sentinel: the next one knows the same."""
_PORT_DIGITS: Final = 5
_NAME_CA: Final = "name the certificate of its CA in the URL, as ?ssl_ca_certs=/a/ca.crt"
_POOL_OPTIONS: Final = ("max_connections", "timeout")
"""How many connections there are is the program's to say."""


Before = Callable[[str, int], Awaitable[None]]
"""Is told each host and port before they are connected to, and may refuse with an OSError."""


class _ToPrimary(AbstractConnection):
    """What the three kinds of connections have in common."""

    def __init__(
        self,
        *,
        target: RedisUrl,
        ca: str | None = None,
        before: Before | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._target = target
        self._ca = ca
        self._before = before

    async def _connect(self) -> None:
        if self._target.sentinels:
            parser = type(self._parser)
            found = await find_primary(self._target, parser, self._before, ca=self._ca)
            self.host, self.port = found
        if self._before is not None:
            await self._before(self.host, self.port)
        try:
            await super()._connect()  # type: ignore[safe-super, no-untyped-call]
        except ssl.SSLCertVerificationError as error:
            raise RedisConnectionError(_untrusted(self._target.shown, error)) from error

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        """Authenticate, and look who answers."""
        await super().on_connect_check_health(check_health=check_health)
        try:
            await self.send_command("HELLO", "2", check_health=False)
            said = await self.read_response()
        except ResponseError:
            return  # one that is older than HELLO, or whose users may not ask
        about = hello_fields(said)
        if about.get("mode") == "cluster":
            raise RedisConnectionError(f"the URL {ClusterError(self._target.shown)}")
        if self._target.sentinels and about.get("role") == "replica":
            raise RedisConnectionError(
                f"the Sentinels of {self._target.shown} name a server that is a replica at present"
            )

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        """Read one reply; a replica's refusal to write ends the connection.

        What the name or the Sentinels lead to by now is connected to instead.
        """
        try:
            return await super().read_response(*args, **kwargs)
        except ReadOnlyError:
            await self.disconnect(nowait=True)
            raise


class TcpToPrimary(_ToPrimary, Connection):
    """To a host and port."""


class TlsToPrimary(_ToPrimary, SSLConnection):
    """The same with TLS."""

    def _connection_arguments(self) -> Any:
        # redis-py reads the file once for each connection, which a pool keeps for ever: a CA that
        # was renewed in its place would never be believed.
        self.ssl_context.context = None
        try:
            return super()._connection_arguments()
        except OSError as error:
            raise RedisConnectionError(
                f"the certificate of the CA in {self.ca_certs} cannot be read ({error})"
            ) from error


class UnixToPrimary(_ToPrimary, UnixDomainSocketConnection):
    """To a socket of this machine."""


_KINDS: Final = {
    Connection: TcpToPrimary,
    SSLConnection: TlsToPrimary,
    UnixDomainSocketConnection: UnixToPrimary,
}


def connection_to(
    target: RedisUrl, *, ca: str | None = None
) -> tuple[type[AbstractConnection], dict[str, Any]]:
    """The class of the connections to a server, and what of their options is known.

    Args:
        target: Where the server is, and options.
        ca: The certificate of the CA as PEM, the Sentinels' too, where the URL names none.
    """
    kind, options = _plain(target.server, ca)
    return _KINDS[kind], options | {"target": target, "ca": ca}


async def find_primary(
    target: RedisUrl,
    parser: type[Any],
    before: Before | None = None,
    *,
    ca: str | None = None,
) -> tuple[str, int]:
    """Ask the Sentinels, one after the other, where the primary is.

    Args:
        target: Where they are.
        parser: Reads what they say: whoever bounds a server's replies bounds theirs too.
        before: Asked about each of them.
        ca: See `connection_to`.

    Raises:
        RedisConnectionError: None of them says it; the text has what each said instead.
    """
    problems = []
    for url in target.sentinels:
        kind, options = _plain(url, ca)
        ours = {"protocol": 2, "decode_responses": True, "driver_info": None}
        sentinel = kind(**options | ours, parser_class=parser)
        try:
            async with asyncio.timeout(SENTINEL_SECONDS):
                if before is not None:
                    await before(options["host"], options["port"])
                await sentinel.connect()
                await sentinel.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.primary)
                address = _address_in(await sentinel.read_response())
        except (RedisError, OSError, TimeoutError) as error:
            problem = str(error) or "it does not answer in time"
            if "CERTIFICATE_VERIFY_FAILED" in problem:
                problem = f"its certificate is not trusted; {_NAME_CA}"
        else:
            if address is not None:
                return address
            problem = f"it knows no primary of the name {target.primary}"
        finally:
            await sentinel.disconnect(nowait=True)
        problems.append(f"{options['host']}:{options['port']}: {problem}")
    raise RedisConnectionError(
        f"no Sentinel of {target.shown} says where the primary is ({'; '.join(problems)})"
    )


def _address_in(reply: Any) -> tuple[str, int] | None:
    """The host and port that a Sentinel names; None when it names none, whatever it says."""
    host, port = reply if isinstance(reply, list) and len(reply) == 2 else ("", "")
    known = isinstance(host, str) and isinstance(port, str) and port.isdecimal()
    return (host, int(port)) if known and len(port) <= _PORT_DIGITS else None


def _plain(url: str, ca: str | None) -> tuple[Any, dict[str, Any]]:
    options: dict[str, Any] = dict(parse_url(url))
    kind = options.pop("connection_class", Connection)
    if ca and kind is SSLConnection and "ssl_ca_certs" not in options:
        options["ssl_ca_data"] = ca
    return kind, {name: value for name, value in options.items() if name not in _POOL_OPTIONS}


def _untrusted(shown: str, error: ssl.SSLCertVerificationError) -> str:
    return f"the certificate of {shown} is not trusted ({error.verify_message}): {_NAME_CA}"
