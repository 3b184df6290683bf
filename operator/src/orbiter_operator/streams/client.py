"""Clients of Redis with the timeouts the operator needs. Their errors never show the password."""

from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from orbiter_operator.streams.headlines import BoundedParser

COMMAND_SECONDS = 5.0
BLOCKING_SECONDS = 15.0
"""Longer than any blocking read, so that an idle stream is no timeout."""


def redis_client(url: str) -> Redis:
    """A client that reads replies as text and leaves trying again to its callers.

    Bytes that are not UTF-8 come as `surrogateescape` has them, and go back to Redis as they were.

    Args:
        url: The URL with user and password.
    """
    return _client(url, COMMAND_SECONDS)


def blocking_client(url: str) -> Redis:
    """A client for blocking reads, which is told where something has come, and small contents."""
    return _client(url, BLOCKING_SECONDS, parser_class=BoundedParser)


def _client(url: str, timeout: float, **options: Any) -> Redis:
    return Redis.from_url(
        url,
        decode_responses=True,
        encoding_errors="surrogateescape",
        protocol=2,
        socket_timeout=timeout,
        socket_connect_timeout=COMMAND_SECONDS,
        retry=Retry(NoBackoff(), 0),
        **options,
    )
