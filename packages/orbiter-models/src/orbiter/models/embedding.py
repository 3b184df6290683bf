"""Vectors of texts by embedding models: `get_embedder("openai:text-embedding-3-small")`.

Models are named as those of agents are, with the same keys, addresses and limits; what stands
before the first colon says who is asked. A memory takes such an embedder, or its name.
"""

from collections.abc import Iterator, Sequence

from orbiter.models._internal.vectors import MAX_DIMENSIONS, Vector
from orbiter.models.provider import ModelProvider, get_provider
from orbiter.models.types import ModelError

BATCH_SIZE = 100
"""Texts of one request; Google takes no more."""
BATCH_CHARS = 200_000
"""Characters of one request; OpenAI takes 300,000 tokens, and a character may be one."""


class ModelEmbedder:
    """Turns texts into vectors by asking a model, in batches.

    Attributes:
        name: The model string: vectors of different names have nothing in common.
    """

    def __init__(
        self,
        provider: ModelProvider,
        name: str,
        *,
        dimensions: int | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        """Ask a provider for vectors; nothing is sent yet.

        Args:
            provider: One whose `embed` gives vectors.
            name: What the vectors are called, the model string.
            dimensions: How many numbers a vector is to have, of a model that can shorten them.
            batch_size: How many texts are sent at once, at most.

        Raises:
            ModelError: One of the numbers is out of bounds.
        """
        self.name = name
        self._provider = provider
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._length = dimensions
        if batch_size < 1:
            raise self._error(f"batch_size is {batch_size}: give 1 or more")
        if dimensions is not None and not 1 <= dimensions <= MAX_DIMENSIONS:
            raise self._error(f"dimensions is {dimensions}: give 1 to {MAX_DIMENSIONS}")

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, all of one length.

        Raises:
            ModelError: A text is empty, there was no answer, or one that holds no such vectors.
        """
        for at, text in enumerate(texts):
            if not text.strip():
                raise self._error(f"text {at} of {len(texts)} is empty: leave it out")
        found: list[Vector] = []
        for batch in _batches(texts, self._batch_size):
            vectors = await self._provider.embed(batch, dimensions=self._dimensions)
            self._check(batch, vectors)
            found += vectors
        return found

    async def aclose(self) -> None:
        """Close the connections."""
        await self._provider.aclose()

    def _check(self, batch: Sequence[str], vectors: Sequence[Vector]) -> None:
        if len(vectors) != len(batch):
            raise self._error(f"the answer holds {len(vectors)} vectors for {len(batch)} texts")
        for vector in vectors:
            if self._length is None:
                self._length = len(vector)
            if len(vector) == self._length:
                continue
            asked = self._dimensions is not None
            wanted = f"dimensions={self._dimensions}" if asked else f"{self._length}, as before"
            raise self._error(
                f"a vector has {len(vector)} numbers and not {wanted}: "
                + ("leave dimensions out" if asked else "has the server another model now?")
            )

    def _error(self, problem: str) -> ModelError:
        return ModelError(problem, model=self.name)


def get_embedder(
    model: str,
    *,
    dimensions: int | None = None,
    batch_size: int = BATCH_SIZE,
    api_key: str | None = None,
    base_url: str | None = None,
    max_retries: int | None = None,
    timeout: float | None = None,
) -> ModelEmbedder:
    """Return the embedder of a model string. Nothing is sent yet and no SDK is imported.

    Args:
        model: "provider:model_name", of OpenAI, Azure, Google, Vertex or a compatible server:
            "openai:text-embedding-3-small", "google:gemini-embedding-001", "ollama:bge-m3".
        dimensions: How many numbers a vector is to have, of a model that can shorten them.
        batch_size: How many texts are sent at once, at most.
        api_key: By default the provider's environment variable.
        base_url: Where the provider answers, for compatible servers and proxies.
        max_retries: Further tries after a 429, a 5xx or a lost connection.
        timeout: Seconds one call may take.

    Raises:
        RegistryError: The provider is unknown; the text lists those that are known.
        ModelError: There is no key, the provider has no embeddings, or a number is out of bounds.
    """
    provider = get_provider(
        model, api_key=api_key, base_url=base_url, max_retries=max_retries, timeout=timeout
    )
    if not provider.embeddings:
        raise ModelError(
            "it makes no vectors: name an embedding model of openai, google or a compatible "
            "server, such as openai:text-embedding-3-small",
            model=model,
        )
    name = model if ":" in model else f"openai:{model}"
    return ModelEmbedder(provider, name, dimensions=dimensions, batch_size=batch_size)


def _batches(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    """Cut texts into batches; a text that is too long for one is one alone."""
    batch: list[str] = []
    chars = 0
    for text in texts:
        if batch and (len(batch) >= size or chars + len(text) > BATCH_CHARS):
            yield batch
            batch, chars = [], 0
        batch.append(text)
        chars += len(text)
    if batch:
        yield batch
