"""Vectors for texts: what an embedder must do, and a small one that needs no model.

An embedder makes searches find texts that share no word with the question. `HashEmbedder` only
sees spelling (it forgives typing errors and inflection); give a real model's embedder where
meaning matters.
"""

import zlib
from collections.abc import Sequence
from math import sqrt
from operator import mul
from typing import Protocol

from orbiter.memory.text import terms

Vector = tuple[float, ...]


class Embedder(Protocol):
    """Turns texts into vectors of one fixed length."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text; they need not have length 1."""
        ...


class HashEmbedder:
    """Hashes words and their three-letter pieces into `dimensions` numbers: offline, repeatable."""

    def __init__(self, dimensions: int = 256) -> None:
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector of length 1 per text; a text without words gives zeros."""
        return [normalized(self._counts(text)) for text in texts]

    def _counts(self, text: str) -> list[float]:
        counts = [0.0] * self.dimensions
        for term in terms(text):
            self._add(counts, term, 1.0)
            edged = f"^{term}$"
            for start in range(len(edged) - 2):
                self._add(counts, edged[start : start + 3], 0.4)
        return counts

    def _add(self, counts: list[float], feature: str, weight: float) -> None:
        number = zlib.crc32(feature.encode())
        counts[number % self.dimensions] += weight if number & 0x8000_0000 else -weight


def normalized(vector: Sequence[float]) -> Vector:
    """Return the vector scaled to length 1, or as it is when it is all zeros."""
    length = sqrt(sum(map(mul, vector, vector)))
    return tuple(value / length for value in vector) if length else tuple(vector)


def dot(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the inner product: for vectors of length 1 the cosine of their angle."""
    product: float = sum(map(mul, left, right))
    return product
