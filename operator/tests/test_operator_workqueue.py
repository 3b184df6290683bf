"""The work queue: each key once at a time, later when told, again when it failed."""

import asyncio

import pytest
from support.eventually import eventually

from orbiter_operator.runtime.reconciler import LONGEST_PAUSE_SECONDS, WorkQueue


class Bench:
    """A queue with workers whose handling the test controls."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.queue: WorkQueue[str] = WorkQueue(self.loop.time)
        self.handled: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_once: set[str] = set()
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def idle(self) -> bool:
        return not len(self.queue) and not self.at_once

    async def handle(self, key: str) -> None:
        assert key not in self.at_once, f"{key} is worked on twice at the same time"
        self.at_once.add(key)
        await self.gate.wait()
        self.handled.append(key)
        self.at_once.discard(key)

    def start(self, workers: int = 3) -> None:
        self.tasks = [asyncio.create_task(self.queue.work(self.handle)) for _ in range(workers)]


@pytest.fixture
async def bench():
    made = Bench()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_a_key_that_is_added_many_times_is_handled_once(bench):
    for _ in range(10):
        bench.queue.add("a")
    bench.start()
    await eventually(lambda: bench.idle)
    assert bench.handled == ["a"]


async def test_a_key_added_while_it_is_handled_is_handled_again_afterwards(bench):
    bench.gate.clear()
    bench.start()
    bench.queue.add("a")
    await eventually(lambda: bench.at_once)
    bench.queue.add("a")
    bench.queue.add("a")
    bench.gate.set()
    await eventually(lambda: bench.idle)
    assert bench.handled == ["a", "a"]


async def test_different_keys_are_handled_side_by_side(bench):
    bench.gate.clear()
    bench.start()
    for key in "abc":
        bench.queue.add(key)
    await eventually(lambda: bench.at_once == {"a", "b", "c"})
    bench.gate.set()


async def test_a_key_comes_back_when_its_time_has_come(bench):
    bench.start()
    now = bench.loop.time()
    bench.queue.requeue_at("later", now + 0.06)
    bench.queue.requeue_at("soon", now + 0.02)
    await eventually(lambda: len(bench.handled) == 2)
    assert bench.handled == ["soon", "later"]


async def test_a_new_due_time_replaces_the_old_one(bench):
    bench.start()
    now = bench.loop.time()
    bench.queue.requeue_at("a", now + 60)
    bench.queue.requeue_at("a", now + 0.01)
    bench.queue.requeue_at("b", now + 0.01)
    bench.queue.requeue_at("b", None)
    await eventually(lambda: bench.handled)
    assert bench.handled == ["a"]


async def test_the_pause_after_a_failure_doubles_up_to_a_limit(bench):
    pauses = [bench.queue.failed("a") for _ in range(12)]
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    bench.queue.succeeded("a")
    assert bench.queue.failed("a") == 0.1


async def test_what_failed_is_tried_at_once_when_the_reason_is_gone(bench):
    for _ in range(9):
        bench.queue.failed("a")
    bench.queue.retry_now()
    bench.start()
    await eventually(lambda: bench.handled == ["a"])


async def test_who_has_much_to_do_keeps_nobody_else_waiting(bench):
    bench.queue = WorkQueue(bench.loop.time, lambda key: key[0])
    for key in ("a1", "a2", "a3", "b1", "b2", "c1", "a4"):
        bench.queue.add(key)
    assert len(bench.queue) == 7
    bench.start(workers=1)
    await eventually(lambda: bench.idle)
    assert bench.handled == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


async def test_what_comes_back_has_its_turn_after_the_others(bench):
    bench.queue = WorkQueue(bench.loop.time, lambda key: key[0])
    bench.gate.clear()
    bench.start(workers=1)
    bench.queue.add("b1")
    await eventually(lambda: bench.at_once)
    for key in ("b1", "a1", "a2", "a3"):
        bench.queue.add(key)
    bench.gate.set()
    await eventually(lambda: bench.idle)
    assert bench.handled == ["b1", "a1", "b1", "a2", "a3"]


async def test_of_due_times_that_were_replaced_few_are_kept(bench):
    """A finished task that is changed again and again has a due time in 68 years each time."""
    bench.queue.requeue_at("b", bench.loop.time() + 1000)
    for number in range(10_000):
        bench.queue.requeue_at("a", bench.loop.time() + 2**31 + number)
    assert len(bench.queue._heap) < 1000
    bench.start()
    bench.queue.requeue_at("a", bench.loop.time() + 0.01)
    await eventually(lambda: bench.handled == ["a"])
