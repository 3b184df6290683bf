"""What is noted of entries that have become tasks: whatever stands there, the rest is tidied."""

import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.queues import open_groups

from orbiter_contracts import DeveloperWorkerInput, encode
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP
from orbiter_operator.streams.attempts import CONSUMER
from orbiter_operator.streams.client import redis_client
from orbiter_operator.streams.dead_letters import forget_adopted

pytestmark = pytest.mark.integration
SAID = st.binary(max_size=30) | st.sampled_from(
    [b"team/odd " + since for since in (b"9" * 5000, "\u00b2".encode(), "\u0661".encode(), b"-1")]
)
NOTED = st.binary(max_size=20) | st.sampled_from([b"-", b"+", b"0-0", b"1-", b"9" * 40 + b"-1"])


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(NOTED, SAID, max_size=6))
@example({b"1-1": b"team/odd " + b"9" * 5000})
@example({b"no id": b"team/gone 1"})
async def test_an_entry_whose_task_is_gone_is_taken_off_whatever_stands_beside_it(
    redis_server, redis, noted
):
    await redis.delete(BARE.adopted, BARE.developer_input)
    await open_groups(redis)
    async with redis_client(redis_server.url) as own:
        if noted:
            await own.hset(BARE.adopted, mapping=noted)
        task = DeveloperWorkerInput(task_id="t", prompt="ok")
        entry = await redis.xadd(BARE.developer_input, encode(task))
        await redis.xreadgroup(DEVELOPER_GROUP, CONSUMER, {BARE.developer_input: ">"})
        await own.hset(BARE.adopted, entry, f"team/good {int(time.time()) - 100}")
        taken = await forget_adopted(own, BARE, lambda task: None, CONSUMER)
    assert taken == 1
    assert await redis.xlen(BARE.developer_input) == 0
    assert not await redis.hexists(BARE.adopted, entry)
