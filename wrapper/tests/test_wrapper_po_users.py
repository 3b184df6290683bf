"""Whose message it is: the user it names, whose record that is, and in a namespace nobody else."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis
from support.queues import Queues
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts import SessionRecord
from orbiter_contracts.queues import BARE

pytestmark = pytest.mark.integration

SESSION = "5e55104e-0000-4000-8000-000000000000"
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


async def write_record(queues: Queues, *, session_id: str, idle_minutes: float) -> None:
    moment = datetime.now(UTC) - timedelta(minutes=idle_minutes)
    record = SessionRecord(
        session_id=session_id, worker_id="front-end", created_at=moment, last_activity=moment
    )
    await queues.redis.set(RECORD, record.model_dump_json())


async def test_the_user_of_a_message_wins_over_the_workers_own(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude
) -> None:
    await queues.message("hi", user_id=7)
    start(wrappers, USER_ID="9")
    assert (await queues.answers(1))[0].user_id == 7


async def test_users_of_another_namespace_have_records_of_their_own(
    queues: Queues, wrappers: Wrappers, talkative: FakeClaude
) -> None:
    await write_record(queues, session_id=SESSION, idle_minutes=1)
    start(wrappers, SESSION_RECORD_PREFIX="session:user:team-b:")
    [answer] = await queues.converse("hello")
    assert answer.session_id != SESSION
    theirs = json.loads(await queues.redis.get("session:user:team-b:7"))
    assert theirs["session_id"] == answer.session_id
    assert json.loads(await queues.redis.get(RECORD))["session_id"] == SESSION


@pytest.mark.parametrize(
    ("namespace", "env"), [("team-a", {}), ("", {"SESSION_USERS": "Own"})], indirect=["namespace"]
)
async def test_a_session_that_has_one_user_answers_nobody_else(
    wrappers: Wrappers, queues: Queues, talkative: FakeClaude, env: dict[str, str]
) -> None:
    start(wrappers, USER_ID="7", **env)
    await queues.message("mine", user_id=9, request_id="r-1")
    await queues.message("hi", user_id=7, request_id="r-2")
    refused, answer = await queues.answers(2)
    assert (refused.request_id, refused.user_id, refused.reason) == ("r-1", 9, "InvalidMessage")
    assert "this session is that of user 7" in (refused.error or "")
    assert (answer.request_id, answer.status) == ("r-2", "success")
    (letter,) = await queues.dead_letters(BARE.po_input("po-1"))
    assert "user_id: 9" in letter["reason"]
    assert [turn.prompt for turn in talkative.turns] == ["hi"]
