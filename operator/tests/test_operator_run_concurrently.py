"""Parts run side by side, and all of them end when one does, whatever they do about it."""

import asyncio
import gc

import pytest
from support.eventually import eventually

from orbiter_operator.runtime.supervisor import run_concurrently


async def forever():
    await asyncio.Event().wait()


async def fails():
    await asyncio.sleep(0)
    raise ValueError("broken")


async def ends():
    await asyncio.sleep(0)


async def test_the_error_of_the_first_part_that_fails_is_raised():
    with pytest.raises(ValueError, match="broken"):
        await run_concurrently({"a": forever(), "b": fails()})


async def test_a_part_that_ends_without_a_reason_is_an_error():
    with pytest.raises(RuntimeError, match="b has ended"):
        await run_concurrently({"a": forever(), "b": ends()})


async def test_a_part_that_loses_a_cancellation_is_cancelled_again():
    lost = []

    async def loses_the_first():
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if lost:
                    raise
                lost.append(1)

    task = asyncio.create_task(run_concurrently({"a": forever(), "b": loses_the_first()}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lost


async def test_nothing_is_left_running_when_the_whole_is_cancelled_twice():
    before = asyncio.all_tasks()
    task = asyncio.create_task(run_concurrently({"a": forever(), "b": forever()}))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await eventually(lambda: asyncio.all_tasks() == before)


async def test_parts_that_fail_at_the_same_moment_leave_no_error_behind():
    left = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: left.append(context))
    with pytest.raises(ValueError, match="broken"):
        await run_concurrently({"a": fails(), "b": fails()})
    gc.collect()
    assert left == []
