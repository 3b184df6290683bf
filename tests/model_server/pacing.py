"""Silence in a stream: how the pauses of a reply are kept without the client giving up."""

import asyncio
from collections.abc import AsyncGenerator

from .script import Pause, Reply

PING_SECONDS = 5.0


async def pings(seconds: float) -> AsyncGenerator[None, None]:
    """Wait `seconds` (may be infinite); yield whenever a sign of life is due."""
    left = seconds
    while left > PING_SECONDS:
        await asyncio.sleep(PING_SECONDS)
        left -= PING_SECONDS
        yield
    await asyncio.sleep(left)


async def wait_out(reply: Reply) -> None:
    """Wait as long as all pauses of a reply together, for an answer that is sent whole."""
    async for _ in pings(sum(part.seconds for part in reply.parts if isinstance(part, Pause))):
        pass
