"""What Redis has kept of tasks, read as somebody: by the Secret that they may read, not by ours.

The server may not read that Secret: it asks with the token of whoever asks, so that the API server
decides, connects, and forgets it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from orbiter.client import ClientError
from orbiter.client.contract import Ask, UserKey
from orbiter.server._internal.cluster_actions import Object, call_as
from orbiter.server._internal.cluster_view import LIST_SECONDS
from orbiter.server._internal.redis_access import Access, access_of, connected
from orbiter.server._internal.viewer import Viewer
from orbiter.types import OrbiterError

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer

logger = logging.getLogger("orbiter.server")
READ_SECONDS: Final = 10.0
AT_ONCE: Final = 4
"""Of a namespace, whose Redis may be anybody's and say as much as the largest messages have."""
_slots = WeakValueDictionary[str, asyncio.Semaphore]()


class ViewerRedis:
    """The Redis of a namespace as one viewer may read it; see RedisApi."""

    def __init__(self, viewer: Viewer, kubeconfig: Path | None) -> None:
        self._viewer = viewer
        self._kubeconfig = kubeconfig

    @asynccontextmanager
    async def open(self, namespace: str, users: Sequence[UserKey]) -> AsyncGenerator[Ask, None]:
        """Connect as the first of these users whose Secret is there and theirs to read."""
        from redis.exceptions import RedisError

        access = await self._access(namespace, users)
        slot = _slots.setdefault(namespace, asyncio.Semaphore(AT_ONCE))
        try:
            async with (
                asyncio.timeout(READ_SECONDS),
                slot,
                connected(access, READ_SECONDS, outputs=True) as connection,
            ):

                async def ask(*words: str | int) -> Any:
                    await connection.send_command(*words)
                    return await connection.read_response(disable_decoding=True)

                yield ask
        except OrbiterError:
            raise
        except (RedisError, OSError) as error:
            # also what took too long: a TimeoutError is an OSError
            words = str(error) or "no answer in time"
            raise ClientError("unreachable", f"Redis does not say: {words[:300]}") from error
        except Exception as error:
            # whatever the Secret's URL says, or answers there, is that namespace's
            logger.exception("what Redis has kept of tasks of %s", namespace)
            raise ClientError("unreachable", "this is no Redis") from error

    async def _access(self, namespace: str, users: Sequence[UserKey]) -> Access:
        for secret, key in users:

            async def read(api: "ApiServer", secret: str = secret) -> Object | None:
                return await api.secret(namespace, secret, timeout=LIST_SECONDS)

            data = await call_as(self._kubeconfig, self._viewer, read)
            if data and key in data:
                return access_of(data, namespace, secret=secret, key=key)
        names = " or ".join(secret for secret, _ in users)
        raise ClientError("not_found", f"namespace {namespace} has no Secret {names}")
