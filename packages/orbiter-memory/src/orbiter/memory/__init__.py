"""Orbiter Memory: what agents remember between runs, and the storage it is kept in."""

from orbiter.memory.embedding import Embedder, HashEmbedder
from orbiter.memory.extraction import extract
from orbiter.memory.in_memory import InMemoryStorage
from orbiter.memory.long_term import LongTermMemory
from orbiter.memory.postgres import PostgresStorage
from orbiter.memory.ranking import CoverageReranker, Reranker, hybrid_search
from orbiter.memory.reading import Extraction, FactChange
from orbiter.memory.short_term import ShortTermMemory
from orbiter.memory.sqlite import SqliteStorage
from orbiter.memory.storage import MemoryStorage
from orbiter.memory.types import (
    EmbedderMismatchError,
    MemoryHit,
    MemoryRecord,
    MemoryStorageError,
    RecordFilter,
)
from orbiter.memory.vectors import reembed

__all__ = [
    "CoverageReranker",
    "Embedder",
    "EmbedderMismatchError",
    "Extraction",
    "FactChange",
    "HashEmbedder",
    "InMemoryStorage",
    "LongTermMemory",
    "MemoryHit",
    "MemoryRecord",
    "MemoryStorage",
    "MemoryStorageError",
    "PostgresStorage",
    "RecordFilter",
    "Reranker",
    "ShortTermMemory",
    "SqliteStorage",
    "extract",
    "hybrid_search",
    "reembed",
]
