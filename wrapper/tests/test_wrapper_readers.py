"""Whatever stands in Redis, in the agent's home or on a socket: the wrapper reads it or nothing."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from support.redis_server import RedisServer
from support.strange_values import MOMENTS, TEXTS, VALUES, WRITTEN, objects, with_fields, written

from orbiter_contracts import (
    InvalidMessageError,
    POTurn,
    SessionRecord,
    Usage,
    WorkspaceReport,
    decode_json,
)
from orbiter_contracts.messages import Message
from orbiter_contracts.queues import BARE
from worker_wrapper.agents import known_agents, load_agent
from worker_wrapper.handlers.po_cut import CutTurn
from worker_wrapper.queue.connection import RedisConnection
from worker_wrapper.queue.session_state import continues, read_turns
from worker_wrapper.session.conversations import FILE, Conversations
from worker_wrapper.session.record import SessionTable
from worker_wrapper.session.rotation import choose
from worker_wrapper.workspace.contents import Repository
from worker_wrapper.workspace.handover import (
    FetchReply,
    FetchRequest,
    PushReply,
    PushRequest,
)

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
KEY = "session:user:7"
RECORD = list(SessionRecord.model_fields)
LINES: list[type[Message]] = [
    *(CutTurn, FetchReply, FetchRequest, PushReply, PushRequest, Repository, WorkspaceReport)
]
IN_REDIS = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def surrogates(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@pytest.mark.integration
@IN_REDIS
@given(
    st.binary(max_size=60)
    | objects(RECORD)
    | with_fields(RECORD).map(written).map(surrogates)
    | st.dictionaries(
        st.sampled_from([*RECORD, "chat_id"]),
        st.binary(max_size=40) | (TEXTS | MOMENTS).map(surrogates),
        min_size=1,
    )
)
async def test_a_users_record_of_any_contents_is_read_and_a_session_is_chosen(
    redis: Redis, redis_server: RedisServer, connection: RedisConnection, found: Any
) -> None:
    await redis.delete(KEY)
    if isinstance(found, dict):
        await redis.hset(KEY, mapping=found)
    else:
        await redis.set(KEY, found)
    table = SessionTable(connection, clock=lambda: NOW, records=BARE.session_records())
    read = await table.read(7)
    choice = choose(
        read.record,
        asked=None,
        now=NOW,
        idle_seconds=1800,
        worker_id="us",
        previous=None,
        first_id=None,
        new_id="new",
    )
    assert choice.record.session_id
    await table.touch(7, choice.record.session_id)
    if read.ours:
        assert read.rewritten(choice.record)


@given(
    st.binary(max_size=60)
    | with_fields(["sessions", "unfinished"]).map(written).map(surrogates)
    | st.lists(with_fields(["agent", "id", "resumed", "totals", "context_tokens"]), max_size=3).map(
        lambda known: surrogates(written({"sessions": known}))
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_remembered_of_conversations_is_read_or_nothing(
    tmp_path: Path, text: bytes
) -> None:
    file = tmp_path / FILE
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text)
    kept = Conversations(tmp_path, "claude")
    kept.keep(kept.session("s-1"))
    assert Conversations(tmp_path, "claude").latest()


TURNS = with_fields(list(POTurn.model_fields)).map(written) | WRITTEN | TEXTS
GOOD = POTurn(
    request_id="good", user_id=7, session_id="s", at=NOW, prompt="a", text="b", status="success"
)


@given(st.lists(TURNS | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape"))))
def test_of_the_kept_turns_the_good_ones_are_read(texts: list[str]) -> None:
    turns = read_turns([*texts, GOOD.model_dump_json(), *texts])
    assert GOOD in turns


@given(with_fields(["reason", "from", "to", "at"]).map(written) | TEXTS)
def test_a_rotation_of_any_words_names_a_session_or_none(text: str) -> None:
    before = continues(text, "s-1")
    assert before is None or isinstance(before, str)


@pytest.mark.parametrize("kind", LINES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_a_line_of_another_container_or_pod_is_read_or_refused_in_one_line(
    kind: type[Message], data: st.DataObject
) -> None:
    raw = data.draw(st.binary(max_size=100) | objects(list(kind.model_fields)) | TEXTS)
    refused = ""
    try:
        # A text may have any character that stays in its line, one that is unassigned, too.
        assert "\n" not in decode_json(kind, raw).model_dump_json()
    except InvalidMessageError as error:
        refused = str(error)
    assert refused.isprintable()


COUNTS = with_fields(
    ["inputTokens", "outputTokens", "input_tokens", "cached_input_tokens", "output_tokens"]
)
CONVERSATION = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("cost-state"), "modelUsage": COUNTS | st.dictionaries(TEXTS, COUNTS)},
        optional={"totalCostUSD": VALUES},
    ),
    COUNTS.map(lambda counts: {"payload": {"info": {"total_token_usage": counts}}}),
)


@given(st.sampled_from(known_agents()), st.lists(CONVERSATION.map(written), max_size=3))
def test_a_conversations_figures_of_any_value_are_a_cost_or_none(
    agent: str, lines: list[str]
) -> None:
    said = "\n".join(lines).encode("utf-8", "surrogatepass")
    assert isinstance(load_agent(agent).recorded(said), Usage | None)
