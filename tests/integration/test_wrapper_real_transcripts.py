"""The transcript of each real CLI at work; only the model is scripted."""

import pytest
from redis.asyncio import Redis
from support.queues import UID, Queues
from support.real_agents import RealWorkers
from support.wrapper import API_KEY

from orbiter_contracts.queues import BARE
from orbiter_contracts.transcript import AnyEvent
from orbiter_contracts.transcript_reading import TranscriptReader, read_entry

pytestmark = pytest.mark.integration

PROMPT = f"""[[bash: echo one {API_KEY}; exit 0]]
[[say: it said {{output}}]]
[[bash: cat missing]]
[[result: {{"status": "success", "summary": "looked"}}]]"""
AGENTS = ["claude", "codex", "gemini", "opencode", "orbiter"]


@pytest.fixture
def workers(request: pytest.FixtureRequest) -> RealWorkers:
    found: RealWorkers = request.getfixturevalue(f"{request.param}_workers")
    return found


async def seen(redis: Redis) -> list[AnyEvent]:
    reader = TranscriptReader()
    entries = await redis.xrange(BARE.task_transcript(UID, 1))
    return [event for _, fields in entries for event in reader.take(read_entry(fields))]


@pytest.mark.parametrize("workers", AGENTS, indirect=True)
async def test_its_words_its_tools_and_their_results_are_there_in_order(
    workers: RealWorkers, redis: Redis
) -> None:
    queues = Queues(redis)
    worker = workers.start(**await queues.bound_task(PROMPT))
    assert (await queues.output()).status == "success"
    assert await worker.exit_code() == 0
    events = await seen(redis)
    assert [event.sequence for event in events] == [*range(len(events))]
    kinds = [event.type for event in events if event.type != "usage"]
    while kinds.count("text") > 1 and kinds[kinds.index("text") + 1] == "text":
        kinds.remove("text")
    work = ["tool_call", "tool_result", "text", "tool_call", "tool_result"]
    assert kinds[: len(work)] == work
    assert kinds[-1] == "verdict"
    calls = [event for event in events if event.type == "tool_call"]
    results = [event for event in events if event.type == "tool_result"]
    assert ["echo one" in calls[0].arguments, "cat missing" in calls[1].arguments] == [True, True]
    assert [result.tool_call_id for result in results] == [call.tool_call_id for call in calls]
    assert [result.tool_name for result in results] == [call.tool_name for call in calls]
    assert "one [redacted]" in results[0].content
    assert "No such file" in results[1].content + (results[1].error or "")
    assert all(result.seconds is not None for result in results)
    said = "".join(event.text for event in events if event.type == "text")
    assert "it said one [redacted]" in said
    assert "<result>" not in said
    assert API_KEY not in str(events)
    verdict = events[-1]
    assert verdict.type == "verdict"
    assert (verdict.status, verdict.text) == ("success", "looked")
    usage = [event.usage for event in events if event.type == "usage"]
    assert usage[-1].output_tokens > 0
