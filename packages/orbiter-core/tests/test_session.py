"""Conversations that are kept: runs go on with them, and what a run adds is there or not, whole."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from orbiter import Agent, run, tool
from orbiter import session as sessions
from orbiter.errors import SessionError
from orbiter.hooks import Hook, HookPoint
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelError,
    ScriptedModel,
    call,
)
from orbiter.session import MemorySession, SqliteSession
from orbiter.types import AssistantMessage, OrbiterError, UserMessage

from .test_messages_stay_valid import check


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


AGENT = Agent(name="a", tools=[add])


@pytest.fixture(params=["memory", "sqlite"])
def session(request, tmp_path):
    if request.param == "memory":
        return MemorySession()
    return SqliteSession(tmp_path / "chats.db", "alice")


async def words(session):
    return [message.content for message in await session.load()]


async def test_the_next_run_goes_on_with_what_the_one_before_said(session):
    model = ScriptedModel("Hello.", "Ada.")
    await run(AGENT, "I am Ada.", provider=model, session=session)
    result = await run(AGENT, "Who am I?", provider=model, session=session)
    assert [m.content for m in model.requests[1].messages] == ["I am Ada.", "Hello.", "Who am I?"]
    assert [m.content for m in result.messages] == await words(session)


async def test_a_stream_and_a_run_by_run_sync_are_kept_as_well(session):
    async for _ in run.stream(AGENT, "1", provider=ScriptedModel("one"), session=session):
        pass
    await asyncio.to_thread(run.sync, AGENT, "2", provider=ScriptedModel("two"), session=session)
    assert await words(session) == ["1", "one", "2", "two"]


async def test_a_run_that_failed_leaves_its_complete_steps_and_can_go_on(session):
    model = ScriptedModel(call("add", a=1, b=2), ModelError("overloaded"), "3")
    with pytest.raises(ModelError) as caught:
        await run(AGENT, "1 + 2", provider=model, session=session)
    assert await words(session) == ["1 + 2", "", "3"]
    assert [m.role for m in caught.value.messages] == ["user", "assistant", "tool"]
    assert 'run(agent, "", session=...) goes on' in caught.value.__notes__[0]
    result = await run(AGENT, "", provider=model, session=session)
    assert result.output == "3"
    check(await session.load(), system=False)


async def test_a_run_that_failed_before_a_complete_step_leaves_nothing(session):
    with pytest.raises(ModelError):
        await run(AGENT, "Hi", provider=ScriptedModel(ModelError("no")), session=session)
    await run(AGENT, "Hi", provider=ScriptedModel("Hello."), session=session)
    assert await words(session) == ["Hi", "Hello."]


async def test_what_broke_off_in_a_stream_is_no_part_of_the_conversation(session):
    stream = run.stream(AGENT, "go", provider=ScriptedModel("a b c"), session=session)
    async with stream:
        async for event in stream:
            if event.type == "text":
                break
    assert await words(session) == []


async def test_a_run_that_was_cancelled_leaves_its_complete_steps(session):
    model = ScriptedModel(call("add", a=1, b=2), "3")
    async with run.stream(AGENT, "go", provider=model, session=session) as stream:
        async for event in stream:
            if event.type == "step" and event.step == 2:
                break
    assert await words(session) == ["go", "", "3"]


async def test_two_runs_at_once_lose_and_mix_nothing(session):
    both = asyncio.Barrier(2)

    class Meeting(ScriptedModel):
        async def complete(self, messages, **options):
            if len(self.requests) == 0:
                await both.wait()
            return await super().complete(messages, **options)

    await run(AGENT, "0", provider=ScriptedModel("zero"), session=session)
    models = [Meeting(call("add", a=n, b=n), f"{n} done") for n in (1, 2)]
    await asyncio.gather(
        *(run(AGENT, str(n), provider=m, session=session) for n, m in enumerate(models, 1))
    )
    said = await words(session)
    one, two = ["1", "", "2", "1 done"], ["2", "", "4", "2 done"]
    assert said in (["0", "zero", *one, *two], ["0", "zero", *two, *one])
    # each has seen what was there when it began
    for model in models:
        assert [m.content for m in model.requests[0].messages][:2] == ["0", "zero"]
        assert len(model.requests[0].messages) == 3


async def test_conversations_of_one_file_are_apart_and_can_be_forgotten(tmp_path):
    alice, bob = (SqliteSession(tmp_path / "chats.db", name) for name in ("alice", "bob"))
    for session in (alice, bob):
        await run(AGENT, session.name, provider=ScriptedModel("hi"), session=session)
    await alice.clear()
    assert (await words(alice), await words(bob)) == ([], ["bob", "hi"])


async def test_what_was_saved_for_a_run_is_replaced_in_its_place(session):
    await session.save("1", [UserMessage(content="a")])
    await session.save("2", [UserMessage(content="b")])
    await session.save("1", [UserMessage(content="A"), AssistantMessage(content="x")])
    assert await words(session) == ["A", "x", "b"]


async def test_a_result_that_could_not_be_kept_is_in_the_error(tmp_path):
    session = SqliteSession(tmp_path / "chats.db", "alice")

    def lose(event):
        (tmp_path / "chats.db").write_bytes(b"no database" * 100)

    agent = Agent(name="a", hooks=[Hook(HookPoint.FINISHED, lose)])
    with pytest.raises(SessionError, match=r"chats\.db") as caught:
        await run(agent, "go", provider=ScriptedModel("done"), session=session)
    assert caught.value.messages[-1] == AssistantMessage(content="done")
    assert caught.value.steps == 1


async def test_an_error_stays_the_same_when_its_steps_cannot_be_kept():
    class Broken(MemorySession):
        async def save(self, run_id, messages):
            raise SessionError("the disk is full")

    model = ScriptedModel(call("add", a=1, b=2), ModelError("overloaded"))
    with pytest.raises(ModelError) as caught:
        await run(AGENT, "go", provider=model, session=Broken())
    assert "Its session kept nothing of it: the disk is full" in caught.value.__notes__


@pytest.mark.parametrize("found", ["{}", "no JSON", '{"version": 2, "messages": []}', 7])
async def test_what_is_no_conversation_is_refused_with_the_sessions_name(tmp_path, found):
    session = SqliteSession(tmp_path / "chats.db", "alice")
    await session.save("1", [])
    with closing(sqlite3.connect(session.path)) as db, db:
        db.execute("UPDATE session_runs SET messages = ?", (found,))
    with pytest.raises(SessionError, match="session 'alice' cannot be read"):
        await run(AGENT, "go", provider=ScriptedModel("x"), session=session)


async def test_a_conversation_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    session = SqliteSession(tmp_path / "chats.db", "alice")
    await session.save("1", [UserMessage(content="x" * 200)])
    monkeypatch.setattr(sessions, "LARGEST_SESSION", 100)
    with pytest.raises(SessionError, match="at most 100 are read"):
        await session.load()


async def test_a_message_that_json_cannot_say_is_refused_with_the_sessions_name(tmp_path):
    session = SqliteSession(tmp_path / "chats.db", "alice")
    with pytest.raises(SessionError, match="session 'alice' cannot keep a message"):
        await session.save("1", [UserMessage(content="\ud800")])


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, 7])
def test_a_name_is_one_line(tmp_path, name):
    with pytest.raises(OrbiterError, match=r"SqliteSession\(path, name\) got"):
        SqliteSession(tmp_path / "chats.db", name)


async def test_a_session_and_messages_are_one_too_many():
    with pytest.raises(OrbiterError, match="give one of the two"):
        await run(AGENT, "go", session=MemorySession(), messages=[UserMessage(content="x")])
    with pytest.raises(OrbiterError, match=r"run\(session=...\) got 'alice'"):
        await run(AGENT, "go", session="alice")
