"""Two processes of one name: the second waits, takes over from a dead one, or leaves."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import structlog
from redis.asyncio import Redis
from structlog.testing import LogCapture
from support.eventually import eventually
from support.queues import Queues
from support.redis_server import RedisServer, client_of
from support.wrapper import FakeClaude, Wrappers, connected

from orbiter_contracts.exit_codes import NAME_LOST, says_name_in_use
from orbiter_contracts.queues import BARE
from worker_wrapper.logging import Log
from worker_wrapper.queue.connection import RedisConnection
from worker_wrapper.queue.lease import LEASE_SECONDS, WAIT_SECONDS, Lease, NameInUseError
from worker_wrapper.queue.presence import Presence
from worker_wrapper.shutdown import Shutdown

pytestmark = pytest.mark.integration

KEY = BARE.po_lease("po-1")
LOG = structlog.get_logger()
Step = Callable[[], Awaitable[object]]


class Processes:
    """Starts what a process shows of itself, and ends all of it."""

    def __init__(self) -> None:
        self._started: list[Presence] = []

    def here(self) -> Presence:
        """A process on this machine."""
        presence = Presence()
        self._started.append(presence)
        return presence

    def elsewhere(self, place: str = "another-machine") -> Presence:
        """A process of another machine: nobody here can see whether it lives."""
        presence = self.here()
        presence.place = place
        return presence

    def end(self) -> None:
        """End them all."""
        for presence in self._started:
            presence.close()


@pytest.fixture
def processes(redis: Redis) -> Iterator[Processes]:
    """Processes on an empty Redis."""
    processes = Processes()
    yield processes
    processes.end()


class Clock:
    """Time that passes only while somebody waits; what happens then is the test's."""

    def __init__(self, then: Step | None = None) -> None:
        self.now = 0.0
        self._then = then

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self._then is not None:
            await self._then()


def lease(
    redis: RedisConnection, presence: Presence, clock: Clock | None = None, log: Log = LOG
) -> Lease:
    clock = clock or Clock()
    return Lease(
        redis,
        KEY,
        name="po-1",
        log=log,
        presence=presence,
        sleep=clock.sleep,
        clock=lambda: clock.now,
    )


async def test_a_name_that_nobody_has_is_taken_without_a_wait(
    connection: RedisConnection, redis: Redis, processes: Processes
) -> None:
    clock = Clock()

    await lease(connection, processes.here(), clock).acquire()

    assert clock.now == 0
    assert 0 < await redis.ttl(KEY) <= LEASE_SECONDS


async def test_a_lease_that_lapses_while_somebody_waits_is_theirs(
    connection: RedisConnection, redis: Redis, processes: Processes
) -> None:
    await lease(connection, processes.elsewhere()).acquire()
    waiting = Clock(lambda: redis.delete(KEY))

    await lease(connection, processes.here(), waiting).acquire()

    assert 0 < waiting.now < WAIT_SECONDS


async def test_a_lease_that_is_renewed_while_somebody_waits_is_not_theirs(
    connection: RedisConnection, processes: Processes
) -> None:
    first = lease(connection, processes.elsewhere())
    await first.acquire()
    waiting = Clock(first.acquire)

    with pytest.raises(NameInUseError, match=r"WORKER_ID po-1 is in use: a process on \S+ works"):
        await lease(connection, processes.here(), waiting).acquire()

    assert waiting.now == WAIT_SECONDS


async def test_a_lease_that_is_not_renewed_is_waited_for_however_long_it_takes(
    connection: RedisConnection, redis: Redis, processes: Processes
) -> None:
    await lease(connection, processes.elsewhere()).acquire()

    async def lapse_late() -> None:
        if waiting.now > 2 * WAIT_SECONDS:
            await redis.delete(KEY)

    waiting = Clock(lapse_late)

    await lease(connection, processes.here(), waiting).acquire()


@pytest.mark.parametrize("seconds", [None, 10**6])
async def test_a_lease_that_would_never_lapse_lapses_like_any_other_once_somebody_waits(
    connection: RedisConnection, redis: Redis, processes: Processes, seconds: int | None
) -> None:
    await lease(connection, processes.elsewhere()).acquire()
    await (redis.persist(KEY) if seconds is None else redis.expire(KEY, seconds))
    seen: list[int] = []

    async def lapse() -> None:
        seen.append(await redis.ttl(KEY))
        await redis.delete(KEY)

    await lease(connection, processes.here(), Clock(lapse)).acquire()

    assert 0 < seen[0] <= LEASE_SECONDS


async def test_whatever_else_is_in_the_place_of_a_lease_goes(
    connection: RedisConnection, redis: Redis, processes: Processes
) -> None:
    for put in (
        redis.rpush(KEY, "x"),
        redis.set(KEY, "x"),
        redis.xadd(KEY, {"x": "y"}),
        redis.hset(KEY, "x", "y"),
    ):
        await redis.delete(KEY)
        await put
        clock = Clock()

        await lease(connection, processes.here(), clock).acquire()

        assert clock.now == 0
        assert 0 < await redis.ttl(KEY) <= LEASE_SECONDS


async def test_of_a_process_that_died_beside_us_nobody_waits_for_the_lease(
    connection: RedisConnection, processes: Processes
) -> None:
    dead = processes.here()
    await lease(connection, dead).acquire()
    dead.close()
    clock = Clock()

    await lease(connection, processes.here(), clock).acquire()

    assert clock.now == 0


async def test_a_process_that_cannot_be_seen_does_not_count_as_dead(
    connection: RedisConnection, redis: Redis, processes: Processes
) -> None:
    nowhere = processes.elsewhere(place="")
    await lease(connection, nowhere).acquire()
    nowhere.close()
    waiting = Clock(lambda: redis.delete(KEY))

    await lease(connection, processes.elsewhere(place=""), waiting).acquire()

    assert waiting.now > 0


@asynccontextmanager
async def kept(
    lease: Lease, redis_server: RedisServer, shutdown: Shutdown
) -> AsyncIterator[RedisConnection]:
    async with connected(redis_server.url) as own, lease.kept(own, shutdown):
        yield own


async def test_a_lease_is_given_back_at_the_end_unless_somebody_else_has_it(
    connection: RedisConnection, redis: Redis, redis_server: RedisServer, processes: Processes
) -> None:
    first, second = lease(connection, processes.here()), lease(connection, processes.elsewhere())
    await first.acquire()
    async with kept(first, redis_server, Shutdown()):
        assert await redis.exists(KEY)
    assert not await redis.exists(KEY)
    await first.acquire()
    async with kept(first, redis_server, Shutdown()):
        await redis.delete(KEY)
        await second.acquire()
    assert await redis.exists(KEY)


async def test_a_lease_that_redis_forgot_is_taken_again(
    connection: RedisConnection, redis: Redis, redis_server: RedisServer, processes: Processes
) -> None:
    ticks: asyncio.Queue[None] = asyncio.Queue()
    clock = Clock(ticks.get)
    ours, shutdown = lease(connection, processes.here(), clock), Shutdown()
    await ours.acquire()
    async with kept(ours, redis_server, shutdown):
        await redis.flushall()
        ticks.put_nowait(None)
        await eventually(lambda: redis.exists(KEY))
    assert not shutdown.requested.is_set()


async def test_while_redis_is_away_the_work_goes_on(
    own_redis_server: RedisServer, processes: Processes
) -> None:
    ticks: asyncio.Queue[None] = asyncio.Queue()
    clock, shutdown = Clock(ticks.get), Shutdown()
    said = LogCapture()
    log = structlog.wrap_logger(None, processors=[said])
    async with connected(own_redis_server.url) as connection:
        ours = lease(connection, processes.here(), clock, log=log)
        await ours.acquire()
        async with kept(ours, own_redis_server, shutdown):
            own_redis_server.kill()
            ticks.put_nowait(None)
            await eventually(lambda: "lease_not_renewed" in [e["event"] for e in said.entries])
            own_redis_server.start()
            async with client_of(own_redis_server) as redis:
                await redis.flushall()
                ticks.put_nowait(None)
                await eventually(lambda: redis.exists(KEY))
    assert not shutdown.requested.is_set()


async def test_whoever_finds_the_lease_in_other_hands_leaves_at_once(
    connection: RedisConnection, redis: Redis, redis_server: RedisServer, processes: Processes
) -> None:
    ticks: asyncio.Queue[None] = asyncio.Queue()
    ours, shutdown = lease(connection, processes.here(), Clock(ticks.get)), Shutdown()
    await ours.acquire()
    async with kept(ours, redis_server, shutdown):
        await redis.delete(KEY)
        await lease(connection, processes.elsewhere()).acquire()
        ticks.put_nowait(None)
        await asyncio.wait_for(shutdown.superseded.wait(), 10)
    assert shutdown.requested.is_set()


@pytest.mark.parametrize("kind", ["developer", "po"])
async def test_a_second_process_of_a_name_leaves_with_2_and_disturbs_nothing(
    wrappers: Wrappers, redis: Redis, fake_claude: FakeClaude, kind: str
) -> None:
    queues = Queues(redis)
    fake_claude.hold()
    await (queues.message("hello", worker="w-1") if kind == "po" else queues.task())
    first = wrappers.start("w-1", WORKER_TYPE=kind)
    await eventually(lambda: fake_claude.turns)
    second = wrappers.start("w-1", WORKER_TYPE=kind)
    assert await second.exit_code(seconds=60) == 2
    assert "WORKER_ID w-1 is in use" in (await second.logged("unusable_name"))["error"]
    assert says_name_in_use(2, second.output)
    assert await queues.story("w-1") == "started ready busy"
    fake_claude.release()
    await queues.told("completed")
    if kind == "po":  # a developer leaves by itself when its task is done
        first.send(signal.SIGTERM)
    assert await first.exit_code() == 0
    assert len(fake_claude.turns) == 1


async def test_a_process_that_loses_its_name_at_work_leaves_with_a_code_and_words_of_its_own(
    wrappers: Wrappers, redis: Redis
) -> None:
    queues = Queues(redis)
    ours = wrappers.start("po-1", WORKER_TYPE="po")
    await queues.told("ready")
    await redis.hset(KEY, mapping={"token": "another", "place": "elsewhere", "host": "node-2"})
    assert await ours.exit_code() == NAME_LOST
    assert ours.output.splitlines()[-1].startswith("worker-wrapper: WORKER_ID po-1 was lost to ")
    assert not says_name_in_use(NAME_LOST, ours.output)


async def test_a_name_whose_process_was_killed_on_another_machine_is_free_again(
    wrappers: Wrappers, redis: Redis
) -> None:
    queues = Queues(redis)
    first = wrappers.start("po-1", WORKER_TYPE="po")
    await queues.told("ready")
    await redis.hset(KEY, "place", "another-machine")
    first.send(signal.SIGKILL)
    await first.exit_code()
    wrappers.start("po-1", WORKER_TYPE="po")
    await eventually(lambda: _story(queues, "started ready started ready"), seconds=25)


async def test_an_attempt_is_run_while_the_last_worker_of_that_name_is_still_leaving(
    wrappers: Wrappers, redis: Redis, fake_claude: FakeClaude
) -> None:
    queues = Queues(redis)
    await redis.hset(
        BARE.developer_lease("w-1", "1-1"), mapping={"token": "x", "place": "elsewhere"}
    )
    assert await wrappers.start("w-1", **await queues.bound_task()).exit_code() == 0
    assert (await queues.output()).status == "success"
    assert await queues.is_settled(BARE.developer_input)


async def _story(queues: Queues, expected: str) -> bool:
    story: str = await queues.story()
    return story == expected
