"""The storage contract, the same for every storage."""

from collections.abc import Callable

import pytest

from orbiter.memory import MemoryRecord, MemoryStorage, RecordFilter
from orbiter.memory.embedding import HashEmbedder

EVERYTHING = RecordFilter()


def record(id: str, text: str = "some text", **fields: object) -> MemoryRecord:
    return MemoryRecord.model_validate({"id": id, "kind": "fact", "text": text, **fields})


async def ids(storage: MemoryStorage, where: RecordFilter = EVERYTHING) -> list[str]:
    return [found.id for found in await storage.select(where)]


async def test_a_record_comes_back_as_it_was_put(storage: MemoryStorage) -> None:
    full = record(
        "a",
        "the café's opening hours",
        user_id="u",
        session_id="s",
        agent_name="n",
        source="doc.md",
        position=7,
        created_at=1_700_000_000.25,
        expires_at=1_800_000_000.5,
        vector=(0.5, -0.5, 0.25),
    )
    await storage.put([full])
    assert await storage.select(EVERYTHING) == [full]


async def test_records_come_back_in_the_order_they_were_put(storage: MemoryStorage) -> None:
    await storage.put([record("a"), record("b")])
    await storage.put([record("c")])
    assert await ids(storage) == ["a", "b", "c"]


async def test_a_limit_selects_the_newest(storage: MemoryStorage) -> None:
    await storage.put([record(name) for name in "abcd"])
    assert [r.id for r in await storage.select(EVERYTHING, limit=2)] == ["c", "d"]


async def test_a_known_id_is_replaced_and_becomes_the_newest(storage: MemoryStorage) -> None:
    await storage.put([record("a", "old words"), record("b")])
    await storage.put([record("a", "fresh words")])
    assert [(r.id, r.text) for r in await storage.select(EVERYTHING)] == [
        ("b", "some text"),
        ("a", "fresh words"),
    ]
    assert await storage.search_text("old", EVERYTHING, limit=5) == []
    assert [hit.record.id for hit in await storage.search_text("fresh", EVERYTHING, limit=5)] == [
        "a"
    ]


async def test_a_record_may_move_to_another_scope(storage: MemoryStorage) -> None:
    await storage.put([record("a", user_id="ada")])
    await storage.put([record("a", user_id="bob")])
    assert await ids(storage, RecordFilter(user_id="ada")) == []
    assert await ids(storage, RecordFilter(user_id="bob")) == ["a"]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (RecordFilter(user_id="ada"), ["a", "b"]),
        (RecordFilter(session_id="s1"), ["a", "c"]),
        (RecordFilter(agent_name="x"), ["a"]),
        (RecordFilter(user_id="ada", session_id="s1", agent_name="x", kinds=("fact",)), ["a"]),
        (RecordFilter(kinds=("chunk",)), ["c"]),
        (RecordFilter(kinds=("chunk", "fact")), ["a", "b", "c"]),
        (RecordFilter(sources=("doc.md", "other.md")), ["c"]),
        (RecordFilter(ids=("b", "c", "nobody")), ["b", "c"]),
        (RecordFilter(ids=()), []),
        (RecordFilter(alive_at=100.0), ["a", "c"]),
        (RecordFilter(expired_at=100.0), ["b"]),
        (RecordFilter(user_id="nobody"), []),
    ],
)
async def test_a_filter_selects_what_agrees_in_every_field(
    storage: MemoryStorage, where: RecordFilter, found: list[str]
) -> None:
    await storage.put(
        [
            record("a", user_id="ada", session_id="s1", agent_name="x", created_at=1),
            record("b", user_id="ada", session_id="s2", expires_at=100.0, created_at=2),
            record(
                "c", user_id="bob", session_id="s1", kind="chunk", source="doc.md", created_at=3
            ),
        ]
    )
    assert await ids(storage, where) == found


async def test_words_find_records_whatever_their_case_accents_or_endings(
    storage: MemoryStorage,
) -> None:
    await storage.put(
        [record("a", "The CAFÉS were opening early"), record("b", "A shop that closes")]
    )
    hits = await storage.search_text("when does a cafe open?", EVERYTHING, limit=5)
    assert [hit.record.id for hit in hits] == ["a"]
    assert hits[0].score > 0


async def test_a_rare_word_counts_more_than_a_common_one_in_local_storages(
    storage: MemoryStorage, request: pytest.FixtureRequest
) -> None:
    # The rank of Postgres knows no rarity; the reranker makes up for it.
    limit = 20 if "postgres" in request.node.name else 1
    await storage.put([record(f"common-{n}", f"report number {n}") for n in range(10)])
    await storage.put([record("rare", "zebra number report")])
    hits = await storage.search_text("zebra report", EVERYTHING, limit=limit)
    assert "rare" in [hit.record.id for hit in hits]


async def test_text_without_spaces_is_searched_by_pairs_of_characters(
    storage: MemoryStorage,
) -> None:
    await storage.put([record("a", "量子纠缠是一种现象"), record("b", "天气很好")])
    assert [
        h.record.id for h in await storage.search_text("什么是量子纠缠", EVERYTHING, limit=5)
    ] == ["a"]


@pytest.mark.parametrize("query", ["", "?!", "the of and", '"', "a' OR 1=1 --", "x AND NOT (y*"])
async def test_a_query_is_never_a_query_language(storage: MemoryStorage, query: str) -> None:
    await storage.put([record("a", "nothing of the kind")])
    assert await storage.search_text(query, EVERYTHING, limit=5) == []


async def test_quotes_and_apostrophes_in_words_are_found(storage: MemoryStorage) -> None:
    await storage.put([record("a", "O'Brien doesn't answer")])
    for query in ("o'brien", "O'Brien's answer", "doesn't"):
        assert await storage.search_text(query, EVERYTHING, limit=5), query


async def test_vectors_find_what_is_nearest(storage: MemoryStorage) -> None:
    embed = HashEmbedder().embed
    texts = {"a": "quantum entanglement", "b": "cooking with garlic", "c": "no vector"}
    vectors = await embed(list(texts.values()))
    await storage.put(
        [
            record("a", texts["a"], vector=vectors[0]),
            record("b", texts["b"], vector=vectors[1]),
            record("c", texts["c"]),
        ]
    )
    (asked,) = await embed(["quantun entanglment"])
    hits = await storage.search_vector(asked, EVERYTHING, limit=5)
    assert [hit.record.id for hit in hits] == ["a", "b"]
    assert hits[0].score > 0.4 > 2 * hits[1].score


async def test_deleting_forgets_records_and_their_words(storage: MemoryStorage) -> None:
    await storage.put([record("a", "apple", user_id="ada"), record("b", "apple", user_id="bob")])
    assert await storage.delete(RecordFilter(user_id="ada")) == 1
    assert [h.record.id for h in await storage.search_text("apple", EVERYTHING, limit=5)] == ["b"]
    assert await storage.delete(RecordFilter(user_id="ada")) == 0


async def test_trimming_keeps_the_newest_of_a_scope(storage: MemoryStorage) -> None:
    await storage.put([record(name, user_id="ada") for name in "abc"])
    await storage.put([record("z", user_id="bob")])
    await storage.trim(RecordFilter(user_id="ada"), keep=1)
    assert sorted(await ids(storage)) == ["c", "z"]
    await storage.trim(RecordFilter(user_id="ada"), keep=5)
    assert sorted(await ids(storage)) == ["c", "z"]


async def test_putting_nothing_is_fine(storage: MemoryStorage) -> None:
    await storage.put([])
    assert await ids(storage) == []


async def test_a_closed_storage_opens_anew_with_what_it_held(
    make_storage: Callable[[], MemoryStorage],
) -> None:
    first = make_storage()
    await first.put([record("a", "apple")])
    await first.close()
    second = make_storage()
    assert [h.record.id for h in await second.search_text("apples", EVERYTHING, limit=5)] == ["a"]
    await first.put([record("b")])
    assert sorted(await ids(second)) == ["a", "b"]
    await first.close()
    await second.close()


async def test_of_equal_ids_in_one_batch_the_last_wins(storage: MemoryStorage) -> None:
    await storage.put([record("a", "first"), record("b"), record("a", "last")])
    found = await storage.select(EVERYTHING)
    assert sorted((r.id, r.text) for r in found) == [("a", "last"), ("b", "some text")]
    assert await storage.search_text("first", EVERYTHING, limit=5) == []


async def test_text_that_is_no_proper_text_can_be_kept(storage: MemoryStorage) -> None:
    await storage.put([record("a", "half a pair \ud800 and a nul \0 in a walrus")])
    (hit,) = await storage.search_text("walrus", EVERYTHING, limit=5)
    assert "in a walrus" in hit.text
