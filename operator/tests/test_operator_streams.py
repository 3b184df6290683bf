"""What the operator takes from a stream, and what is too large for it."""

import pytest
from support.malformed import entry_of

from orbiter_contracts.bounds import MAX_ENTRY_BYTES
from orbiter_operator.streams.client import redis_client
from orbiter_operator.streams.reader import read_entry

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("fields", [1, 1000])
@pytest.mark.parametrize("beyond", [0, 1])
async def test_the_largest_entry_is_whole_and_one_byte_more_is_too_much(
    redis, redis_server, fields, beyond
):
    added = await redis.xadd("in", entry_of(MAX_ENTRY_BYTES + beyond, fields=fields))
    client = redis_client(redis_server.url)
    entry = await read_entry(client, "in", added)
    await client.aclose()
    assert (entry.size, entry.whole) == (MAX_ENTRY_BYTES + beyond, not beyond)
