"""Vectors for texts: what an embedder must do, and a small one that needs no model.

An embedder makes searches find texts that share no word with the question, in other languages too.
It is an object, or the string that names one: "openai:text-embedding-3-small" and its like ask a
model by orbiter-models; "hash" is `HashEmbedder`, which only sees spelling (it forgives typing
errors and inflection) and is used where it is named and nowhere else.
"""

import importlib
import zlib
from collections.abc import Sequence
from math import sqrt
from operator import mul
from typing import Any, Protocol

from orbiter.memory.text import terms
from orbiter.types import OrbiterError

Vector = tuple[float, ...]


class Embedder(Protocol):
    """Turns texts into vectors of one fixed length.

    It may have a `name`, which tells its vectors from another model's; else its class does.
    """

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text; they need not have length 1."""
        ...


class HashEmbedder:
    """Hashes words and their three-letter pieces into `dimensions` numbers: offline, repeatable."""

    name = "hash"

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


def embedder_of(embedder: "Embedder | str | None") -> Embedder | None:
    """Return the embedder that a string names; what is none is returned as it is.

    Args:
        embedder: "hash", or "provider:model_name" as `orbiter.models.get_embedder` takes it.

    Raises:
        OrbiterError: Nobody is called so, there is no key, or orbiter-models is not installed.
    """
    if not isinstance(embedder, str):
        return embedder
    if embedder == HashEmbedder.name:
        return HashEmbedder()
    if ":" not in embedder:
        raise OrbiterError(
            f"'{embedder}' is no embedder: write 'hash' or 'provider:model_name', such as "
            "'openai:text-embedding-3-small'"
        )
    # by name: this package knows the seam, not the package behind it
    try:
        models: Any = importlib.import_module("orbiter.models")
    except ModuleNotFoundError as error:
        if error.name != "orbiter.models":
            raise
        raise OrbiterError(f"the embedder '{embedder}' needs orbiter-models: install it") from error
    found: Embedder = models.get_embedder(embedder)
    return found


def embedder_name(embedder: Embedder) -> str:
    """Return what the vectors of an embedder are called."""
    name = getattr(embedder, "name", None)
    kind = type(embedder)
    return name if isinstance(name, str) and name else f"{kind.__module__}.{kind.__qualname__}"


def normalized(vector: Sequence[float]) -> Vector:
    """Return the vector scaled to length 1, or as it is when it is all zeros."""
    length = sqrt(sum(map(mul, vector, vector)))
    return tuple(value / length for value in vector) if length else tuple(vector)


def dot(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the inner product: for vectors of length 1 the cosine of their angle."""
    product: float = sum(map(mul, left, right))
    return product
