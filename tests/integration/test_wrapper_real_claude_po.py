"""A PO worker as a whole process with the real Claude Code CLI: a conversation and its sessions."""

import json
import shutil
import signal
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis
from support.queues import Queues
from support.real_agents import HOLD, SESSION_FLAG, RealWorkers

pytestmark = pytest.mark.integration

SESSION = "5e55104e-0000-4000-8000-000000000000"
RECORD = "session:user:7"
REMEMBER, RECALL = "[[remember: the word is blue]]", "[[recall]]"
REMEMBERS, REMEMBERS_NOTHING = "I remember: the word is blue", "I remember nothing."


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


async def leave_idle(queues: Queues, *, minutes: float) -> None:
    """Let the record look as if nobody had said anything for so long, as a front end may write."""
    answered = await queues.story()
    await queues.told("ready", answered.split().count("busy") + 1)
    record = json.loads(await queues.redis.get(RECORD))
    moment = datetime.now(UTC) - timedelta(minutes=minutes)
    await queues.redis.set(RECORD, json.dumps(record | {"last_activity": moment.isoformat()}))


async def test_a_conversation_is_begun_once_and_then_resumed_so_that_it_remembers(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    claude_workers.start_po(SESSION_ID=SESSION)
    answers = await queues.converse(
        f"{REMEMBER} {SESSION_FLAG}", SESSION_FLAG, f"{RECALL} {SESSION_FLAG}"
    )
    assert {answer.status for answer in answers} == {"success"}
    assert {answer.session_id for answer in answers} == {SESSION}
    assert f"--session-id\n{SESSION}" in answers[0].text
    assert f"--resume\n{SESSION}" in answers[1].text
    assert f"--resume\n{SESSION}" in answers[2].text
    assert REMEMBERS in (await queues.converse(RECALL))[-1].text


async def test_a_turn_is_charged_what_it_cost_itself(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    first = claude_workers.start_po(SESSION_MAX_TOKENS="1000000")
    await queues.converse(*["[[usage: 100000 in, 1000 out]] [[say: dear]]"] * 2)
    first.send(signal.SIGTERM)
    await first.exit_code()
    claude_workers.start_po(SESSION_MAX_TOKENS="1000000")
    answers = await queues.converse("[[usage: 100000 in, 1000 out]] [[say: dear]]")
    costs = [answer.usage.cost_usd for answer in answers if answer.usage and answer.usage.cost_usd]
    assert len(costs) == 3
    assert costs == pytest.approx([costs[0]] * 3)
    tokens = [(a.usage.input_tokens, a.usage.output_tokens) for a in answers if a.usage]
    assert tokens == [(100_000, 1000)] * 3


async def test_slash_new_forgets(claude_workers: RealWorkers, queues: Queues) -> None:
    claude_workers.start_po(SESSION_ID=SESSION)
    answers = await queues.converse(REMEMBER, "/new", RECALL, f"/new {RECALL}")
    assert [answer.status for answer in answers] == ["success"] * 4
    assert answers[2].text == REMEMBERS_NOTHING
    assert answers[3].text == REMEMBERS_NOTHING
    assert answers[0].session_id == SESSION
    assert answers[1].session_id == answers[2].session_id
    assert len({answer.session_id for answer in answers}) == 3


async def test_a_message_that_does_not_continue_the_session_forgets(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    claude_workers.start_po()
    await queues.message(REMEMBER)
    await queues.message(RECALL + " [[remember: green]]", session_continue=False)
    await queues.message(RECALL)
    answers = await queues.answers(3)
    assert answers[1].text.startswith(REMEMBERS_NOTHING)
    assert answers[2].text == "I remember: green"
    assert answers[1].session_id == answers[2].session_id != answers[0].session_id


async def test_more_than_thirty_idle_minutes_forget(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    claude_workers.start_po()
    await queues.converse(REMEMBER)
    await leave_idle(queues, minutes=29)
    await queues.converse(RECALL)
    await leave_idle(queues, minutes=31)
    answers = await queues.converse(RECALL)
    assert [answer.text for answer in answers[1:]] == [REMEMBERS, REMEMBERS_NOTHING]
    assert answers[0].session_id == answers[1].session_id != answers[2].session_id


async def test_a_restarted_worker_remembers(claude_workers: RealWorkers, queues: Queues) -> None:
    first = claude_workers.start_po()
    await queues.converse(REMEMBER)
    first.send(signal.SIGTERM)
    assert await first.exit_code() == 0
    claude_workers.start_po(SESSION_ID="another-one")
    answers = await queues.converse(RECALL)
    assert answers[1].text == REMEMBERS
    assert answers[1].session_id == answers[0].session_id


async def test_a_worker_that_only_has_the_agents_files_still_remembers(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    first = claude_workers.start_po()
    await queues.converse(REMEMBER)
    first.send(signal.SIGKILL)
    await first.exit_code()
    shutil.rmtree(claude_workers.home / ".worker-wrapper")
    claude_workers.start_po()
    assert (await queues.converse(RECALL))[-1].text == REMEMBERS


async def test_a_worker_that_lost_the_agents_files_begins_the_session_anew(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    claude_workers.start_po(SESSION_ID=SESSION)
    await queues.converse(REMEMBER)
    shutil.rmtree(claude_workers.home / ".claude")
    answers = await queues.converse(f"{RECALL} {SESSION_FLAG}", RECALL)
    assert [answer.status for answer in answers] == ["success"] * 3
    assert f"--session-id\n{SESSION}" in answers[1].text
    assert answers[2].text == REMEMBERS_NOTHING


async def test_a_message_is_only_text_whatever_it_starts_with(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    claude_workers.start_po()
    starts = ("/clear", "-p", "@work")
    prompts = [f"{start}\n[[say: heard]]" for start in starts]
    answers = await queues.converse(REMEMBER, *prompts, RECALL)
    assert [answer.text for answer in answers[1:-1]] == ["heard"] * len(starts)
    assert answers[-1].text == REMEMBERS


async def test_a_turn_that_timed_out_does_not_end_the_conversation(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    claude_workers.start_po()
    await queues.converse(REMEMBER)
    await queues.message(HOLD, timeout=2)
    await queues.message(RECALL)
    answers = await queues.answers(3)
    assert [answer.status for answer in answers] == ["success", "timeout", "success"]
    assert answers[2].text == REMEMBERS
    assert claude_workers.left_behind() == []


async def test_asked_to_leave_it_answers_the_message_it_has(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    wrapper = claude_workers.start_po()
    await queues.message(f"{HOLD}\n[[say: finished]]")
    await claude_workers.held()
    wrapper.send(signal.SIGTERM)
    claude_workers.release()
    assert await wrapper.exit_code() == 0
    (answer,) = await queues.answers(1)
    assert (answer.status, answer.text) == ("success", "finished")
    assert await queues.story() == "started ready busy completed ready stopped"
