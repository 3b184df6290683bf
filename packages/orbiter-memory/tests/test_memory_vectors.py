"""Vectors of one embedder are never compared with another's, in every storage."""

import logging
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from orbiter.memory import (
    EmbedderMismatchError,
    HashEmbedder,
    InMemoryStorage,
    LongTermMemory,
    MemoryRecord,
    MemoryStorage,
    MemoryStorageError,
    RecordFilter,
    SqliteStorage,
    hybrid_search,
    reembed,
)
from orbiter.memory.embedding import Vector, embedder_of
from orbiter.memory.vectors import with_vectors
from orbiter.types import OrbiterError, UserMessage

ALL = RecordFilter()


class Meaning:
    """Knows of each text what it is about: place or drink, in any language."""

    PLACES = ("Bern", "Paris", "wohn", "habite", "住", "live", "home")

    def __init__(self, name: str = "meaning", length: int = 2) -> None:
        self.name = name
        self.length = length
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        about = [float(any(word in text for word in self.PLACES)) for text in texts]
        return [(place, 1.0 - place, *[0.0] * (self.length - 2)) for place in about]


class Broken:
    name = "broken"

    def __init__(self, error: OrbiterError | None = None, vectors: object = ()) -> None:
        self.error, self.vectors = error, vectors

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self.error is not None:
            raise self.error
        return self.vectors  # type: ignore[return-value]


class BusyError(OrbiterError):
    retryable = True


async def test_records_say_whose_vectors_they_have(storage: MemoryStorage) -> None:
    await LongTermMemory(storage, embedder="hash").add("Ada likes tea.")
    [record] = await storage.select(ALL)
    assert (record.embedder, len(record.vector or ())) == ("hash/256", 256)


async def test_a_question_finds_what_shares_no_word_with_it(storage: MemoryStorage) -> None:
    memory = LongTermMemory(storage, embedder=Meaning())
    await memory.add("Ada habite à Paris.")
    await memory.add("Ada likes tea.")
    assert [hit.text for hit in await memory.search("Wo wohnt sie?")] == ["Ada habite à Paris."]


@pytest.mark.parametrize("other", [Meaning("other"), Meaning("meaning", 3), HashEmbedder(2)])
async def test_another_embedder_or_length_is_named_with_the_next_step(
    storage: MemoryStorage, other: Meaning
) -> None:
    await LongTermMemory(storage, embedder=Meaning()).add("Ada lives in Bern.")
    memory = LongTermMemory(storage, embedder=other)
    words = rf"'meaning/2'.*'{other.name}/[23]'.*orbiter.memory.reembed\(storage, embedder\)"
    for use in (memory.search("Bern"), memory.recall("Bern", agent_name="a"), memory.add("More.")):
        with pytest.raises(EmbedderMismatchError, match=words):
            await use
    assert len(await storage.select(ALL)) == 1


async def test_reembedding_makes_one_embedders_of_all(storage: MemoryStorage) -> None:
    old = LongTermMemory(storage, user_id="ada", embedder=HashEmbedder())
    facts = ["Ada lives in Bern.", "Ada likes tea.", "Ada owns a boat.", "Ada sings."]
    for fact in facts:
        await old.add(fact)
    await LongTermMemory(storage, user_id="bob").add("Bob lives in Paris.")
    assert await reembed(storage, Meaning(), batch_size=2) == 5
    assert await reembed(storage, Meaning()) == 0
    new = old.scoped(user_id="ada")
    new.embedder = Meaning()
    assert (await new.search("home"))[0].text == "Ada lives in Bern."
    assert await new.facts() == facts
    assert {r.embedder for r in await storage.select(ALL)} == {"meaning/2"}


async def test_reembedding_goes_by_what_there_is_to_embed(storage: MemoryStorage) -> None:
    message = MemoryRecord(id="m", kind="message", text="hello")
    empty = MemoryRecord(id="e", kind="fact", text=" ")
    await storage.put([message, empty])
    assert await reembed(storage, Meaning()) == 0
    by_id = {record.id: record for record in await storage.select(ALL)}
    assert by_id["m"] == message
    assert (by_id["e"].vector, by_id["e"].embedder) == (None, "meaning/2")


async def test_a_text_that_changes_meanwhile_is_not_given_an_old_vector(
    storage: MemoryStorage,
) -> None:
    await storage.put([MemoryRecord(id="a", kind="fact", text="new words")])
    stale = MemoryRecord(id="a", kind="fact", text="old words", vector=(1.0,), embedder="x/1")
    assert hasattr(storage, "set_vectors")
    await storage.set_vectors([stale, stale.model_copy(update={"id": "nobody"})])
    [found] = await storage.select(ALL)
    assert (found.text, found.vector, found.embedder) == ("new words", None, "")


async def test_a_storage_that_cannot_change_vectors_is_named() -> None:
    with pytest.raises(MemoryStorageError, match="'object': it has no set_vectors"):
        await reembed(object(), Meaning())  # type: ignore[arg-type]


async def test_only_vectors_of_the_same_length_are_compared(storage: MemoryStorage) -> None:
    long = MemoryRecord(id="l", kind="fact", text="x", vector=(1.0, 0.0, 0.0))
    short = MemoryRecord(id="s", kind="fact", text="x", vector=(1.0, 0.0))
    await storage.put([long, short])
    hits = await storage.search_vector((1.0, 0.0), ALL, limit=5)
    assert [hit.record.id for hit in hits] == ["s"]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (RecordFilter(embedder="x/1"), ["a", "c"]),
        (RecordFilter(other_embedder="x/1"), ["b", "d"]),
        (RecordFilter(other_embedder="x/1", with_vector=True), ["b"]),
        (RecordFilter(with_vector=False), ["c", "d"]),
        (RecordFilter(with_vector=True, user_id=""), ["a", "b"]),
    ],
)
async def test_filters_go_by_embedder(
    storage: MemoryStorage, where: RecordFilter, found: list[str]
) -> None:
    plain = MemoryRecord(id="a", kind="fact", text="x", vector=(1.0,), embedder="x/1")
    await storage.put(
        [
            plain,
            plain.model_copy(update={"id": "b", "embedder": "y/1"}),
            plain.model_copy(update={"id": "c", "vector": None}),
            plain.model_copy(update={"id": "d", "vector": None, "embedder": ""}),
        ]
    )
    assert sorted(record.id for record in await storage.select(where)) == found


async def test_an_empty_question_makes_no_vector(storage: MemoryStorage) -> None:
    embedder = Meaning()
    memory = LongTermMemory(storage, embedder=embedder)
    assert await memory.search(" \n") == []
    assert embedder.asked == []


async def test_of_a_long_question_the_beginning_is_embedded() -> None:
    embedder = Meaning()
    await LongTermMemory(embedder=embedder).search("x" * 100_000)
    assert [len(text) for text in embedder.asked] == [6_000]


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        ([], "0 vectors for 1 texts"),
        ([(float("nan"),)], "not finite"),
        ([(float("inf"), 1.0)], "not finite"),
    ],
)
async def test_what_is_no_vector_is_not_kept(vectors: object, problem: str) -> None:
    memory = LongTermMemory(embedder=Broken(vectors=vectors))
    with pytest.raises(OrbiterError, match=rf"'broken' gave .*{problem}"):
        await memory.add("Ada likes tea.")
    assert await memory.facts() == []


async def test_vectors_of_several_lengths_are_not_kept() -> None:
    records = [MemoryRecord(id=name, kind="fact", text=name) for name in "ab"]
    uneven = Broken(vectors=[(1.0,), (1.0, 2.0)])
    with pytest.raises(OrbiterError, match="'broken' gave vectors of several lengths"):
        await with_vectors(records, InMemoryStorage(), uneven)


async def test_a_run_goes_on_without_an_embedding_model_that_is_busy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = LongTermMemory(embedder=Broken(BusyError("overloaded")))
    with caplog.at_level(logging.WARNING):
        await memory.remember([UserMessage(content="I live in Bern.")], agent_name="a")
        recalled = await memory.recall("Bern", agent_name="a")
    assert recalled is not None
    assert "I live in Bern." in recalled
    assert "kept without vectors" in caplog.text
    assert "searched by words alone: overloaded" in caplog.text


async def test_what_lasts_is_raised() -> None:
    memory = LongTermMemory(embedder=Broken(OrbiterError("wrong key")))
    for use in (
        memory.recall("Bern", agent_name="a"),
        memory.remember([UserMessage(content="I live in Bern.")], agent_name="a"),
        memory.search("Bern"),
    ):
        with pytest.raises(OrbiterError, match="wrong key"):
            await use


async def test_the_search_itself_checks_whose_vectors_there_are(storage: MemoryStorage) -> None:
    await LongTermMemory(storage, embedder=Meaning()).add("Ada lives in Bern.")
    with pytest.raises(EmbedderMismatchError):
        await hybrid_search(storage, "Bern", ALL, top_k=3, embedder=HashEmbedder())


async def test_a_file_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE memory_records (put_order INTEGER PRIMARY KEY AUTOINCREMENT, "
            "id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, text TEXT NOT NULL, terms TEXT NOT NULL, "
            "user_id TEXT NOT NULL, session_id TEXT NOT NULL, agent_name TEXT NOT NULL, "
            "source TEXT NOT NULL, position INTEGER NOT NULL, created_at REAL NOT NULL, "
            "expires_at REAL, vector BLOB)"
        )
        db.execute(
            "INSERT INTO memory_records VALUES "
            "(1, 'a', 'fact', 'Ada sings.', 'ada sing', '', '', '', '', 0, 1.0, NULL, x'0000803f')"
        )
    db.close()
    storage, other = SqliteStorage(path), SqliteStorage(path)
    memory = LongTermMemory(storage, embedder=Meaning())
    assert await memory.facts() == ["Ada sings."]
    assert await LongTermMemory(other).facts() == ["Ada sings."]
    with pytest.raises(EmbedderMismatchError, match="'one whose name was not kept'"):
        await memory.search("Ada")
    assert await reembed(storage, Meaning()) == 1
    assert (await memory.search("sings"))[0].text == "Ada sings."
    await storage.close()
    await other.close()


def test_strings_name_embedders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    named = embedder_of("openai:text-embedding-3-small")
    assert getattr(named, "name", "") == "openai:text-embedding-3-small"
    assert isinstance(embedder_of("hash"), HashEmbedder)
    assert embedder_of(None) is None
    with pytest.raises(OrbiterError, match="'text-embedding-3-small' is no embedder: write 'hash'"):
        LongTermMemory(embedder="text-embedding-3-small")
    with pytest.raises(OrbiterError, match="nobody"):
        LongTermMemory(embedder="nobody:m")


def test_without_orbiter_models_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "orbiter.models", None)
    with pytest.raises(OrbiterError, match="needs orbiter-models: install it"):
        embedder_of("openai:m")


def test_orbiter_models_is_imported_when_it_is_named() -> None:
    code = "import sys, orbiter.memory as m; m.LongTermMemory(embedder='hash'); " + (
        "print('orbiter.models' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
