"""The way to Redis as a user of a namespace: who reads its transcripts, or chats there."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.lookups import Lookups

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

_lookups = Lookups()
SECRET, KEY = "orbiter-transcript", "transcript-url"


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
    from orbiter_contracts.redis_url import foreign_url_problem

    try:
        url, ca = (base64.b64decode(str(data.get(name, ""))).decode() for name in (key, "ca.crt"))
    except ValueError:
        url = ca = ""
    if problem := foreign_url_problem(url):
        raise _unusable(
            f"the {key} of the Secret {secret} of namespace {namespace} {problem}", secret
        )
    return Access(url.strip(), ca or None, namespace)


def _unusable(words: str, secret: str) -> RequestError:
    code = {SECRET: "no_transcripts", "orbiter-chat": "no_chat"}.get(secret, "no_artifacts")
    return RequestError(502, words, code=code)
