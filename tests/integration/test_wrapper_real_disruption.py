"""Real agents that are cut off in the middle of a tool call, and go on in another pod."""

import json
import os
import signal
from contextlib import suppress

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.queues import RECORD, Queues
from support.real_agents import HOLD, RealWorkers
from support.wrapper import WrapperProcess

from orbiter_contracts import AGENTS, read_checkpoint
from orbiter_contracts.exit_codes import INTERRUPTED

pytestmark = pytest.mark.integration

REMEMBERS = "I remember: the word is blue"
PROMPT = f"[[remember: the word is blue]]\n[[bash: echo draft > draft.txt]]\n{HOLD}\n[[result]]"
# Directives in the one line that says what has happened, to see what the agent knows.
ASKS = "a drill\n[[recall]]\n[[result]]\n."
RESUMING = [name for name, agent in AGENTS.items() if agent.resumes]
SLOW = ("gemini", "opencode")
"""Both take seconds to begin; killed they were seen to go on, too, and the copy is the same."""
CASES = [
    (name, number)
    for name in RESUMING
    for number in (signal.SIGTERM, signal.SIGKILL)
    if number == signal.SIGTERM or name not in SLOW
]


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture
def workers(request: pytest.FixtureRequest) -> RealWorkers:
    found: RealWorkers = request.getfixturevalue(f"{request.param}_workers")
    return found


async def has_the_draft(queues: Queues) -> bool:
    """Whether a checkpoint has what the agent did before its last tool call."""
    checkpoint = read_checkpoint(await queues.redis.hget(RECORD, "checkpoint"))
    return checkpoint is not None and checkpoint.workspace == "Stored"


async def on_a_disk_of_its_own(workers: RealWorkers, **env: str) -> WrapperProcess:
    """The attempt's next pod; with the one before, all that ran there is gone."""
    for pid in workers.left_behind():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not workers.left_behind())
    workers.lose_the_disk()
    return workers.start("job-1", DISRUPTION_NOTE=ASKS, **env)


@pytest.mark.parametrize(("workers", "number"), CASES, indirect=["workers"])
async def test_a_real_agent_goes_on_from_a_copy_made_in_the_middle_of_its_work(
    workers: RealWorkers, queues: Queues, number: signal.Signals
) -> None:
    bound = await queues.bound_task(PROMPT, request_id="r-1")
    seconds = {"CHECKPOINT_SECONDS": "0.5", "TERMINATION_GRACE_SECONDS": "8"}
    first = workers.start("job-1", **bound, **seconds)
    await workers.held()
    if number == signal.SIGKILL:
        await eventually(lambda: has_the_draft(queues))
    first.send(number)
    code = await first.exit_code()
    assert code == (INTERRUPTED if number == signal.SIGTERM else -number)
    checkpoint = read_checkpoint(await queues.redis.hget(RECORD, "checkpoint"))
    assert checkpoint is not None
    assert checkpoint.resumable
    workers.release()
    second = await on_a_disk_of_its_own(workers, **bound)
    assert await second.exit_code() == 0
    output = await queues.output()
    assert (output.request_id, output.status, output.error) == ("r-1", "success", None)
    assert REMEMBERS in json.dumps(output.model_dump(mode="json"))
    assert (workers.work / "draft.txt").read_text() == "draft\n"
    assert output.usage is not None
    assert checkpoint.usage is None or output.usage.input_tokens > checkpoint.usage.input_tokens
    assert len(await queues.outputs()) == 1
