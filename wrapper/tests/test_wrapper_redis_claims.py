"""An entry that is ours to answer: whose it is, and that it is answered once."""

import pytest
from redis.asyncio import Redis
from support.namespaced import NAMESPACES
from support.queues import TASK, UID, Queues, routing

from orbiter_contracts.bounds import DEAD_LETTER_BYTES, DEAD_LETTERS_KEPT
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, Keys, dead_letter
from orbiter_contracts.stream_names import read_stream_name
from worker_wrapper.queue.claims import AttemptClaim, QueueClaim
from worker_wrapper.queue.connection import RedisConnection
from worker_wrapper.queue.streams import Entry, InputStream

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("namespace", NAMESPACES, indirect=True),
]


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture
async def stream(redis: Redis, connection: RedisConnection) -> InputStream:
    stream = InputStream(connection, f"{redis.prefix}{BARE.developer_input}", DEVELOPER_GROUP, "me")
    await stream.join()
    return stream


async def read(stream: InputStream) -> Entry:
    entry = await stream.next()
    assert entry is not None
    return entry


def keys_of(stream: InputStream) -> Keys:
    name = read_stream_name(stream.key)
    assert name is not None
    return name.keys


def queue_claim(stream: InputStream, entry: Entry, *, firm: bool = False) -> QueueClaim:
    keys = keys_of(stream)
    output, lifecycle = keys.developer_output, keys.lifecycle
    return QueueClaim(stream, entry, output=output, lifecycle=lifecycle, firm=firm)


def attempt_claim(stream: InputStream, entry: Entry) -> AttemptClaim:
    keys = keys_of(stream)
    record = keys.attempt_record(UID, 1)
    return AttemptClaim(stream, entry, keys=keys, record=record, task=TASK, attempt=1)


@pytest.fixture
async def claim(queues: Queues, stream: InputStream) -> QueueClaim:
    await queues.task()
    return queue_claim(stream, await read(stream))


@pytest.fixture
async def attempt(queues: Queues, stream: InputStream) -> AttemptClaim:
    bound = await queues.bound_task()
    entry = await stream.claim(bound["TASK_ENTRY_ID"])
    assert entry is not None
    return attempt_claim(stream, entry)


async def give_to(queues: Queues, consumer: str, entry: str) -> None:
    await queues.redis.xclaim(BARE.developer_input, DEVELOPER_GROUP, consumer, 0, [entry])


async def holder(queues: Queues) -> tuple[str, int, int]:
    """Who holds the one pending entry, idle for how many ms, delivered how often."""
    (pending,) = await queues.redis.xpending_range(
        BARE.developer_input, DEVELOPER_GROUP, "-", "+", 9
    )
    return pending["consumer"], pending["time_since_delivered"], pending["times_delivered"]


async def published(queues: Queues) -> tuple[int, int]:
    return await queues.redis.xlen(BARE.developer_output), await queues.redis.xlen(BARE.lifecycle)


async def test_renewing_resets_the_idle_time_and_not_the_count(
    queues: Queues, claim: QueueClaim
) -> None:
    await queues.redis.execute_command(
        *("XCLAIM", BARE.developer_input, DEVELOPER_GROUP, "me", 0, claim.entry.id),
        *("IDLE", 50_000, "JUSTID"),
    )
    assert await claim.renew() == "held"
    consumer, idle, deliveries = await holder(queues)
    assert (consumer, deliveries) == ("me", 1)
    assert idle < 5_000


async def test_a_claim_another_worker_took_is_not_taken_back(
    queues: Queues, claim: QueueClaim
) -> None:
    await give_to(queues, "other", claim.entry.id)
    assert await claim.renew() == "taken"
    assert not await claim.settle("{}", "{}")
    assert (await holder(queues))[0] == "other"
    assert await published(queues) == (0, 0)


async def test_a_firm_claim_is_taken_back(queues: Queues, stream: InputStream) -> None:
    await queues.task()
    firm = queue_claim(stream, await read(stream), firm=True)
    await give_to(queues, "other", firm.entry.id)
    assert await firm.renew() == "held"
    assert (await holder(queues))[0] == "me"
    await give_to(queues, "other", firm.entry.id)
    assert await firm.settle("{}", "{}")


async def test_an_entry_that_was_withdrawn_is_gone(queues: Queues, claim: QueueClaim) -> None:
    await queues.redis.xdel(BARE.developer_input, claim.entry.id)
    assert await claim.renew() == "gone"
    assert not await claim.settle("{}", "{}")
    assert await published(queues) == (0, 0)


async def test_a_claim_redis_forgot_is_made_again(queues: Queues, claim: QueueClaim) -> None:
    await queues.redis.xack(BARE.developer_input, DEVELOPER_GROUP, claim.entry.id)
    assert await claim.renew() == "held"
    assert (await holder(queues))[0] == "me"


@pytest.mark.parametrize("recreated", [False, True])
async def test_an_entry_lost_with_all_of_redis_is_still_answered(
    queues: Queues, claim: QueueClaim, recreated: bool
) -> None:
    await queues.redis.flushall()
    if recreated:
        await queues.group(BARE.developer_input, DEVELOPER_GROUP)
    assert await claim.renew() == "lost"
    assert await claim.settle("{}", "{}")
    assert await published(queues) == (1, 1)


async def test_settling_publishes_both_messages_and_empties_the_queue(
    queues: Queues, claim: QueueClaim
) -> None:
    assert await claim.settle('{"out": 1}', '{"event": 1}', dead_reason="")
    ((_, output),) = await queues.redis.xrange(BARE.developer_output)
    ((_, event),) = await queues.redis.xrange(BARE.lifecycle)
    assert (output, event) == ({"data": '{"out": 1}'}, {"data": '{"event": 1}'})
    assert await queues.is_settled()
    assert await queues.dead_letters() == []


async def test_settling_twice_publishes_once(queues: Queues, claim: QueueClaim) -> None:
    assert await claim.settle("{}", "{}")
    assert not await claim.settle("{}", "{}")
    assert await published(queues) == (1, 1)


async def test_a_dead_letter_has_the_entrys_fields_and_the_reason(
    queues: Queues, claim: QueueClaim
) -> None:
    assert await claim.settle("", "", dead_reason="because")
    assert await queues.dead_letters() == [{**claim.entry.fields, "reason": "because"}]
    assert await published(queues) == (0, 0)
    assert await queues.is_settled()


async def test_the_routing_fields_of_an_entry_go_with_its_outcome(
    queues: Queues, stream: InputStream
) -> None:
    await queues.bound_task()
    claim = queue_claim(stream, await read(stream), firm=True)
    await claim.settle("{}", "{}")
    for key in (BARE.developer_output, BARE.lifecycle):
        ((_, fields),) = await queues.redis.xrange(key)
        assert routing(fields) == {"agenttask": TASK, "attempt": "1"}


async def test_an_attempts_claim_is_taken_back_from_anybody(
    queues: Queues, attempt: AttemptClaim
) -> None:
    await give_to(queues, "other", attempt.entry.id)
    assert await attempt.renew() == "held"
    assert (await holder(queues))[0] == "me"


async def test_an_attempt_that_was_withdrawn_is_gone(queues: Queues, attempt: AttemptClaim) -> None:
    await queues.redis.xdel(BARE.developer_input, attempt.entry.id)
    assert await attempt.renew() == "gone"
    assert not await attempt.settle("{}", "{}")
    assert await published(queues) == (0, 0)


@pytest.mark.parametrize("recreated", [False, True])
async def test_an_attempt_lost_with_all_of_redis_is_still_answered(
    queues: Queues, attempt: AttemptClaim, recreated: bool
) -> None:
    await queues.redis.flushall()
    if recreated:
        await queues.group(BARE.developer_input, DEVELOPER_GROUP)
    assert await attempt.renew() == "lost"
    assert await attempt.settle("{}", "{}")
    assert await published(queues) == (1, 1)


async def test_an_attempt_is_published_once_whoever_does_it(
    queues: Queues, attempt: AttemptClaim
) -> None:
    assert await attempt.settle("{}", "{}")
    assert not await attempt.settle("{}", "{}")
    assert await published(queues) == (1, 1)
    assert await queues.is_settled()


async def test_an_unreadable_attempt_leaves_a_dead_letter_too(
    queues: Queues, attempt: AttemptClaim
) -> None:
    assert await attempt.settle("{}", "{}", dead_reason="because")
    assert [letter["reason"] for letter in await queues.dead_letters()] == ["because"]
    assert await published(queues) == (1, 1)


ODD_ENTRIES = {
    "a large text": {"data": b"x" * 100_000, "note": b"behind it"},
    "many fields": {f"field-{number}": b"x" for number in range(300)},
    "bytes": {"data": b"\xff\xfe", "n\u00e4me": b"\x00"},
    "a reason of its own": {"reason": b"mine", "data": b"{}"},
    "a large name": {"n" * 70_000: b"x", "data": b"{}"},
}


@pytest.mark.parametrize("kind", ODD_ENTRIES)
async def test_both_kinds_of_claim_keep_the_same_of_an_entry_in_its_dead_letter(
    queues: Queues, stream: InputStream, kind: str
) -> None:
    letters = []
    for bound in (False, True):
        added = await queues.redis.xadd(BARE.developer_input, ODD_ENTRIES[kind])
        entry = await stream.claim(added)
        assert entry is not None
        claim = attempt_claim(stream, entry) if bound else queue_claim(stream, entry)
        assert await claim.settle("", "{}", dead_reason="because")
        dead = dead_letter(BARE.developer_input)
        command = ("XREVRANGE", dead, "+", "-", "COUNT", 1)
        ((_, found),) = await queues.redis.execute_command(*command, NEVER_DECODE=True)
        assert found.pop(b"reason").startswith(b"because")
        letters.append(found)
    assert letters[0] == letters[1]
    assert sum(len(name) + len(value) for name, value in found.items()) <= DEAD_LETTER_BYTES


@pytest.mark.parametrize("kind", ["claim", "attempt"])
async def test_a_stream_of_dead_letters_has_no_more_than_the_newest(
    queues: Queues, stream: InputStream, kind: str
) -> None:
    dead = dead_letter(BARE.developer_input)
    fill = "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], i, 'reason', 'old') end"
    await queues.redis.eval(fill, 1, dead, DEAD_LETTERS_KEPT)
    await queues.task() if kind == "claim" else await queues.bound_task()
    entry = await read(stream)
    claim = attempt_claim(stream, entry) if kind == "attempt" else queue_claim(stream, entry)
    assert await claim.settle("", "{}", dead_reason="because")
    assert await queues.redis.xlen(dead) == DEAD_LETTERS_KEPT
    ((_, newest),) = await queues.redis.xrevrange(dead, count=1)
    assert newest["reason"] == "because"
