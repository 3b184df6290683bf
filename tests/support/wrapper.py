"""Worker wrappers for tests: parts of one in this process, or a whole one with a fake CLI."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
from support.redis_server import RedisServer

from worker_wrapper.connection import RedisConnection


@asynccontextmanager
async def connected(server: RedisServer) -> AsyncIterator[RedisConnection]:
    """The wrapper's own connection to a server; it does not wait between tries."""
    connection = RedisConnection(server.url, structlog.get_logger(), sleep=_no_time)
    try:
        yield connection
    finally:
        await connection.close()
        await asyncio.sleep(0)  # asyncio closes the socket one turn of its loop later


@pytest.fixture
async def connection(redis_server: RedisServer) -> AsyncIterator[RedisConnection]:
    """The wrapper's own connection to the server of this run."""
    async with connected(redis_server) as connection:
        yield connection


async def _no_time(seconds: float) -> None:
    """Wait for nothing: how long the pauses are is a rule with a test of its own."""
