"""The words of memory: a record, what selects records, and a record that was found.

Everything in this package speaks in these; only `orbiter.types` comes before this module.
Times are seconds since the epoch, as `time.time()` gives them.
"""

from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel

from orbiter.types import OrbiterError

Clock = Callable[[], float]
RecordKind = Literal["message", "fact", "summary", "chunk", "superseded"]


class MemoryStorageError(OrbiterError):
    """A storage could not do what it was asked."""

    def __init__(self, storage: str, problem: str) -> None:
        self.storage = storage
        super().__init__(f"Memory storage '{storage}': {problem}")


class EmbedderMismatchError(MemoryStorageError):
    """A storage holds vectors of another embedder, with which this one's cannot be compared."""


class MemoryRecord(BaseModel):
    """One thing that is kept.

    Attributes:
        id: Unique in a storage; putting a record under a known id replaces the old one.
        kind: What the text is.
        text: What is kept and searched.
        user_id: Whose it is; "" when the program knows no users.
        session_id: The conversation or task it comes from.
        agent_name: The agent it comes from.
        source: The document a chunk was cut from.
        position: First line of a chunk in its document, from 0.
        created_at: When it was put, in seconds since the epoch.
        expires_at: When it stops being found; None keeps it until it is deleted.
        vector: Its embedding, of length 1, when an embedder is in use.
        embedder: Who made the vector and how many numbers it has, "hash/256". With a name but no
            vector there was no text to make one of.
        superseded_at: When another fact took the place of this one, whose kind is "superseded".
        superseded_by: The id of that fact; "" when none did, because this one no longer holds.
    """

    model_config = {"frozen": True}

    id: str
    kind: RecordKind
    text: str
    user_id: str = ""
    session_id: str = ""
    agent_name: str = ""
    source: str = ""
    position: int = 0
    created_at: float = 0.0
    expires_at: float | None = None
    vector: tuple[float, ...] | None = None
    embedder: str = ""
    superseded_at: float | None = None
    superseded_by: str = ""


class RecordFilter(BaseModel):
    """Which records are meant: those that agree in every field that is not None.

    Attributes:
        ids: Only records with one of these ids.
        user_id: Only this user's.
        session_id: Only this session's.
        agent_name: Only this agent's.
        kinds: Only these kinds.
        sources: Only chunks of these documents.
        alive_at: Only records that have not expired at this time.
        expired_at: Only records that have expired at this time.
        embedder: Only records of this embedder.
        other_embedder: Only records of any other embedder, or of none.
        with_vector: Only records that have a vector, or only those that have none.
    """

    model_config = {"frozen": True}

    ids: tuple[str, ...] | None = None
    user_id: str | None = None
    session_id: str | None = None
    agent_name: str | None = None
    kinds: tuple[RecordKind, ...] | None = None
    sources: tuple[str, ...] | None = None
    alive_at: float | None = None
    expired_at: float | None = None
    embedder: str | None = None
    other_embedder: str | None = None
    with_vector: bool | None = None


class MemoryHit(BaseModel):
    """A record that a search found; a larger `score` is a better match."""

    model_config = {"frozen": True}

    record: MemoryRecord
    score: float

    @property
    def text(self) -> str:
        """The record's text."""
        return self.record.text
