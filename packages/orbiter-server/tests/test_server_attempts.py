"""The attempts of a task: when each began and how it ended, told to those who may know."""

import pytest
from support.redis_server import redis_server

from orbiter.server._internal import cluster_attempts
from orbiter.server._internal.cluster_attempts import attempt_of
from orbiter_contracts.transcript import TextEvent, VerdictEvent
from orbiter_contracts.transcript_reading import entry_data
from orbiter_contracts.transcript_scripts import END_FIELD, NEXT_FIELD

from .test_server_transcripts import launch, put_secret, put_task, stream, writer

__all__ = ["launch", "redis_server", "writer"]
PATH = "/v1/cluster/tasks/team-a/fix/attempts"


async def write(redis, attempt, *events):
    """Each event is an entry."""
    for event in events:
        data = entry_data([event])
        fields = {"data": data, END_FIELD: len(data), NEXT_FIELD: event.sequence + 1}
        await redis.xadd(stream(attempt), fields)


def said(attempt, sequence, minute, **more):
    at = f"2026-01-05T09:{minute:02}:00Z"
    return TextEvent(sequence=sequence, at=at, attempt=attempt, text="x", **more)


def verdict(attempt, sequence, minute, status, **more):
    at = f"2026-01-05T09:{minute:02}:00Z"
    return VerdictEvent(sequence=sequence, at=at, attempt=attempt, status=status, **more)


async def read(server):
    answer = await server.http.get(PATH)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.integration
async def test_each_attempt_says_when_it_began_and_how_it_ended(launch, api, writer):
    put_task(
        api, attempts=4, startTime="2026-01-05T09:00:04Z", disruptions=1,
        checkpoint={"time": "2026-01-05T09:41:00Z", "turns": 7},
    )  # fmt: skip
    await write(
        writer.redis, 1, said(1, 0, 1),
        verdict(1, 1, 9, "failed", reason="AgentError", text="no way", cost_usd=0.25),
    )  # fmt: skip
    await write(writer.redis, 2, said(2, 500, 20, cost_usd=0.5))
    await write(writer.redis, 4, said(4, 0, 40))
    ada, _ = await launch()
    found = await read(ada)
    assert (found["earlier"], found["problem"]) == (0, "")
    one, two, three, four = found["items"]
    assert one == {
        "number": 1, "outcome": "failed", "reason": "AgentError", "message": "no way",
        "began_at": "2026-01-05T09:01:00Z", "began_before": False,
        "ended_at": "2026-01-05T09:09:00Z", "cost_usd": 0.25, "disruptions": None,
        "checkpoint_at": None, "checkpoint_turns": None,
    }  # fmt: skip
    assert (two["began_at"], two["began_before"]) == ("2026-01-05T09:20:00Z", True)
    assert (two["outcome"], two["ended_at"], two["cost_usd"]) == ("", None, 0.5)
    assert (three["outcome"], three["began_at"]) == ("", None)
    assert (four["outcome"], four["checkpoint_turns"]) == ("running", 7)
    assert four["checkpoint_at"] == "2026-01-05T09:41:00Z"


@pytest.mark.integration
async def test_who_may_not_read_transcripts_sees_what_the_status_says(launch, api, writer):
    put_task(
        api, phase="Failed", reason="OOMKilled", message="too little memory", disruptions=2,
        startTime="2026-01-05T09:00:04Z", completionTime="2026-01-05T09:30:00Z",
        usage={"costUSD": 0.75},
    )  # fmt: skip
    await write(writer.redis, 1, verdict(1, 0, 9, "success", text="a secret"))
    _, bob = await launch()
    found = await read(bob)
    assert "agenttasks/transcript" in found["problem"]
    assert "secret" not in str(found)
    [one] = found["items"]
    assert (one["outcome"], one["reason"], one["disruptions"]) == ("failed", "OOMKilled", 2)
    assert (one["began_at"], one["ended_at"]) == ("2026-01-05T09:00:04Z", "2026-01-05T09:30:00Z")
    assert one["cost_usd"] == 0.75


@pytest.mark.integration
async def test_what_a_tenant_has_made_of_its_redis_is_that_attempts_affair(launch, api, writer):
    put_task(api, attempts=3)
    await writer.redis.set(stream(1), "no stream")
    await writer.redis.xadd(stream(2), {"data": b"\xff{", "odd": "x"})
    await write(writer.redis, 3, said(3, 0, 40))
    ada, _ = await launch()
    found = await read(ada)
    assert [each["began_at"] for each in found["items"]] == [None, None, "2026-01-05T09:40:00Z"]
    put_secret(api, "redis://127.0.0.1:1/0")
    found = await read(ada)
    assert "cannot be read now" in found["problem"]
    assert len(found["items"]) == 3


@pytest.mark.integration
async def test_of_a_thousand_attempts_the_latest_are_told(launch, api, writer):
    put_task(api, attempts=1000)
    ada, _ = await launch()
    found = await read(ada)
    assert [each["number"] for each in found["items"]] == [*range(951, 1001)]
    assert found["earlier"] == 950
    assert len(found["items"]) == cluster_attempts.MOST


@pytest.mark.integration
async def test_without_transcripts_the_status_is_told_and_before_the_first_nothing(launch, api):
    put_task(api, startTime="2026-01-05T09:00:04Z")
    ada, _ = await launch(transcripts=False)
    found = await read(ada)
    assert [each["outcome"] for each in found["items"]] == ["running"]
    put_task(api, phase="Pending", attempts=0)
    assert (await read(ada))["items"] == []
    assert (await ada.http.get(PATH.replace("team-a", "team-b"))).status_code == 403


@pytest.mark.parametrize(
    "status",
    [
        {"attempts": 1, "checkpoint": {"time": 7, "turns": "many"}, "usage": {"costUSD": "x"}},
        {"attempts": 1, "startTime": "0000", "completionTime": [], "phase": {"a": 1}},
        {"attempts": 1, "phase": "Failed", "reason": ["x"], "message": 5, "disruptions": -1},
    ],
)
def test_a_status_that_is_odd_is_told_as_far_as_it_can_be(status):
    found = attempt_of({"status": status}, 1, None)
    assert (found.number, found.began_at, found.reason) == (1, None, "")
