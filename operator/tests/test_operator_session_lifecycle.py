"""Whole POSessions through the real program, a real Redis and a fake API server."""

import pytest
from support.eventually import eventually
from support.talks import Talks

from orbiter_contracts.queues import PO_GROUP, po_input

pytestmark = pytest.mark.integration
NAMESPACE = "team"


@pytest.fixture
def talks(world):
    return Talks(world.api, world.redis)


async def test_a_session_sleeps_wakes_for_a_message_answers_and_sleeps_again(world, talks):
    await world.start_operator()
    talks.apply("alice")
    status = await talks.until("alice", "Asleep")
    assert talks.replicas("alice") == 0
    assert status["inputStream"] == po_input("team.alice")
    for stream in (status["inputStream"], status["outputStream"]):
        [group] = await world.redis.xinfo_groups(stream)
        assert (group["name"], group["last-delivered-id"]) == (PO_GROUP, "0-0")
    await talks.send("alice", "hello")
    assert await talks.answered("alice") == ["re: hello"]
    await eventually(lambda: talks.status("alice").get("turns") == 1)
    status = await talks.until("alice", "Asleep")
    assert talks.phases("alice") in (
        ["Asleep", "Waking", "Busy", "Ready", "Asleep"],
        ["Asleep", "Waking", "Ready", "Asleep"],
        ["Asleep", "Waking", "Busy", "Asleep"],
        ["Asleep", "Waking", "Asleep"],
    )
    assert status["pendingMessages"] == 0
    assert status["replicas"] == 0
    assert status["usage"] == {
        **dict.fromkeys(("outputTokens", "cacheReadTokens", "cacheWriteTokens", "turns"), 0),
        "inputTokens": 10,
    }
    assert status["lastActivityTime"]
    assert talks.condition("alice", "Available")["status"] == "True"


async def test_a_session_for_which_a_message_waits_already_wakes_at_once(world, talks):
    await talks.send("early", "first")
    await world.start_operator()
    talks.apply("early")
    assert await talks.answered("early") == ["re: first"]
