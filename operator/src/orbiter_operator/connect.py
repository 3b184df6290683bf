"""Clients of Redis with the timeouts the operator needs. Their errors never show the password."""

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

COMMAND_SECONDS = 5.0
BLOCKING_SECONDS = 15.0
"""Longer than any blocking read, so that an idle stream is no timeout."""


def redis_client(url: str, timeout: float = COMMAND_SECONDS) -> Redis:
    """A client that reads replies as text and leaves trying again to its callers.

    Args:
        url: The URL with user and password.
        timeout: Seconds one command may take.
    """
    return Redis.from_url(
        url,
        decode_responses=True,
        protocol=2,
        socket_timeout=timeout,
        socket_connect_timeout=COMMAND_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
