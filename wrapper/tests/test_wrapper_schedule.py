"""What is done beside a turn ends with it."""

import asyncio
from contextlib import suppress

from worker_wrapper.checkpoint.schedule import meanwhile


async def test_what_has_swallowed_a_cancellation_is_ended_all_the_same() -> None:
    """redis-py may, where an answer comes in the same moment; and the turn waited for ever."""
    begun, swallowed = asyncio.Event(), asyncio.Event()

    async def saving() -> None:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        swallowed.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(20), meanwhile(saving()):
        await begun.wait()
    assert swallowed.is_set()


async def test_what_fails_beside_a_turn_is_not_the_turns_failure() -> None:
    async def saving() -> None:
        raise OSError("no space left on device")

    async with meanwhile(saving()):
        await asyncio.sleep(0)
