"""Workers as whole processes with the real gemini and opencode CLIs; only the model is scripted."""

import signal

import pytest
from redis.asyncio import Redis
from support.agent_clis import ModelServer
from support.queues import Queues
from support.real_agents import RealWorkers
from support.wrapper import API_KEY

from orbiter_contracts.queues import BARE

pytestmark = pytest.mark.integration

FIRST = """[[usage: 1000 in, 50 out]]
[[remember: the word is blue]]
[[bash: echo made > made.txt; tr '\\0' '\\n' < /proc/$PPID/environ]]
[[say: {output}]]"""
SECOND = "/help me with @made.txt and a@made.txt\n[[recall]]\n[[usage: 1000 in, 50 out]]"
REMEMBERS = "I remember: the word is blue"
OURS = ("REDIS_URL", "WORKER_", "SPILL_DIR", API_KEY)
AGENTS = ["gemini", "opencode"]


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture
def workers(request: pytest.FixtureRequest) -> RealWorkers:
    found: RealWorkers = request.getfixturevalue(f"{request.param}_workers")
    return found


@pytest.mark.parametrize("workers", AGENTS, indirect=True)
async def test_a_conversation_goes_on_in_another_worker_from_what_redis_keeps_of_it(
    workers: RealWorkers, queues: Queues, model_server: ModelServer
) -> None:
    kept = {"SNAPSHOT_KEY": BARE.po_snapshot("po-1"), "STREAMING": "Enabled"}
    for count, prompt in enumerate((FIRST, SECOND), 1):
        worker = workers.start_po(**kept)
        await queues.message(prompt)
        finals = await queues.finals(count)
        worker.send(signal.SIGTERM)
        assert await worker.exit_code() == 0
        assert (workers.work / "made.txt").read_text() == "made\n"
        workers.lose_the_disk()
        (workers.work / "made.txt").write_text("made\n")
    assert [answer.status for answer in finals] == ["success"] * 2
    assert "_API_KEY=[redacted]" in finals[0].text
    assert not [name for name in OURS if name in finals[0].text]
    assert finals[1].text == REMEMBERS
    used = [(a.usage.input_tokens, a.usage.output_tokens) for a in finals if a.usage]
    assert used == [(2000, 100), (1000, 50)]
    pieces = [answer for answer in await queues.answers(4) if not answer.is_final]
    assert REMEMBERS in "".join(piece.text for piece in pieces)
    assert "made\n" not in str(model_server.stats["prompts"])


@pytest.mark.parametrize("workers", AGENTS, indirect=True)
async def test_an_error_of_the_model_is_one_that_says_so(
    workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("[[status: 400]]")
    assert await workers.start().exit_code() == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("error", "AgentError")
    assert "the prompt asks for status 400" in (output.error or "")
    assert workers.left_behind() == []


async def test_gemini_keeps_the_limit_of_turns(gemini_workers: RealWorkers, queues: Queues) -> None:
    await queues.task("[[bash: echo 1]]\n[[bash: echo 2]]\n[[bash: touch three]]\n[[result]]")
    await gemini_workers.start(AGENT_MAX_TURNS="2").exit_code()
    output = await queues.output()
    assert (output.status, output.reason) == ("error", "AgentError")
    assert "max session turns" in (output.error or "")
    assert not (gemini_workers.work / "three").exists()


async def test_opencode_says_which_limits_it_does_not_keep_and_ends_when_its_time_is_up(
    opencode_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("[[bash: (setsid sleep 1000 &) ; sleep 1000]]", timeout=8)
    await opencode_workers.start(AGENT_MAX_TURNS="2", AGENT_MAX_COST_USD="1").exit_code()
    output = await queues.output()
    assert (output.status, output.reason) == ("timeout", "AgentTimeout")
    assert [word for word in output.warnings if word.endswith("was ignored")] == [
        "opencode has no limit of that kind: max_turns was ignored",
        "opencode has no limit of that kind: max_cost_usd was ignored",
    ]
    assert opencode_workers.left_behind() == []
