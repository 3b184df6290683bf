"""A developer worker as a whole process with the real Claude Code CLI."""

import json
import os
import signal

import pytest
from redis.asyncio import Redis
from support.queues import RECORD, Queues
from support.real_agents import HOLD, RealWorkers
from support.wrapper import API_KEY

from orbiter_contracts.queues import BARE

pytestmark = pytest.mark.integration


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


async def test_a_task_is_done_in_the_workspace_and_answered_with_the_agents_verdict(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    verdict = {"status": "success", "summary": "made it", "commit_sha": "c0ffee", "data": {"n": 1}}
    script = "[[usage: 1000 in, 50 out]]\n[[bash: echo made > made.txt]]\n"
    await queues.task(f"{script}[[result: {json.dumps(verdict)}]]", request_id="r-1")
    assert await claude_workers.start().exit_code() == 0
    output = await queues.output()
    assert (output.request_id, output.status, output.error) == ("r-1", "success", None)
    assert output.verdict is not None
    assert (output.verdict.summary, output.verdict.data) == ("made it", {"n": 1})
    assert output.commit_sha == "c0ffee"
    assert output.duration_ms is not None
    assert output.usage is not None
    assert (output.usage.input_tokens, output.usage.output_tokens) == (2000, 100)
    assert output.usage.cost_usd
    assert (claude_workers.work / "made.txt").read_text() == "made\n"
    assert await queues.story() == "started ready busy completed stopped"
    assert await queues.is_settled()


async def test_the_agent_sees_its_key_but_nothing_of_the_worker_and_the_key_is_not_published(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("[[bash: env | sort]] [[say: {output}]] [[result]]")
    wrapper = claude_workers.start()
    output = await queues.output()
    assert output.verdict is not None
    seen = output.verdict.summary
    assert "ANTHROPIC_API_KEY=[redacted]" in seen
    for name in ("REDIS_URL", "WORKER_", "TASK_", "SPILL_DIR", API_KEY):
        assert name not in seen
    assert await wrapper.exit_code() == 0
    assert API_KEY not in wrapper.output


async def test_a_turn_limit_ends_the_task_with_an_error_that_names_it(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("[[bash: true]]\n[[bash: true]]\n[[bash: true]]\n[[say: late]] [[result]]")
    claude_workers.start(AGENT_MAX_TURNS="2")
    output = await queues.output()
    assert (output.status, output.reason) == ("error", "AgentError")
    assert "maximum number of turns (2)" in (output.error or "")


async def test_a_refused_key_is_an_error_that_says_so(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("[[status: 401]]")
    impatient = {"AGENT_ENV": "IS_SANDBOX,CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CODE_MAX_RETRIES": "0"}
    assert await claude_workers.start(**impatient).exit_code() == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("error", "AgentError")
    assert "Failed to authenticate. API Error: 401" in (output.error or "")
    assert await queues.story() == "started ready busy failed stopped"


async def test_a_timeout_ends_the_agent_and_its_tools(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("[[bash: (setsid sleep 1000 &) ; sleep 1000]]", timeout=3)
    assert await claude_workers.start().exit_code() == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("timeout", "AgentTimeout")
    assert output.duration_ms is not None
    assert output.duration_ms >= 3000
    assert claude_workers.left_behind() == []


async def test_an_agent_killed_from_outside_is_an_error_that_says_so(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task(HOLD)
    wrapper = claude_workers.start()
    os.kill(await claude_workers.held(), signal.SIGKILL)
    assert await wrapper.exit_code() == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("error", "AgentError")
    assert "killed by signal 9" in (output.error or "")
    assert claude_workers.left_behind() == []


async def test_a_daemon_of_the_agent_neither_delays_the_answer_nor_outlives_it(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("[[bash: setsid sleep 1000 & ]]\n[[say: started it]] [[result]]")
    assert await claude_workers.start().exit_code(seconds=20) == 0
    assert (await queues.output()).status == "success"
    assert claude_workers.left_behind() == []


async def test_a_command_in_the_background_does_not_delay_the_answer(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    endless = {"command": "while sleep 1; do echo serving; done", "run_in_background": True}
    await queues.task(f"[[tool: Bash {json.dumps(endless)}]]\n[[say: over]] [[result]]", timeout=9)
    assert await claude_workers.start().exit_code() == 0
    output = await queues.output()
    assert (output.status, output.verdict and output.verdict.summary) == ("success", "over")
    assert claude_workers.left_behind() == []


async def test_naming_a_file_does_not_pull_it_into_the_conversation(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    (claude_workers.work / "note.txt").write_text("what the file says\n")
    await queues.task("@note.txt [[say: read it]] [[result]]")
    await claude_workers.start().exit_code()
    assert (await queues.output()).status == "success"
    (conversation,) = (claude_workers.home / ".claude" / "projects").glob("*/*.jsonl")
    assert "@note.txt" in conversation.read_text()
    assert "what the file says" not in conversation.read_text()


async def test_a_prompt_of_two_hundred_kilobytes_arrives_whole(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("ä" * 100_000 + "\n[[say: read it all]] [[result]]")
    claude_workers.start()
    output = await queues.output()
    assert (output.status, output.error) == ("success", None)
    assert output.verdict is not None
    assert output.verdict.summary == "read it all"


async def test_a_denied_tool_is_a_warning_and_fails_a_task_without_an_explicit_success(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    settings = claude_workers.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"permissions": {"deny": ["Bash(rm:*)"]}}')
    await queues.task("[[bash: rm everything]]\n[[say: well]]")
    claude_workers.start()
    output = await queues.output()
    assert (output.status, output.reason) == ("failed", "PermissionDenied")
    assert output.warnings == ["permission denied: Bash"]
    assert output.verdict is not None
    assert output.verdict.summary == "well"


async def test_a_bound_worker_runs_its_entry_and_records_the_output(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task("[[say: not for us]] [[result]]")
    bound = await queues.bound_task("[[say: bound]] [[result]]")
    assert await claude_workers.start(**bound).exit_code() == 0
    (output,) = await queues.outputs()
    assert (output.status, output.verdict and output.verdict.summary) == ("success", "bound")
    assert await queues.redis.hget(RECORD, "output")
    entries = [entry for entry, _ in await queues.redis.xrange(BARE.developer_input)]
    assert bound["TASK_ENTRY_ID"] not in entries
    assert len(entries) == 1


async def test_a_cancelled_attempts_agent_is_ended_with_its_tools(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    bound = await queues.bound_task(HOLD)
    wrapper = claude_workers.start(**bound)
    await claude_workers.held()
    await queues.redis.xdel(BARE.developer_input, bound["TASK_ENTRY_ID"])
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code(seconds=20) == 0
    assert await queues.outputs() == []
    assert claude_workers.left_behind() == []


async def test_asked_to_leave_it_finishes_its_task(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task(f"{HOLD}\n[[say: finished]] [[result]]")
    wrapper = claude_workers.start()
    await claude_workers.held()
    wrapper.send(signal.SIGTERM)
    claude_workers.release()
    assert await wrapper.exit_code() == 0
    assert (await queues.output()).status == "success"
    assert await queues.story() == "started ready busy completed stopped"


async def test_at_the_end_of_its_grace_period_it_ends_the_agent_and_says_so(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    await queues.task(HOLD)
    wrapper = claude_workers.start(TERMINATION_GRACE_SECONDS="1")
    await claude_workers.held()
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code(seconds=20) == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("error", "Terminated")
    assert claude_workers.left_behind() == []
