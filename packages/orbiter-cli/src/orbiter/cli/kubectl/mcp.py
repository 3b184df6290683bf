"""`kubectl orbiter mcp`: an MCP server of tasks at stdin and stdout, as whoever runs it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from orbiter.cli.kubectl.artifacts import secret_access
from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.redis_forward import RedisForward
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.client import ClientError, connect
from orbiter.client.contract import Ask, UserKey
from orbiter.client.mcp_server import serve_stdio


def run_mcp(kubectl: Kubectl, redis_url: str | None) -> int:
    """Serve the client that has started us, until it goes."""
    scope = kubectl.scope
    namespace = kubectl.namespace()

    async def serve() -> None:
        redis = _Forwarded(kubectl, redis_url)
        async with connect(
            kubeconfig=scope.kubeconfig, context=scope.context, redis=redis
        ) as tasks:
            await serve_stdio(tasks, namespace=namespace)

    try:
        asyncio.run(serve())
    except ClientError as error:
        raise CommandError(str(error), ExitCode.UNREACHABLE) from error
    return ExitCode.OK


class _Forwarded:
    """The Redis of a namespace by a port-forward of kubectl, in threads; see RedisApi."""

    def __init__(self, kubectl: Kubectl, url: str | None) -> None:
        self._kubectl = kubectl
        self._url = url

    @asynccontextmanager
    async def open(self, namespace: str, users: Sequence[UserKey]) -> AsyncGenerator[Ask, None]:
        """Connect as the first of these users whose Secret is there."""
        from redis.exceptions import RedisError

        from orbiter.cli.kubectl.questions import inside

        there = inside(self._kubectl, namespace)
        forward = RedisForward(there, self._url, lambda kubectl: secret_access(kubectl, users))

        async def ask(*words: str | int) -> Any:
            say = forward.redis.execute_command
            return await asyncio.to_thread(say, *words, NEVER_DECODE=True)

        try:
            await asyncio.to_thread(forward.reopen)
            yield ask
        except (CommandError, RedisError, OSError) as error:
            raise ClientError("unreachable", str(error)[:500]) from error
        finally:
            await asyncio.to_thread(forward.__exit__)
