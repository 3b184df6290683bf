"""A PO worker as a whole process: a conversation, its sessions, its order."""

import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.namespaced import NAMESPACES
from support.queues import Queues
from support.wrapper import FakeClaude, FakeTurn, WrapperProcess, Wrappers

from orbiter_contracts import SessionRecord
from orbiter_contracts.queues import BARE, PO_GROUP

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("namespace", NAMESPACES, indirect=True),
]

SESSION = "5e55104e-0000-4000-8000-000000000000"
STREAM = BARE.po_input("po-1")
RECORD = "session:user:7"


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture
def talkative(fake_claude: FakeClaude) -> FakeClaude:
    fake_claude.says("Hello there.")
    return fake_claude


def start(wrappers: Wrappers, **env: str) -> WrapperProcess:
    return wrappers.start("po-1", WORKER_TYPE="po", **env)


def session_of(turn: FakeTurn) -> tuple[str, str]:
    """The session flag of a turn and its value."""
    at = next(n for n, word in enumerate(turn.argv) if word in ("--session-id", "--resume"))
    return turn.argv[at], turn.argv[at + 1]


async def times_asked(redis: Redis) -> int:
    """How often a worker has asked whether it is held."""
    return int((await redis.info("commandstats"))["cmdstat_exists"]["calls"])


async def times_asked_is(redis: Redis, count: int) -> bool:
    return await times_asked(redis) >= count


async def write_record(queues: Queues, *, session_id: str, idle_minutes: float) -> None:
    moment = datetime.now(UTC) - timedelta(minutes=idle_minutes)
    record = SessionRecord(
        session_id=session_id, worker_id="front-end", created_at=moment, last_activity=moment
    )
    await queues.redis.set(RECORD, record.model_dump_json())


async def test_the_agents_text_is_the_answer(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await queues.message("hi", request_id="r-1")
    start(wrappers, SESSION_ID=SESSION)
    (answer,) = await queues.answers(1)
    assert (answer.request_id, answer.user_id, answer.text) == ("r-1", 7, "Hello there.")
    assert (answer.status, answer.is_final, answer.session_id) == ("success", True, SESSION)
    assert answer.duration_ms is not None
    assert answer.usage is not None
    assert [turn.prompt for turn in talkative.turns] == ["hi"]


async def test_the_first_turn_begins_the_session_and_later_ones_resume_it(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    start(wrappers, SESSION_ID=SESSION)
    for number in range(3):
        await queues.message(f"message {number}")
    await queues.answers(3)
    assert [session_of(turn) for turn in talkative.turns] == [
        ("--session-id", SESSION),
        ("--resume", SESSION),
        ("--resume", SESSION),
    ]
    assert [turn.prompt for turn in talkative.turns] == [f"message {n}" for n in range(3)]


async def test_a_held_worker_ends_its_turn_and_takes_no_other_message(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    talkative.does(f"until [ -e {gate} ]; do sleep 0.02; done; echo '{{}}'")
    start(wrappers, SESSION_ID=SESSION)
    await queues.message("one")
    await eventually(lambda: queues.redis.hget(BARE.po_state("po-1"), "request_id"))
    await queues.redis.hset(BARE.po_hold("po-1"), "reason", "Suspended")
    await queues.message("two")
    gate.touch()
    await queues.answers(1)
    before = await times_asked(queues.redis)
    await eventually(lambda: times_asked_is(queues.redis, before + 2))
    assert await queues.redis.xlen(BARE.po_output("po-1")) == 1
    await queues.redis.delete(BARE.po_hold("po-1"))
    await queues.answers(2)


async def test_a_restarted_worker_resumes_the_session(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    first = start(wrappers)
    await queues.message("one")
    await queues.answers(1)
    first.send(signal.SIGTERM)
    await first.exit_code()
    start(wrappers)
    await queues.message("two")
    one, two = await queues.answers(2)
    assert one.session_id == two.session_id
    assert [session_of(turn)[0] for turn in talkative.turns] == ["--session-id", "--resume"]


async def test_a_worker_on_another_machine_begins_the_kept_session_anew(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await write_record(queues, session_id=SESSION, idle_minutes=1)
    start(wrappers)
    await queues.message("hi")
    await queues.answers(1)
    assert [session_of(turn) for turn in talkative.turns] == [("--session-id", SESSION)]


async def test_a_front_ends_fresh_record_wins_over_the_environment(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await write_record(queues, session_id=SESSION, idle_minutes=1)
    start(wrappers, SESSION_ID="another-one")
    await queues.message("hi")
    assert (await queues.answers(1))[0].session_id == SESSION


async def test_a_front_ends_hash_keeps_its_type_and_its_own_fields(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await queues.redis.hset(RECORD, mapping={"chat_id": "-100", "session_id": SESSION})
    wrapper = start(wrappers)
    one, two = await queues.converse("one", "two")
    assert one.session_id == two.session_id
    wrapper.send(signal.SIGTERM)
    await wrapper.exit_code()
    record = await queues.redis.hgetall(RECORD)
    assert (record["chat_id"], record["session_id"]) == ("-100", one.session_id)
    assert record["worker_id"] == "po-1"


async def test_a_stale_record_does_not_win_over_a_new_workers_session_id(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await write_record(queues, session_id="stale", idle_minutes=31)
    start(wrappers, SESSION_ID=SESSION)
    assert [answer.session_id for answer in await queues.converse("one", "two")] == [SESSION] * 2


async def test_where_the_record_is_of_another_type_the_conversation_goes_on_all_the_same(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await queues.redis.lpush(RECORD, "not", "ours")
    start(wrappers, SESSION_ID=SESSION)
    answers = await queues.converse("one", "two")
    assert [answer.session_id for answer in answers] == [SESSION] * 2
    (renewed,) = (await queues.converse("/new@some_bot"))[2:]
    assert renewed.session_id != SESSION
    assert await queues.redis.lrange(RECORD, 0, -1) == ["ours", "not"]


async def test_thirty_idle_minutes_start_a_new_session(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await write_record(queues, session_id=SESSION, idle_minutes=31)
    start(wrappers)
    await queues.message("hi")
    (answer,) = await queues.answers(1)
    assert answer.session_id not in (None, SESSION)
    record = json.loads(await queues.redis.get(RECORD))
    assert (record["session_id"], record["worker_id"]) == (answer.session_id, "po-1")


async def test_a_message_may_ask_for_a_new_session_and_later_ones_stay_in_it(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    start(wrappers, SESSION_ID=SESSION)
    await queues.message("one")
    await queues.message("two", session_continue=False)
    await queues.message("three")
    one, two, three = await queues.answers(3)
    assert one.session_id == SESSION
    assert two.session_id not in (None, SESSION)
    assert three.session_id == two.session_id


async def test_slash_new_starts_a_new_session_without_asking_the_agent(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    start(wrappers, SESSION_ID=SESSION)
    await queues.message("/new")
    (answer,) = await queues.answers(1)
    assert answer.status == "success"
    assert answer.text
    assert answer.session_id not in (None, SESSION)
    assert talkative.turns == []
    await queues.told("ready", 2)
    assert await queues.story() == "started ready busy completed ready"


async def test_slash_new_with_text_says_the_text_in_the_new_session(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    start(wrappers, SESSION_ID=SESSION)
    await queues.message("/new what now?")
    (answer,) = await queues.answers(1)
    assert answer.text == "Hello there."
    assert [turn.prompt for turn in talkative.turns] == ["what now?"]
    assert session_of(talkative.turns[0]) == ("--session-id", answer.session_id)


async def test_another_command_of_the_agent_is_only_text(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    start(wrappers)
    await queues.message("/clear")
    await queues.answers(1)
    assert [turn.prompt for turn in talkative.turns] == [" /clear"]


async def test_the_lifecycle_tells_the_story_of_a_conversation(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.says("fine")
    wrapper = start(wrappers, SESSION_ID=SESSION)
    await queues.message("one", request_id="r-1")
    await queues.told("ready", 2)
    fake_claude.does("exit 3")
    await queues.message("two", request_id="r-2")
    await queues.told("ready", 3)
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code() == 0
    story = "started ready busy completed ready busy failed ready stopped"
    assert await queues.story() == story
    failed = (await queues.lifecycle())[6]
    assert failed.details == {"request_id": "r-2", "session_id": SESSION, "status": "error"}


async def test_messages_that_arrive_while_the_agent_runs_are_answered_in_order(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    talkative.hold()
    start(wrappers)
    await queues.message("m-0", request_id="r-0")
    await eventually(lambda: talkative.turns)
    for number in (1, 2, 3):
        await queues.message(f"m-{number}", request_id=f"r-{number}")
    talkative.release()
    answers = await queues.answers(4)
    assert [answer.request_id for answer in answers] == ["r-0", "r-1", "r-2", "r-3"]
    await eventually(lambda: queues.is_settled(STREAM, PO_GROUP))


async def test_messages_sent_before_the_first_start_are_not_missed(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await queues.message("early", request_id="r-1")
    start(wrappers)
    assert (await queues.answers(1))[0].request_id == "r-1"


async def test_an_agent_that_fails_is_answered_with_its_error(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.does("echo no more tokens >&2; exit 1")
    start(wrappers)
    await queues.message("hi")
    (answer,) = await queues.answers(1)
    assert (answer.status, answer.reason) == ("error", "AgentError")
    assert "no more tokens" in (answer.error or "")


async def test_a_malformed_message_is_put_aside_and_blocks_nobody(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await queues.redis.xadd(STREAM, {"data": '{"prompt": "no user"}'})
    await queues.message("good")
    start(wrappers)
    await queues.answers(1)
    (letter,) = await queues.dead_letters(STREAM)
    assert "user_id" in letter["reason"]
    assert await queues.redis.xlen(BARE.po_output("po-1")) == 1


async def test_a_message_without_a_user_belongs_to_the_workers_own(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await queues.redis.xadd(STREAM, {"data": '{"prompt": "hi", "request_id": "r-1"}'})
    start(wrappers, USER_ID="9")
    (answer,) = await queues.answers(1)
    assert (answer.user_id, answer.request_id) == (9, "r-1")


async def test_a_message_without_a_request_id_is_given_one(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await queues.redis.xadd(STREAM, {"data": '{"prompt": "hi", "user_id": 7}'})
    start(wrappers)
    assert (await queues.answers(1))[0].request_id


async def test_a_message_that_killed_two_workers_is_answered_and_blocks_nobody(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    talkative.hold()
    await queues.message("poison", request_id="r-1")
    await queues.message("good", request_id="r-2")
    for count in (1, 2):
        wrapper = start(wrappers)
        await eventually(lambda number=count: len(talkative.turns) == number)
        wrapper.send(signal.SIGKILL)
        await wrapper.exit_code()
    talkative.release()
    start(wrappers)
    poisoned, good = await queues.answers(2)
    assert (poisoned.request_id, poisoned.reason) == ("r-1", "WorkerCrashed")
    assert (good.request_id, good.status) == ("r-2", "success")
    (letter,) = await queues.dead_letters(STREAM)
    assert json.loads(letter["data"])["request_id"] == "r-1"
