"""A task that asked something goes on in another Job, with an agent that remembers."""

import shutil

import pytest
from redis.asyncio import Redis
from support.namespaced import NAMESPACES
from support.queues import RECORD, UID, Queues
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts.queues import BARE

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("namespace", NAMESPACES, indirect=True),
]

KEY = BARE.task_snapshot(UID)
SESSION = "5e55104e-0000-4000-8000-000000000000"
ASKS = r"<result>{\"status\": \"input_required\", \"question\": \"which?\"}</result>"


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


async def attempt(
    wrappers: Wrappers, queues: Queues, prompt: str, number: int, **env: str
) -> WrapperProcess:
    """Run one Job on a disk of its own, to its end."""
    if wrappers.home.exists():
        shutil.rmtree(wrappers.home)
    await queues.redis.delete(RECORD)
    bound = await queues.bound_task(prompt)
    wrapper = wrappers.start(f"job-{number}", SNAPSHOT_KEY=KEY, SESSION_ID=SESSION, **bound, **env)
    assert await wrapper.exit_code() == 0
    return wrapper


async def test_the_answer_reaches_an_agent_that_remembers_its_question(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(block=ASKS)
    await attempt(wrappers, queues, "paint it", 1)
    asked = await queues.output()
    assert (asked.status, asked.warnings) == ("input_required", [])
    fake_claude.remembers(block="<result>{}</result>")
    await attempt(wrappers, queues, "blue", 2)
    done = await queues.output(2)
    assert done.status == "success"
    assert done.usage is not None
    assert done.usage.input_tokens == 10
    assert "--resume" in fake_claude.turns[1].argv
    (said,) = wrappers.home.rglob(f"{SESSION}.jsonl")
    assert said.read_text() == "paint it\nblue\n"


async def test_a_task_that_asks_nothing_stores_nothing(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(block="<result>{}</result>")
    await attempt(wrappers, queues, "paint it", 1)
    assert (await queues.output()).status == "success"
    assert not await queues.redis.exists(KEY)


async def test_what_is_stored_lives_no_longer_than_the_attempts_record(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(block=ASKS)
    await attempt(wrappers, queues, "paint it", 1)
    assert 0 < await queues.redis.ttl(KEY) <= await queues.redis.ttl(RECORD) + 1


async def test_a_memory_that_is_too_large_is_said(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(
        block=ASKS, then='od -An -N40000 -x /dev/urandom >"$(dirname "$file")/noise"'
    )
    await attempt(wrappers, queues, "paint it", 1, SNAPSHOT_MAX_BYTES="20000")
    asked = await queues.output()
    assert asked.status == "input_required"
    assert "larger than 20000 bytes" in asked.warnings[0]
    assert not await queues.redis.exists(KEY)


async def test_a_question_that_nobody_may_hear_any_more_is_not_stored(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(block=ASKS)
    fake_claude.hold()
    bound = await queues.bound_task("paint it")
    wrapper = wrappers.start("job-1", SNAPSHOT_KEY=KEY, SESSION_ID=SESSION, **bound)
    await queues.told("busy")
    await queues.redis.hset(RECORD, "output", "1-1")  # the operator has published for it
    fake_claude.release()
    assert await wrapper.exit_code() == 0
    assert not await queues.redis.exists(KEY)
