"""How alike two texts are, without a model: for changes of topic (rotation.py) and recaps.

`Embedder` is what anything better has to do. `HashEmbedder` sees spelling only: it forgives typing
errors and inflection, and knows nothing of meaning.
"""

import re
import zlib
from collections.abc import Sequence
from math import sqrt
from operator import mul
from typing import Final, Protocol

Vector = tuple[float, ...]
_WORD: Final = re.compile(r"\w+")
_LONG_LETTERS: Final = 4
"""Shorter words ("the", "and", "wie") join sentences and tell no topic."""


class Embedder(Protocol):
    """Turns texts into vectors of one fixed length."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text; they need not have length 1."""


class HashEmbedder:
    """Hashes words and their three-letter pieces into `dimensions` numbers: offline, repeatable."""

    def __init__(self, dimensions: int = 512) -> None:
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector of length 1 per text; a text without long words gives zeros."""
        return [normalized(self._counts(text)) for text in texts]

    def _counts(self, text: str) -> list[float]:
        counts = [0.0] * self.dimensions
        for word in set(long_words(text)):
            self._add(counts, word, 1.0)
            edged = f"^{word}$"
            for start in range(len(edged) - 2):
                self._add(counts, edged[start : start + 3], 0.3)
        return counts

    def _add(self, counts: list[float], feature: str, weight: float) -> None:
        number = zlib.crc32(feature.encode("utf-8", "replace"))
        counts[number % self.dimensions] += weight if number & 0x8000_0000 else -weight


def long_words(text: str) -> list[str]:
    """The words that may tell a topic, in lower case."""
    return [word for word in _WORD.findall(text.lower()) if len(word) >= _LONG_LETTERS]


def normalized(vector: Sequence[float]) -> Vector:
    """The vector scaled to length 1, or as it is when it is all zeros."""
    length = sqrt(sum(map(mul, vector, vector)))
    return tuple(value / length for value in vector) if length else tuple(vector)


async def similarities(embedder: Embedder, text: str, others: Sequence[str]) -> list[float]:
    """How alike each of the others is to the text: cosines, from -1 to 1."""
    if not others:
        return []
    first, *rest = (normalized(vector) for vector in await embedder.embed([text, *others]))
    return [float(sum(map(mul, first, each))) for each in rest]
