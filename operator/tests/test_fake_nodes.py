"""The nodes other tests run workers on end with their test, whatever becomes of the workers."""

import asyncio

import pytest
from support.fake_node import FakeNode
from support.fake_session_node import FakeSessionNode

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("kind", [FakeNode, FakeSessionNode])
async def test_a_node_ends_though_a_worker_loses_its_cancellation(api, redis, kind):
    """As redis does at a certain moment of sending a command, up to Python 3.11."""
    lost = []

    async def loses_the_first():
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if lost:
                    raise
                lost.append(1)

    node = kind(api, redis)
    node.start()
    worker = asyncio.create_task(loses_the_first())
    node._tasks.add(worker)
    await asyncio.sleep(0)
    ending = asyncio.create_task(node.stop())
    done, _ = await asyncio.wait({ending}, timeout=20.0)
    worker.cancel()
    assert done
    assert lost
    assert worker.cancelled()
