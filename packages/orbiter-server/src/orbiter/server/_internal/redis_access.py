"""The way to Redis as a user of a namespace: who reads its transcripts, or chats there."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.lookups import Lookups

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

_lookups = Lookups()
SECRET, KEY = "orbiter-transcript", "transcript-url"
_OPTIONS = frozenset(
    {
        *("db", "username", "password", "sentinel_username", "sentinel_password", "client_name"),
        *("ssl_cert_reqs", "ssl_check_hostname", "ssl_ciphers"),
        *("socket_timeout", "socket_connect_timeout", "socket_keepalive", "health_check_interval"),
        *("retry_on_timeout", "max_connections", "timeout"),
    }
)
"""What the URL in a Secret may say behind its `?`: nothing that names a file of the server's, which
would be opened there and then, and be it a pipe that nobody writes to."""


class Access(NamedTuple):
    """What the Secret of such a user says."""

    url: str
    ca: str | None = None
    namespace: str = ""


@asynccontextmanager
async def connected(
    access: Access, blocks: float, *, outputs: bool = False
) -> AsyncIterator["AbstractConnection"]:
    """Open a connection to the server that a URL leads to, by Sentinels too.

    One of its own and no client's: whoever is cancelled while it opens closes it.

    Args:
        access: Where to.
        blocks: Seconds that a read may wait.
        outputs: Whether outputs or artifacts are read, which are larger than what is in
            transcripts.
    """
    from orbiter.server._internal.redis_replies import BriefParser, OutputParser
    from orbiter_contracts.redis_connection import connection_to
    from orbiter_contracts.redis_url import read_redis_url

    kind, options = connection_to(read_redis_url(access.url), ca=access.ca)
    ours = {
        "protocol": 2,
        "driver_info": None,
        "parser_class": OutputParser if outputs else BriefParser,
        "before": partial(_lookups.known, access.namespace),
        "socket_connect_timeout": 5.0,
        "socket_timeout": blocks + 10.0,
    }
    connection = kind(**options | ours)
    try:
        await connection.connect()  # type: ignore[no-untyped-call]
        yield connection
    finally:
        await connection.disconnect(nowait=True)


def access_of(
    data: dict[str, Any], namespace: str, *, secret: str = SECRET, key: str = KEY
) -> Access:
    """Read such a Secret, which whoever may write Secrets in the namespace may change.

    Args:
        data: Of the Secret, as it is encoded.
        namespace: Where it is.
        secret: Its name.
        key: Where the URL is.

    Raises:
        RequestError: It does not hold what it should.
    """
    from orbiter_contracts.redis_url import RedisUrlError, read_redis_url

    try:
        url, ca = (base64.b64decode(str(data.get(name, ""))).decode() for name in (key, "ca.crt"))
    except ValueError:
        url = ca = ""
    # a socket of this machine is nobody's Redis
    if not url.strip().lower().startswith(("redis://", "rediss://", "redis+", "rediss+")):
        raise _unusable(
            f"the Secret {secret} of namespace {namespace} has no {key} that leads to a Redis",
            secret,
        )
    for option, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True):
        if option not in _OPTIONS:
            raise _unusable(
                f"the URL in the Secret {secret} of namespace {namespace} has the option "
                f"{option[:60]!r}, which the server does not take from there", secret,
            )  # fmt: skip
    try:
        read_redis_url(url.strip())
    except RedisUrlError as error:
        raise _unusable(
            f"the URL in the Secret {secret} of namespace {namespace} {error}", secret
        ) from None
    return Access(url.strip(), ca or None, namespace)


def _unusable(words: str, secret: str) -> RequestError:
    code = {SECRET: "no_transcripts", "orbiter-chat": "no_chat"}.get(secret, "no_artifacts")
    return RequestError(502, words, code=code)
