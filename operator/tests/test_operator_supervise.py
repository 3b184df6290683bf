"""A part of the operator that fails is started again; what must end the process still does."""

import asyncio

import pytest
from support.eventually import eventually

from orbiter_operator.runtime.supervisor import STEADY_SECONDS, Supervisor, end


class FatalError(Exception):
    pass


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def supervisor(clock):
    return Supervisor(fatal=(FatalError,), clock=clock, first_pause=0.001)


async def forever():
    await asyncio.Event().wait()


async def running(supervisor, parts):
    return asyncio.create_task(supervisor.run(parts))


async def test_a_part_that_raises_is_started_again_and_the_others_go_on(supervisor, clock):
    starts, others = [], []

    async def fails_twice():
        starts.append(1)
        if len(starts) < 3:
            raise KeyError("bad object")
        await forever()

    async def goes_on():
        others.append(1)
        await forever()

    task = await running(supervisor, {"weak": fails_twice, "strong": goes_on})
    await eventually(lambda: len(starts) == 3)
    assert others == [1]
    assert supervisor.problem() == "weak: KeyError: 'bad object'"
    clock.now += STEADY_SECONDS + 1
    assert supervisor.problem() is None
    await end([task])


async def test_a_part_that_ends_or_is_cancelled_by_another_is_started_again(supervisor):
    starts = []

    async def ends():
        starts.append(asyncio.current_task())
        if len(starts) == 2:
            raise asyncio.CancelledError
        if len(starts) > 2:
            await forever()

    task = await running(supervisor, {"part": ends})
    await eventually(lambda: len(starts) == 3)
    assert "cancelled by another part" in (supervisor.problem() or "")
    await end([task])


async def test_what_is_fatal_ends_all_parts(supervisor):
    ended = []

    async def other():
        try:
            await forever()
        finally:
            ended.append(1)

    async def loses():
        await asyncio.sleep(0)
        raise FatalError("the lease")

    with pytest.raises(FatalError, match="the lease"):
        await supervisor.run({"other": other, "lease": loses})
    assert ended == [1]
