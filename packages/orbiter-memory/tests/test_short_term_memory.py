import random
import subprocess
import sys
from collections.abc import Callable

from orbiter.memory import InMemoryStorage, LongTermMemory, MemoryStorage, ShortTermMemory
from orbiter.types import AssistantMessage, Message, ToolCall, ToolResult, UserMessage


def turn(question: str, answer: str) -> list[Message]:
    return [UserMessage(content=question), AssistantMessage(content=answer)]


async def test_the_next_run_recalls_what_was_said() -> None:
    memory = ShortTermMemory()
    assert await memory.recall("hello", agent_name="a") is None
    await memory.remember(turn("My name is Ada", "Hello Ada"), agent_name="a")
    assert await memory.recall("What is my name?", agent_name="a") == (
        "Earlier in this conversation:\nuser: My name is Ada\nassistant: Hello Ada"
    )


async def test_only_what_was_said_is_kept_not_the_tools_noise() -> None:
    memory = ShortTermMemory()
    call = ToolCall(id="1", name="search", arguments="{}")
    await memory.remember(
        [
            UserMessage(content="find it"),
            AssistantMessage(tool_calls=[call]),
            ToolResult(tool_call_id="1", tool_name="search", content="x" * 1000),
            AssistantMessage(content="found"),
        ],
        agent_name="a",
    )
    text = await memory.recall("", agent_name="a")
    assert text is not None
    assert text.endswith("user: find it\nassistant: found")


async def test_a_pasted_document_is_not_repeated_in_full() -> None:
    memory = ShortTermMemory()
    await memory.remember(turn("x" * 100_000, "Long."), agent_name="a")
    text = await memory.recall("", agent_name="a")
    assert text is not None
    assert len(text) < 5_000
    assert text.endswith("assistant: Long.")


async def test_at_most_max_rounds_are_kept(storage: MemoryStorage) -> None:
    memory = ShortTermMemory(storage, max_rounds=2)
    for n in range(5):
        await memory.remember(turn(f"q{n}", f"a{n}"), agent_name="a")
    text = await memory.recall("", agent_name="a")
    assert text is not None
    assert [line for line in text.splitlines() if line.startswith("user")] == [
        "user: q3",
        "user: q4",
    ]


async def test_users_sessions_and_agents_do_not_see_each_other(storage: MemoryStorage) -> None:
    ada = ShortTermMemory(storage, user_id="ada", session_id="1")
    await ada.remember(turn("secret plan", "ok"), agent_name="a")
    assert await ada.recall("plan", agent_name="b") is None
    assert await ada.scoped(user_id="ada", session_id="2").recall("plan", agent_name="a") is None
    assert await ada.scoped(user_id="bob", session_id="1").recall("plan", agent_name="a") is None
    assert await ada.scoped(user_id="ada", session_id="1").recall("plan", agent_name="a")


async def test_a_round_expires_after_its_time() -> None:
    now = [1000.0]
    memory = ShortTermMemory(ttl_seconds=60, clock=lambda: now[0])
    await memory.remember(turn("q", "a"), agent_name="a")
    now[0] = 1059
    assert await memory.recall("", agent_name="a")
    now[0] = 1060
    assert await memory.recall("", agent_name="a") is None


async def test_a_session_survives_its_process(make_storage: Callable[[], MemoryStorage]) -> None:
    first, second = make_storage(), make_storage()
    await ShortTermMemory(first, session_id="1").remember(turn("q", "a"), agent_name="x")
    await first.close()
    assert await ShortTermMemory(second, session_id="1").recall("", agent_name="x")
    await second.close()


async def test_clear_forgets_this_session_only() -> None:
    storage = InMemoryStorage()
    one = ShortTermMemory(storage, user_id="ada", session_id="1")
    two = one.scoped(user_id="ada", session_id="2")
    for memory in (one, two):
        await memory.remember(turn("q", "a"), agent_name="x")
    assert await one.clear() == 1
    assert await one.recall("", agent_name="x") is None
    assert await two.recall("", agent_name="x")


async def test_forget_user_deletes_everything_of_a_user_and_nothing_else() -> None:
    storage = InMemoryStorage()
    ada = ShortTermMemory(storage, user_id="ada")
    bob = ada.scoped(user_id="bob")
    for memory in (ada, bob):
        await memory.remember(turn("I live in Bern.", "a"), agent_name="x")
    await LongTermMemory(storage, user_id="ada").add("Ada lives in Bern.")
    assert await ada.forget_user() == 2
    assert await ada.recall("", agent_name="x") is None
    assert await bob.recall("", agent_name="x")


FORKS = """
import asyncio, os
from orbiter.memory import InMemoryStorage, ShortTermMemory
from orbiter.memory.types import RecordFilter
from orbiter.types import UserMessage

def said(text):
    storage = InMemoryStorage()
    memory = ShortTermMemory(storage)
    asyncio.run(memory.remember([UserMessage(content=text)], agent_name="x"))
    return [record.id for record in asyncio.run(storage.select(RecordFilter()))][-1:]

said("before")
child = os.fork()
print(*said("after"), flush=True)
if not child:
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_forked_child_gives_its_records_names_of_their_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    assert len(set(done.stdout.split())) == 2


async def test_a_program_that_seeds_its_chance_names_no_record_twice() -> None:
    storage = InMemoryStorage()
    memory = ShortTermMemory(storage)
    for _ in range(2):
        random.seed(7)
        await memory.remember(turn("q", "a"), agent_name="x")
    text = await memory.recall("", agent_name="x")
    assert text is not None
    assert text.count("user: q") == 2
