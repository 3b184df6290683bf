"""Workers as whole processes with the real codex CLI; only the model is scripted."""

import os
import shutil
import signal

import pytest
from redis.asyncio import Redis
from support.queues import RECORD, Queues
from support.real_agents import HOLD, RealWorkers
from support.wrapper import API_KEY

from orbiter_contracts.queues import BARE

pytestmark = pytest.mark.integration

REMEMBER, RECALL = "[[remember: the word is blue]]", "[[recall]]"
REMEMBERS, REMEMBERS_NOTHING = "I remember: the word is blue", "I remember nothing."


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


async def test_a_task_is_done_in_the_workspace_and_answered_with_the_agents_verdict(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task(
        '[[bash: echo made > made.txt]]\n[[result: {"status": "success", "summary": "made it"}]]',
        request_id="r-1",
    )
    assert await codex_workers.start().exit_code() == 0
    output = await queues.output()
    assert (output.request_id, output.status, output.error) == ("r-1", "success", None)
    assert (output.verdict and output.verdict.summary) == "made it"
    assert output.usage is not None
    assert output.usage.output_tokens > 0
    assert (codex_workers.work / "made.txt").read_text() == "made\n"
    assert await queues.is_settled()


async def test_the_agent_sees_its_key_but_nothing_of_the_worker(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("[[bash: tr '\\0' '\\n' < /proc/$PPID/environ]] [[say: {output}]] [[result]]")
    codex_workers.start()
    verdict = (await queues.output()).verdict
    assert verdict is not None
    assert "CODEX_API_KEY=[redacted]" in verdict.summary
    for name in ("REDIS_URL", "WORKER_", "TASK_", "SPILL_DIR", API_KEY):
        assert name not in verdict.summary


async def test_an_error_of_the_model_is_one_that_says_so(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("[[status: 400]]")
    assert await codex_workers.start().exit_code() == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("error", "AgentError")
    assert "400" in (output.error or "")


async def test_a_timeout_ends_the_agent_and_its_tools(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("[[bash: (setsid sleep 1000 &) ; sleep 1000]]", timeout=2)
    assert await codex_workers.start().exit_code() == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("timeout", "AgentTimeout")
    assert codex_workers.left_behind() == []


async def test_an_agent_killed_from_outside_is_an_error_that_says_so(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task(HOLD)
    wrapper = codex_workers.start()
    os.kill(await codex_workers.held(), signal.SIGKILL)
    assert await wrapper.exit_code() == 0
    assert "killed by signal 9" in ((await queues.output()).error or "")
    assert codex_workers.left_behind() == []


async def test_a_prompt_of_two_hundred_kilobytes_arrives_whole(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("ä" * 100_000 + "\n[[say: read it all]] [[result]]")
    codex_workers.start()
    output = await queues.output()
    assert (output.status, output.error) == ("success", None)
    assert (output.verdict and output.verdict.summary) == "read it all"


async def test_a_bound_worker_runs_its_entry_and_records_the_output(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    bound = await queues.bound_task("[[say: bound]] [[result]]")
    assert await codex_workers.start(**bound).exit_code() == 0
    assert (await queues.output()).status == "success"
    assert await queues.redis.hget(RECORD, "output")
    assert await queues.is_settled()


async def test_a_conversation_remembers_until_it_is_begun_anew(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    codex_workers.start_po()
    prompts = (REMEMBER, "/help [[say: heard]]", RECALL, "/new", RECALL)
    answers = await queues.converse(*prompts)
    assert [answer.status for answer in answers] == ["success"] * 5
    assert answers[1].text == "heard"
    assert answers[2].text == REMEMBERS
    assert answers[4].text == REMEMBERS_NOTHING
    assert len({answer.session_id for answer in answers}) == 2


async def test_a_restarted_worker_remembers_and_charges_each_turn_for_itself(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    first = codex_workers.start_po()
    await queues.converse(f"[[usage: 1000 in, 50 out]] {REMEMBER}")
    first.send(signal.SIGTERM)
    assert await first.exit_code() == 0
    codex_workers.start_po()
    answers = await queues.converse(f"[[usage: 1000 in, 50 out]] {RECALL}")
    assert answers[1].text == REMEMBERS
    used = [(a.usage.input_tokens, a.usage.output_tokens) for a in answers if a.usage]
    assert used == [(1000, 50)] * 2


async def test_a_worker_that_lost_the_agents_files_begins_the_session_anew(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    codex_workers.start_po()
    await queues.converse(REMEMBER)
    shutil.rmtree(codex_workers.home / ".codex")
    answers = await queues.converse(RECALL)
    assert (answers[1].status, answers[1].text) == ("success", REMEMBERS_NOTHING)
    assert answers[1].session_id == answers[0].session_id


async def test_asked_to_leave_it_answers_the_message_it_has(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    wrapper = codex_workers.start_po()
    await queues.message(f"{HOLD}\n[[say: finished]]")
    await codex_workers.held()
    wrapper.send(signal.SIGTERM)
    codex_workers.release()
    assert await wrapper.exit_code() == 0
    (answer,) = await queues.answers(1)
    assert (answer.status, answer.text) == ("success", "finished")


async def test_a_conversation_goes_on_although_the_disk_was_lost(
    codex_workers: RealWorkers, queues: Queues
) -> None:
    for count, prompt in enumerate((REMEMBER, RECALL), 1):
        wrapper = codex_workers.start_po(SNAPSHOT_KEY=BARE.po_snapshot("po-1"), STREAMING="Enabled")
        await queues.message(prompt)
        finals = await queues.finals(count)
        wrapper.send(signal.SIGTERM)
        await wrapper.exit_code()
        kept = await queues.redis.strlen(BARE.po_snapshot("po-1"))
        shutil.rmtree(codex_workers.home)
        codex_workers.home.mkdir()
    assert finals[1].text == REMEMBERS
    assert 0 < kept < 100_000
    pieces = [answer for answer in await queues.answers(4) if not answer.is_final]
    assert pieces[-1].text == finals[1].text
    assert (pieces[-1].sequence, finals[1].sequence) == (0, 1)
