"""Conversations of the real Claude Code CLI that outlive its disk, rotate and are streamed."""

import shutil
import signal

import pytest
from redis.asyncio import Redis
from support.queues import Queues
from support.real_agents import RealWorkers

from orbiter_contracts.queues import BARE

pytestmark = pytest.mark.integration

KEY = BARE.po_snapshot("po-1")
REMEMBER, RECALL = "[[remember: the word is blue]]", "[[recall]]"
REMEMBERS = "I remember: the word is blue"


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


async def move(workers: RealWorkers, number: signal.Signals = signal.SIGTERM) -> None:
    """End the worker and lose its disk: the next one starts on another node."""
    wrapper = workers.started[-1]
    wrapper.send(number)
    await wrapper.exit_code()
    shutil.rmtree(workers.home)
    workers.home.mkdir()


async def test_turn_three_remembers_turn_one_although_the_disk_was_lost_twice(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    for prompt in (REMEMBER, "[[bash: echo hi]] [[say: {output}]]", RECALL):
        claude_workers.start_po(SNAPSHOT_KEY=KEY)
        answers = await queues.converse(prompt)
        await move(claude_workers)
    assert [answer.status for answer in answers] == ["success"] * 3
    assert answers[2].text == REMEMBERS
    assert len({answer.session_id for answer in answers}) == 1
    costs = [answer.usage.cost_usd for answer in answers if answer.usage]
    assert all(costs)
    state = await queues.state()
    assert (state.state, state.turns) == ("stopped", 3)
    assert state.cost_usd == pytest.approx(sum(cost or 0 for cost in costs))


async def test_a_turn_that_was_cut_off_is_not_remembered_twice(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    once = f"{REMEMBER}\n[[bash: [ -e died ] || {{ touch died; kill -9 $(ps -o ppid= $PPID); }}]]"
    await queues.message(once)
    await claude_workers.start_po(SNAPSHOT_KEY=KEY).exit_code()
    claude_workers.start_po(SNAPSHOT_KEY=KEY)
    await queues.answers(1)
    assert (await queues.converse(RECALL))[1].text == REMEMBERS


async def test_a_conversation_too_large_is_told_in_a_new_session(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    claude_workers.start_po(SESSION_MAX_TOKENS="50000")
    answers = await queues.converse(
        f"[[usage: 20000 in, 10 out]] {REMEMBER}", "[[usage: 60000 in, 10 out]]", RECALL, RECALL
    )
    first, second, third, fourth = answers
    assert first.session_id == second.session_id != third.session_id == fourth.session_id
    assert third.text == fourth.text == REMEMBERS
    rotation = (await queues.state()).rotation
    assert rotation is not None
    assert rotation.reason == "Tokens"


async def test_the_size_of_a_conversation_is_what_was_last_sent_not_all_of_it_together(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    claude_workers.start_po()
    step = "[[bash: true]]"
    await queues.converse(f"[[usage: 30000 in, 10 out]] {step}\n{step}\n{step}\n[[say: done]]")
    assert 30_000 <= ((await queues.state()).context_tokens or 0) < 31_000


async def test_an_answer_is_streamed_while_it_is_given(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    claude_workers.start_po(STREAMING="Enabled")
    await queues.message(
        "[[stream: 20 chunks over 2s]] [[say: Let me have a look at it first.]]\n"
        "[[bash: echo hi]]\n"
        "[[stream: 40 chunks over 2s]] [[say: All is well, and this is the answer.]] [[result]]"
    )
    (final,) = await queues.finals(1)
    *pieces, last = await queues.answers(1)
    assert last == final
    assert [piece.sequence for piece in [*pieces, final]] == list(range(len(pieces) + 1))
    assert len(pieces) > 4
    parts = ["".join(p.text for p in pieces if p.part == part) for part in (0, 1)]
    assert parts == ["Let me have a look at it first.", f"\n\n{final.text}"]
    assert final.text == "All is well, and this is the answer."
    assert pieces[0].timestamp < pieces[-1].timestamp < final.timestamp
    times = [answer.timestamp.timestamp() for answer in [*pieces, final]]
    assert max(sum(begin <= time < begin + 1 for time in times) for begin in times) <= 10


async def test_a_tool_that_would_wait_for_something_cannot_hold_the_answer_back(
    claude_workers: RealWorkers, queues: Queues
) -> None:
    claude_workers.start_po()
    watch = '[[tool: Monitor {"command": "sleep 600", "description": "d", "timeout_ms": 600000}]]'
    wake = '[[tool: ScheduleWakeup {"delaySeconds": 600, "reason": "r", "prompt": "p"}]]'
    (answer,) = await queues.converse(f"{watch}\n{wake}\n[[say: answered]]")
    assert (answer.status, answer.text) == ("success", "answered")
