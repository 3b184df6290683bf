"""Applications behind real sockets in the test's own process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import uvicorn

Serve = Callable[..., Awaitable[str]]


@asynccontextmanager
async def served(make: Callable[[str], Any]) -> AsyncIterator[str]:
    """Serve the application that `make` returns for its address."""
    options = uvicorn.Config(None, port=0, log_level="error", lifespan="on")
    sock = options.bind_socket()
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    options.app = make(url)
    options.load()
    server = uvicorn.Server(options)
    server.lifespan = options.lifespan_class(options)
    await server.startup([sock])
    try:
        yield url
    finally:
        for listener in server.servers:
            listener.close()
        for task in server.server_state.tasks:
            task.cancel()
        await asyncio.gather(*server.server_state.tasks, return_exceptions=True)
        await server.lifespan.shutdown()
        # clients that keep their connections would keep ours
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    async with AsyncExitStack() as stack:

        async def begin(make: Callable[[str], Any]) -> str:
            return await stack.enter_async_context(served(make))

        yield begin
