from collections.abc import Callable
from typing import Any

import pytest

from orbiter.memory import HashEmbedder, LongTermMemory, MemoryStorage, RecordFilter
from orbiter.types import AssistantMessage, Message, UserMessage


def turn(question: str, answer: str = "Noted.") -> list[Message]:
    return [UserMessage(content=question), AssistantMessage(content=answer)]


async def test_a_fact_of_one_session_is_recalled_in_another(storage: MemoryStorage) -> None:
    monday = LongTermMemory(storage, user_id="ada", session_id="monday")
    await monday.remember(turn("My dog is called Rex."), agent_name="a")
    tuesday = monday.scoped(user_id="ada", session_id="tuesday")
    recalled = await tuesday.recall("what is the name of my dog", agent_name="a")
    assert recalled is not None
    assert "- My dog is called Rex." in recalled


async def test_nothing_known_recalls_nothing() -> None:
    assert await LongTermMemory().recall("anything", agent_name="a") is None


async def test_the_best_match_comes_first_and_free_places_go_to_the_newest_facts() -> None:
    memory = LongTermMemory(top_k=2)
    for fact in ("Ada works as a nurse.", "Ada owns a boat.", "Ada likes tea."):
        await memory.add(fact)
    recalled = await memory.recall("Does she own a boat?", agent_name="a")
    assert recalled == "What you remember:\n- Ada owns a boat.\n- Ada likes tea."


async def test_the_same_fact_is_kept_once(storage: MemoryStorage) -> None:
    memory = LongTermMemory(storage)
    for _ in range(3):
        await memory.remember(turn("I live in Bern."), agent_name="a")
    assert await memory.add("i live  in bern.") == await memory.add("I live in Bern.")
    assert await memory.facts() == ["I live in Bern."]


async def test_a_fact_that_is_told_twice_in_one_run_is_kept_once(storage: MemoryStorage) -> None:
    memory = LongTermMemory(storage)
    await memory.remember(turn("I live in Bern.\ni live in  bern."), agent_name="a")
    assert len(await memory.facts()) == 1


async def test_users_never_share_memories(storage: MemoryStorage) -> None:
    ada = LongTermMemory(storage, user_id="ada")
    await ada.add("I live in Bern.")
    bob = ada.scoped(user_id="bob")
    assert await bob.recall("where do I live in Bern", agent_name="a") is None
    assert await bob.search("Bern") == []
    assert await bob.facts() == []


@pytest.mark.parametrize(
    ("visibility", "other_agent", "other_session"),
    [("user", True, True), ("session", True, False), ("agent", False, True)],
)
async def test_visibility_says_who_shares(
    visibility: Any, other_agent: bool, other_session: bool
) -> None:
    memory = LongTermMemory(session_id="1", visibility=visibility)
    await memory.add("I live in Bern.", agent_name="a")
    elsewhere = memory.scoped(user_id="", session_id="2")
    assert bool(await memory.recall("Bern", agent_name="b")) is other_agent
    assert bool(await elsewhere.recall("Bern", agent_name="a")) is other_session


async def test_without_a_model_a_session_is_summarised_run_by_run(storage: MemoryStorage) -> None:
    memory = LongTermMemory(storage, session_id="1")
    for n in range(25):
        await memory.remember(turn(f"Plan trip {n}. To the lake.", "Done."), agent_name="a")
    summaries = await storage.select(RecordFilter(kinds=("summary",)))
    assert [summary.text for summary in summaries] == [
        f"user: Plan trip {n}.\nassistant: Done." for n in range(5, 25)
    ]


async def test_with_a_model_a_session_has_one_summary_that_goes_on(storage: MemoryStorage) -> None:
    asked: list[str] = []

    class Model:
        async def complete(self, messages: list[Message]) -> Any:
            asked.append(messages[-1].content)
            return AssistantMessage(content=f'{{"facts": [], "summary": "Version {len(asked)}."}}')

    memory = LongTermMemory(storage, session_id="1", provider=Model())
    await memory.remember(turn("Plan the boat trip"), agent_name="a")
    await memory.remember(turn("Pack the tent"), agent_name="a")
    assert [s.text for s in await storage.select(RecordFilter(kinds=("summary",)))] == [
        "Version 2."
    ]
    assert "Version 1." in asked[1]


async def test_the_model_extracts_when_there_is_one() -> None:
    class Model:
        async def complete(self, messages: list[Message]) -> Any:
            return AssistantMessage(content='{"facts": ["Ada sails."], "summary": "Sailing talk."}')

    memory = LongTermMemory(provider=Model())
    await memory.remember(turn("we went out on the water again"), agent_name="a")
    assert await memory.facts() == ["Ada sails."]
    assert [hit.text for hit in await memory.search("talk")] == ["Sailing talk."]


async def test_an_embedder_forgives_spelling(storage: MemoryStorage) -> None:
    memory = LongTermMemory(storage, embedder=HashEmbedder())
    await memory.add("Ada collects saxophones.")
    await memory.add("Ada likes tea.")
    assert (await memory.search("saxofones"))[0].text == "Ada collects saxophones."


async def test_memories_expire_and_are_purged(storage: MemoryStorage) -> None:
    now = [1000.0]
    memory = LongTermMemory(storage, ttl_seconds=60, clock=lambda: now[0])
    await memory.add("I live in Bern.")
    now[0] += 60
    assert await memory.recall("Bern", agent_name="a") is None
    assert await memory.search("Bern") == []
    assert await memory.purge_expired() == 1
    assert await memory.purge_expired() == 0


async def test_single_memories_can_be_forgotten_but_not_anothers(storage: MemoryStorage) -> None:
    ada = LongTermMemory(storage, user_id="ada")
    kept, dropped = await ada.add("I like tea."), await ada.add("I like rain.")
    assert await ada.scoped(user_id="bob").forget(kept) == 0
    assert await ada.forget(dropped) == 1
    assert await ada.facts() == ["I like tea."]


async def test_forget_user_leaves_nothing_of_the_user(storage: MemoryStorage) -> None:
    ada = LongTermMemory(storage, user_id="ada", session_id="1")
    bob = ada.scoped(user_id="bob")
    for memory in (ada, bob):
        await memory.remember(turn("I live in Bern."), agent_name="a")
    assert await ada.forget_user() == 2
    assert await storage.select(RecordFilter(user_id="ada")) == []
    assert await bob.facts() == ["I live in Bern."]


async def test_facts_survive_the_process(make_storage: Callable[[], MemoryStorage]) -> None:
    first, second = make_storage(), make_storage()
    await LongTermMemory(first).add("I live in Bern.")
    await first.close()
    assert await LongTermMemory(second).facts() == ["I live in Bern."]
    await second.close()
