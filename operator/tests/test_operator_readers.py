"""Entries that nobody should have written, among good ones: each costs itself and nothing else."""

import json

import pytest
from support.eventually import eventually

from orbiter_contracts.queues import (
    DEVELOPER_GROUP,
    DEVELOPER_INPUT,
    DEVELOPER_OUTPUT,
    LIFECYCLE,
    OPERATOR_GROUP,
)

pytestmark = pytest.mark.integration
GROUPS = {
    DEVELOPER_INPUT: DEVELOPER_GROUP,
    DEVELOPER_OUTPUT: OPERATOR_GROUP,
    LIFECYCLE: OPERATOR_GROUP,
}
CRASHES = {
    "bytes-that-are-not-utf8": {b"data": b"\xff\xfe"},
    "an-attempt-that-is-a-superscript": {
        b"data": b"{}",
        b"agenttask": b"team/fix",
        b"attempt": "\u00b2".encode(),
    },
    "an-attempt-of-5000-digits": {
        b"data": b"{}",
        b"agenttask": b"team/fix",
        b"attempt": b"9" * 5000,
    },
    "a-giant-timeout": {
        b"data": b'{"task_id":"t","prompt":"x","timeout":99999999999999999999999}',
    },
}


async def unacknowledged(redis, stream):
    return (await redis.xpending(stream, GROUPS[stream]))["pending"]


@pytest.mark.parametrize("entry", CRASHES.values(), ids=CRASHES)
@pytest.mark.parametrize("stream", GROUPS)
async def test_a_malformed_entry_is_a_dead_letter_and_the_next_is_answered(world, stream, entry):
    operator = await world.start_operator(adopt_namespace="team")
    world.apply("before")
    await world.until("before", "Completed")
    await world.redis.xadd(stream, entry)
    good = json.dumps({"task_id": "good", "prompt": "ok"})
    await world.redis.xadd(DEVELOPER_INPUT, {"data": good})
    world.apply("after")
    await world.until("after", "Completed")
    ours = await eventually(lambda: world.adopted("good"))
    await world.until(ours, "Completed")

    async def letters():
        return await world.binary.xrange(f"{stream}:dead")

    ((_, letter),) = await eventually(letters)
    assert letter[b"reason"].decode().isprintable()
    assert {key: letter[key] for key in entry} == entry

    async def nothing_is_left():
        return await unacknowledged(world.redis, stream) == 0

    await eventually(nothing_is_left)
    assert operator.process.returncode is None
