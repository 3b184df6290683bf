"""Entries of any size on the three streams: the operator never holds one that is too large."""

import json
import re
from pathlib import Path

import pytest
from support.eventually import eventually

from orbiter_contracts.bounds import MAX_ENTRY_BYTES
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, OPERATOR_GROUP

pytestmark = pytest.mark.integration
MIB = 1024 * 1024
LARGE = b'{"permission_denials":[' + b"0," * (91 * MIB // 2) + b"0]}"
GROWTH = 64 * MIB
"""What an operator may grow by while 91 MiB go by, three times: its batch, and what reads it."""


def peak(pid):
    """The most memory the process has had, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024


async def test_entries_of_91_mib_among_good_ones_cost_neither_memory_nor_answers(own_world):
    world = own_world
    operator = await world.start_operator(adopt_namespace="team")
    world.apply("first")
    await world.until("first", "Completed")
    before = peak(operator.pid)
    for stream, group in (
        (BARE.developer_input, DEVELOPER_GROUP),
        (BARE.developer_output, OPERATOR_GROUP),
        (BARE.lifecycle, OPERATOR_GROUP),
    ):
        name = f"after-{stream.rpartition(':')[2]}"
        large = await world.binary.xadd(stream, {"data": LARGE, "note": "x"})
        good = json.dumps({"task_id": name, "prompt": "ok"})
        await world.redis.xadd(BARE.developer_input, {"data": good})
        await world.until(await eventually(lambda name=name: world.adopted(name)), "Completed")

        async def letters(stream=stream):
            return await world.redis.xrange(f"{stream}:dead")

        ((_, letter),) = await eventually(letters)
        assert f"the entry has {len(LARGE)}"[:18] in letter["reason"]
        assert "it was not read" in letter["reason"]
        assert len(letter["data"]) < 4096

        async def is_gone(stream=stream, group=group, large=large):
            held = await world.redis.xpending(stream, group)
            return held["pending"] == 0 and not await world.redis.xrange(stream, large, large)

        await eventually(is_gone)
    assert peak(operator.pid) - before < GROWTH


async def test_large_entries_that_an_earlier_operator_held_are_put_aside_at_the_start(own_world):
    world = own_world
    first = await world.start_operator(adopt_namespace="team")
    world.apply("first")
    await world.until("first", "Completed")
    usual = peak(first.pid)
    await first.end()
    await world.binary.xadd(BARE.developer_output, {"data": LARGE})
    await world.binary.xadd(
        BARE.developer_output, {"data": b"0" * MAX_ENTRY_BYTES, "more": b"1" * MIB}
    )
    hand_out = (
        "return #redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'STREAMS', KEYS[1], '>')"
    )
    await world.redis.eval(hand_out, 1, BARE.developer_output, OPERATOR_GROUP, "operator")
    second = await world.start_operator(adopt_namespace="team")
    world.apply("second")
    await world.until("second", "Completed")

    async def both_are_dead():
        return await world.redis.xlen(f"{BARE.developer_output}:dead") == 2

    await eventually(both_are_dead)
    assert peak(second.pid) - usual < GROWTH
