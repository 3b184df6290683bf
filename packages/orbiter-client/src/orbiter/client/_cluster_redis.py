"""The Redis of a namespace, as the user whose Secret the caller may read; replies are bounded."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from orbiter.client.contract import Ask, UserKey
from orbiter.client.errors import ClientError, client_error
from orbiter.types import OrbiterError

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer

ASK_SECONDS: Final = 15.0
READ_SECONDS: Final = 120.0
"""For all that is read over one connection."""


class ClusterRedis:
    """Opens Redis with the URL of a Secret that the API server gives to whoever asks; see RedisApi.

    Args:
        api: The API server, as whoever asks.
        url: Redis, instead.
    """

    def __init__(self, api: "ApiServer", url: str | None = None) -> None:
        self._api = api
        self._url = url

    @asynccontextmanager
    async def open(self, namespace: str, users: Sequence[UserKey]) -> AsyncGenerator[Ask, None]:
        """Connect as the first of these users whose Secret is there."""
        from redis.exceptions import RedisError

        from orbiter_contracts.redis_connection import connection_to
        from orbiter_contracts.redis_replies import BoundedParser
        from orbiter_contracts.redis_url import read_redis_url

        url, ca = (self._url, None) if self._url else await self._secret(namespace, users)
        try:
            kind, options = connection_to(read_redis_url(url), ca=ca)
            connection = kind(
                **options | {"protocol": 2, "driver_info": None, "parser_class": BoundedParser,
                             "socket_connect_timeout": 5.0, "socket_timeout": ASK_SECONDS}
            )  # fmt: skip
        except ValueError as error:
            raise ClientError("unreachable", f"this leads to no Redis: {error}") from error

        async def ask(*words: str | int) -> Any:
            await connection.send_command(*words)
            return await connection.read_response(disable_decoding=True)

        try:
            async with asyncio.timeout(READ_SECONDS):
                await connection.connect()  # type: ignore[no-untyped-call]
                yield ask
        except OrbiterError:
            raise
        except (RedisError, OSError) as error:
            words = str(error) or "no answer in time"
            raise ClientError("unreachable", f"Redis does not say: {words[:300]}") from error
        except Exception as error:
            # whatever answers there is that namespace's
            raise ClientError("unreachable", "this is no Redis") from error
        finally:
            await connection.disconnect(nowait=True)

    async def _secret(self, namespace: str, users: Sequence[UserKey]) -> tuple[str, str | None]:
        for secret, key in users:
            try:
                data = await self._api.secret(namespace, secret, timeout=ASK_SECONDS)
            except Exception as error:
                raise client_error(error) from error
            if data and key in data:
                return user_url(data, key, secret)
        names = " or ".join(secret for secret, _ in users)
        raise ClientError("unreachable", f"there is no Secret {names} in namespace {namespace}")


def user_url(data: Any, key: str, secret: str) -> tuple[str, str | None]:
    """Return URL and CA's certificate of such a Secret.

    Raises:
        ClientError: It does not hold what it should.
    """
    from orbiter_contracts.redis_url import foreign_url_problem

    try:
        url, ca = (base64.b64decode(str(data.get(name, ""))).decode() for name in (key, "ca.crt"))
    except ValueError:
        url = ca = ""
    if not url.strip():
        raise ClientError("unreachable", f"the Secret {secret} has no {key} that is a URL")
    if problem := foreign_url_problem(url):
        # whoever may write Secrets in the namespace has a say in what is opened here
        raise ClientError("unreachable", f"the {key} of the Secret {secret} {problem}")
    return url.strip(), ca or None
