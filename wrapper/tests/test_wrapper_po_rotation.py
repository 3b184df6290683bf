"""Every reason for a new session, what is told there, and where it is written down."""

import json
import signal
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis
from support.queues import Queues
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

pytestmark = pytest.mark.integration

RECORD = "session:user:7"


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture
def mindful(fake_claude: FakeClaude) -> FakeClaude:
    fake_claude.remembers()
    return fake_claude


def start(wrappers: Wrappers, **env: str) -> WrapperProcess:
    return wrappers.start("po-1", WORKER_TYPE="po", **env)


async def rotated(queues: Queues, reason: str, *, count: int = 1) -> None:
    """The last two turns are of two sessions, and everybody can know why."""
    *_, before, after = await queues.turns()
    assert before.session_id != after.session_id
    state = await queues.state()
    assert (state.rotations, state.session_id) == (count, after.session_id)
    assert state.rotation is not None
    assert state.rotation.reason == reason
    assert state.rotation.from_session == before.session_id
    assert state.rotation.to == after.session_id
    told = [e.details["rotation"] for e in await queues.lifecycle() if "rotation" in e.details]
    assert told[-1] == reason


async def leave_idle(queues: Queues, *, minutes: float) -> None:
    record = json.loads(await queues.redis.get(RECORD))
    moment = datetime.now(UTC) - timedelta(minutes=minutes)
    await queues.redis.set(RECORD, json.dumps(record | {"last_activity": moment.isoformat()}))


async def test_a_command(wrappers: Wrappers, queues: Queues, mindful: FakeClaude) -> None:
    start(wrappers, SESSION_COMMANDS="/new,/reset")
    answers = await queues.converse("one", "/reset two")
    assert answers[1].text == "two|"
    await rotated(queues, "Command")


async def test_a_command_alone_is_no_turn_but_a_rotation(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    start(wrappers)
    answers = await queues.converse("one", "/new", "two")
    assert answers[2].text == "two|"
    assert (await queues.state()).turns == 2
    await rotated(queues, "Command")


async def test_a_message_that_asks_for_it(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    start(wrappers)
    await queues.converse("one")
    await queues.message("two", session_continue=False)
    assert (await queues.answers(2))[1].text == "two|"
    await rotated(queues, "Requested")


async def test_idle_time(wrappers: Wrappers, queues: Queues, mindful: FakeClaude) -> None:
    start(wrappers, SESSION_IDLE_SECONDS="60")
    await queues.converse("one")
    await queues.told("ready", 2)
    await leave_idle(queues, minutes=2)
    assert (await queues.converse("two"))[1].text == "two|"
    await rotated(queues, "Idle")


async def test_a_record_that_expired_over_night(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    wrapper = start(wrappers, SESSION_ID="5e55104e-0000-4000-8000-000000000000")
    await queues.converse("one")
    wrapper.send(signal.SIGTERM)
    await wrapper.exit_code()
    await queues.redis.delete(RECORD)
    start(wrappers, SESSION_ID="5e55104e-0000-4000-8000-000000000000")
    assert (await queues.converse("two"))[1].text == "two|"
    await rotated(queues, "Idle")


async def test_a_front_end_that_names_another_session(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    start(wrappers)
    await queues.converse("one")
    await queues.told("ready", 2)
    record = json.loads(await queues.redis.get(RECORD))
    await queues.redis.set(RECORD, json.dumps(record | {"session_id": "theirs"}))
    (_, answer) = await queues.converse("two")
    assert (answer.text, answer.session_id) == ("two|", "theirs")
    await rotated(queues, "Record")


async def test_a_conversation_that_grew_too_large_goes_on_with_what_was_said(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(tokens=900)
    start(wrappers, SESSION_MAX_TOKENS="1000")
    await queues.converse("My name is Ada.")
    assert (await queues.state()).context_tokens == 905
    fake_claude.remembers(tokens=1100)
    await queues.converse("I like the colour blue.")
    assert (await queues.state()).rotations == 0
    await queues.converse("Which colour do I like?", "Thanks.")
    _, second, third, fourth = fake_claude.turns
    assert "--resume" in second.argv
    assert third.prompt.startswith("<earlier_conversation>")
    assert "User: My name is Ada." in third.prompt
    assert "User: I like the colour blue." in third.prompt
    assert third.prompt.endswith("</earlier_conversation>\n\nWhich colour do I like?")
    turns = await queues.turns()
    assert [turn.prompt for turn in turns][2:] == ["Which colour do I like?", "Thanks."]
    assert {turn.thread for turn in turns} == {turns[0].session_id}
    # It is too large again, and tells what was said before the first rotation too.
    assert "My name is Ada." in fourth.prompt
    await rotated(queues, "Tokens", count=2)


async def test_a_recap_is_told_until_a_turn_succeeds(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(tokens=1100)
    start(wrappers, SESSION_MAX_TOKENS="1000")
    await queues.converse("My name is Ada.")
    fake_claude.does("exit 3")
    await queues.converse("Who am I?")
    fake_claude.remembers()
    await queues.converse("And now?", "Thanks.")
    assert "My name is Ada." in fake_claude.turns[-2].prompt
    assert fake_claude.turns[-1].prompt == "Thanks."
    assert (await queues.state()).rotations == 1


async def test_another_topic(wrappers: Wrappers, queues: Queues, mindful: FakeClaude) -> None:
    start(wrappers, SESSION_TOPIC_SIMILARITY="0.05")
    answers = await queues.converse(
        "Please fix the login page of our shop",
        "Does the login page work now?",
        "yes",
        "Recommend a recipe for vegetarian lasagna",
    )
    assert len({answer.session_id for answer in answers[:3]}) == 1
    assert answers[3].text == "Recommend a recipe for vegetarian lasagna|"
    await rotated(queues, "Topic")


async def test_topics_do_not_matter_unless_asked_for(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    start(wrappers)
    answers = await queues.converse("Please fix the login page", "A recipe for vegetarian lasagna")
    assert answers[0].session_id == answers[1].session_id
    assert (await queues.state()).rotation is None


async def test_two_users_of_one_worker_have_a_session_each(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    start(wrappers, SESSION_ID="5e55104e-0000-4000-8000-000000000000")
    for user in (7, 8, 7, 8):
        await queues.message(f"user{user}", user_id=user)
    answers = await queues.answers(4)
    assert [answer.text for answer in answers[2:]] == ["user7|user7|", "user8|user8|"]
    assert (await queues.state()).rotations == 0


async def test_secrets_are_not_kept_with_the_turns(
    wrappers: Wrappers, queues: Queues, mindful: FakeClaude
) -> None:
    start(wrappers)
    await queues.converse("the key is sk-ant-not-a-real-key")
    (turn,) = await queues.turns()
    assert turn.prompt == "the key is [redacted]"
    assert turn.text == "the key is [redacted]|"
