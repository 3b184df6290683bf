from collections.abc import Sequence

from orbiter.memory import HashEmbedder, InMemoryStorage, MemoryHit, MemoryRecord, RecordFilter
from orbiter.memory.ranking import CoverageReranker, fuse, hybrid_search
from orbiter.memory.vectors import with_vectors


def hit(id: str, text: str = "", score: float = 1.0) -> MemoryHit:
    return MemoryHit(record=MemoryRecord(id=id, kind="chunk", text=text), score=score)


def order(hits: Sequence[MemoryHit]) -> list[str]:
    return [found.record.id for found in hits]


def test_fuse_moves_up_what_several_rankings_hold() -> None:
    assert order(fuse([[hit("a"), hit("b")], [hit("b"), hit("c")]])) == ["b", "a", "c"]


def test_fuse_looks_at_ranks_not_at_scores() -> None:
    rankings = [[hit("a", score=0.001)], [hit("b", score=999), hit("a", score=1)]]
    assert order(fuse(rankings)) == ["a", "b"]


async def test_the_reranker_prefers_texts_that_cover_the_query() -> None:
    hits = [hit("one", "garlic soup"), hit("both", "garlic bread with butter")]
    assert order(await CoverageReranker().rerank("garlic butter", hits)) == ["both", "one"]


async def test_the_reranker_prefers_words_that_stand_together() -> None:
    hits = [
        hit("apart", "black clouds over the old town and a little cat"),
        hit("near", "the little black cat of the old town over there"),
    ]
    assert order(await CoverageReranker().rerank("black cat", hits)) == ["near", "apart"]


async def test_rerank_scores_lie_between_0_and_1() -> None:
    (found,) = await CoverageReranker().rerank("garlic", [hit("a", "garlic", score=0.03)])
    assert found.score == 1.0


async def test_vectors_add_what_words_do_not_find() -> None:
    embedder, storage = HashEmbedder(), InMemoryStorage()
    texts = {"a": "entanglement of photons", "b": "recipes with garlic"}
    records = [MemoryRecord(id=name, kind="chunk", text=text) for name, text in texts.items()]
    await storage.put(await with_vectors(records, storage, embedder))
    asked = ("entanglemnt", RecordFilter())
    assert await hybrid_search(storage, *asked, top_k=5) == []
    assert order(await hybrid_search(storage, *asked, top_k=5, embedder=embedder)) == ["a"]


async def test_an_own_reranker_has_the_last_word() -> None:
    class Backwards:
        async def rerank(self, query: str, hits: list[MemoryHit]) -> list[MemoryHit]:
            return hits[::-1]

    storage = InMemoryStorage()
    await storage.put(
        [MemoryRecord(id=text, kind="chunk", text=text) for text in ("soup", "soup with garlic")]
    )
    found = await hybrid_search(
        storage, "garlic soup", RecordFilter(), top_k=2, reranker=Backwards()
    )
    assert order(found) == ["soup", "soup with garlic"]
