from pathlib import Path

import pytest

from orbiter.context import (
    ArtifactNotFoundError,
    Context,
    ContextError,
    KnowledgeStore,
)
from orbiter.memory import HashEmbedder, MemoryHit, SqliteStorage

REPORT = """# Quantum report

## Entanglement
Two particles are entangled when their states cannot be described apart.

## Hardware
Superconducting qubits need temperatures near zero.
Ion traps hold single atoms.

## Budget
The project costs 4 million euros.
"""


@pytest.fixture(params=["memory", "sqlite"])
async def knowledge(request: pytest.FixtureRequest, tmp_path: Path):  # type: ignore[no-untyped-def]
    storage = SqliteStorage(tmp_path / "k.db") if request.param == "sqlite" else None
    store = KnowledgeStore(storage, task_id="t")
    yield store
    await store.storage.close()


async def test_search_finds_the_passage_and_says_where_it_is(knowledge: KnowledgeStore) -> None:
    await knowledge.add("report.md", content=REPORT * 20)
    await knowledge.add("food.md", content="Garlic bread with butter.")
    results = await knowledge.search("what is quantum entanglement", top_k=3)
    assert len(results) == 3
    assert results[0].source == "report.md"
    assert "entangled" in results[0].content
    assert 0 < results[0].score <= 1
    assert results == sorted(results, key=lambda chunk: -chunk.score)
    line = REPORT.splitlines()[results[0].start % 11]
    assert results[0].content.startswith(line.strip())


async def test_get_returns_the_document_as_it_was_added(knowledge: KnowledgeStore) -> None:
    text = REPORT * 30 + "\r\nlast line without end" + "x" * 5000
    await knowledge.add("report.md", content=text)
    assert await knowledge.get("report.md") == text
    await knowledge.add("empty.md", content="")
    assert await knowledge.get("empty.md") == ""


async def test_get_range_counts_lines_from_0(knowledge: KnowledgeStore) -> None:
    await knowledge.add("n.txt", content="\n".join(f"line {n}" for n in range(500)))
    assert await knowledge.get_range("n.txt", start=0, end=2) == "line 0\nline 1"
    assert await knowledge.get_range("n.txt", start=498, end=600) == "line 498\nline 499"
    assert await knowledge.get_range("n.txt", start=600, end=700) == ""
    assert await knowledge.get_range("n.txt", start=-5, end=1) == "line 0"


async def test_grep_returns_only_the_matching_lines(knowledge: KnowledgeStore) -> None:
    await knowledge.add("report.md", content=REPORT)
    assert await knowledge.grep("report.md", "QUBIT|atom") == [
        "Superconducting qubits need temperatures near zero.",
        "Ion traps hold single atoms.",
    ]
    assert await knowledge.grep("report.md", "costs.*euros") == [
        "The project costs 4 million euros."
    ]
    assert await knowledge.grep("report.md", "(a+)+$") == []


async def test_adding_again_replaces_the_document(knowledge: KnowledgeStore) -> None:
    await knowledge.add("a.md", content=REPORT * 10)
    await knowledge.add("a.md", content="Only bees now.")
    assert await knowledge.get("a.md") == "Only bees now."
    assert await knowledge.search("entanglement") == []
    assert await knowledge.list() == ["a.md"]


async def test_appending_goes_on_where_the_document_ends(knowledge: KnowledgeStore) -> None:
    await knowledge.append("log", "one\n", "two\nthree\n")
    await knowledge.append("log", "four is a zebra\n")
    assert await knowledge.get("log") == "one\ntwo\nthree\nfour is a zebra\n"
    (found,) = await knowledge.search("zebra")
    assert found.start == 3


async def test_removing_forgets(knowledge: KnowledgeStore) -> None:
    await knowledge.add("a.md", content="zebra")
    await knowledge.remove("a.md")
    assert await knowledge.search("zebra") == []
    with pytest.raises(ArtifactNotFoundError, match=r"'a\.md'"):
        await knowledge.remove("a.md")


async def test_a_missing_document_is_named_with_those_there_are(
    knowledge: KnowledgeStore,
) -> None:
    await knowledge.add("report.pdf", content="x")
    with pytest.raises(ArtifactNotFoundError, match=r"'repot\.pdf'; there are: report\.pdf"):
        await knowledge.get("repot.pdf")


async def test_search_can_be_kept_to_some_documents(knowledge: KnowledgeStore) -> None:
    await knowledge.add("a.md", content="a zebra")
    await knowledge.add("b.md", content="another zebra")
    assert [c.source for c in await knowledge.search("zebra", sources=["b.md"])] == ["b.md"]


async def test_tasks_that_share_a_storage_do_not_see_each_other(
    knowledge: KnowledgeStore,
) -> None:
    await knowledge.add("a.md", content="a zebra")
    other = KnowledgeStore(knowledge.storage, task_id="other")
    await other.add("a.md", content="a lion")
    assert await knowledge.get("a.md") == "a zebra"
    assert await other.search("zebra") == []


@pytest.mark.parametrize(("name", "content"), [("", "text"), ("a.pdf", b"%PDF")])
async def test_what_is_no_named_text_is_refused(name: str, content: str) -> None:
    with pytest.raises(ContextError, match=r"needs a name|'a\.pdf' must be text, not bytes"):
        await KnowledgeStore().add(name, content=content)


async def test_an_embedder_adds_what_words_do_not_find() -> None:
    plain, vectors = KnowledgeStore(), KnowledgeStore(embedder=HashEmbedder())
    for store in (plain, vectors):
        await store.add("a.md", content="The saxophonist plays tonight.")
        await store.add("b.md", content="Taxes are due in March.")
    assert await plain.search("saxofonist") == []
    assert (await vectors.search("saxofonist"))[0].source == "a.md"


async def test_an_own_reranker_orders_the_results() -> None:
    class Backwards:
        async def rerank(self, query: str, hits: list[MemoryHit]) -> list[MemoryHit]:
            return hits[::-1]

    store = KnowledgeStore(reranker=Backwards())
    await store.add("good.md", content="zebra zebra zebra")
    await store.add("poor.md", content="one zebra among many other words that say nothing")
    assert [c.source for c in await store.search("zebra")] == ["poor.md", "good.md"]


async def test_a_large_document_is_indexed_and_found() -> None:
    ctx = Context(task_id="t")
    lines = [f"Paragraph {n} speaks of topic{n % 100}.\n\n" for n in range(4000)]
    lines[2500] = "The vault code is 7391.\n\n"
    await ctx.knowledge.add("big.md", content="".join(lines))
    (best, *_) = await ctx.knowledge.search("vault code")
    assert "7391" in best.content
    assert best.start <= 5000 < best.start + 100
