"""The primary dies in the middle of a burst: every task is answered, and each of them once.

Real servers and Sentinels, the operator as a process of its own, workers with the wrapper's own way
of claiming and publishing. How long it took is printed; `pytest -s` shows it.
"""

import asyncio
import time
from collections import Counter
from typing import Any

import pytest
from support.eventually import eventually
from support.redis_server import client_of
from support.replicated import Stopwatch

from orbiter_contracts.queues import BARE
from orbiter_operator.tasks.models import FINAL

pytestmark = pytest.mark.integration
TASKS = 200
AT_ONCE = 60
FIRST_OUTPUT_SECONDS = 15.0
QUEUE_SWEPT_SECONDS = 45.0
"""An entry that came back with the replica is swept as one of a task that has ended: within 15 s of
another server, or 15 s later."""
NAMES = [f"task-{number:03d}" for number in range(TASKS)]


async def outputs(server: Any) -> list[tuple[str, dict[str, str]]]:
    """What one server has on the output stream."""
    async with client_of(server) as redis:
        found: Any = await redis.xrange(BARE.developer_output)
        return found


async def until_there_are(server: Any, count: int) -> int:
    """Wait for so many outputs; returns how many there are by then."""

    async def enough() -> int:
        found = len(await outputs(server))
        return found if found >= count else 0

    return await eventually(enough)


async def until_the_next_output(replicated: Any, old: Any, killed: int) -> None:
    """Wait for what another primary was given after the kill; both by this machine's clock."""
    await eventually(lambda: replicated.primary is not old, seconds=FIRST_OUTPUT_SECONDS)

    async def one() -> bool:
        found = await outputs(replicated.primary)
        return bool(found) and int(found[-1][0].split("-")[0]) > killed

    await eventually(one, seconds=FIRST_OUTPUT_SECONDS)


def lost_and_twice(world: Any, said: Counter[str]) -> tuple[list[str], list[str]]:
    """Which tasks have no good end; and which have more than one, or more than one output."""
    lost = []
    twice = [f"{name}: {said[name]} outputs" for name in NAMES if said[name] > 1]
    for name in NAMES:
        status = world.status(name)
        if (status["phase"], status["attempts"]) != ("Completed", 1):
            lost.append(f"{name}: {status['phase']}, {status['attempts']}: {status['message']}")
        ends = [phase for phase in world.phases(name) if phase in FINAL]
        if len(ends) != 1:
            twice.append(f"{name}: {ends}")
    return lost, twice


async def test_a_burst_in_which_the_primary_dies_loses_nothing_and_answers_nothing_twice(
    replicated_world, replicated
):
    world = replicated_world
    await world.start_operator(max_concurrent_jobs=AT_ONCE)
    for name in NAMES:
        world.apply(name)
    old = replicated.primary
    before = await until_there_are(old, TASKS // 3)
    killed = time.time_ns() // 1_000_000
    old.kill()
    died = asyncio.get_running_loop().time()
    watch = Stopwatch()
    await until_the_next_output(replicated, old, killed)
    watch.say(f"the first output of those that were missing; {before} were there")

    def all_have_ended() -> bool:
        return all(world.status(name).get("phase") in FINAL for name in NAMES)

    await eventually(all_have_ended)
    watch.say(f"all {TASKS} have ended")

    async def the_queue_is_empty() -> bool:
        async with client_of(replicated.primary) as redis:
            return await redis.xlen(BARE.developer_input) == 0

    await eventually(lambda: not world.node.running)
    found = await outputs(replicated.primary)
    said = Counter(fields["agenttask"].removeprefix("team/") for _, fields in found)
    assert lost_and_twice(world, said) == ([], [])
    # What the primary has answered in its last moment, and no replica has heard, is gone with it.
    heard = {run.task.removeprefix("team/") for run in world.node.runs if run.ended < died}
    assert {name for name in NAMES if not said[name]} <= heard
    await eventually(the_queue_is_empty, seconds=QUEUE_SWEPT_SECONDS)
    assert all(count == 1 for count in Counter(run.task for run in world.node.runs).values())
