"""Vectors by Google's embedding models, of Gemini's own API and on Vertex."""

from collections.abc import Sequence
from typing import Any

from orbiter.models._internal.arguments import listed
from orbiter.models._internal.google_client import GoogleClient
from orbiter.models._internal.vectors import Vector, read


async def embed(
    client: GoogleClient, model: str, texts: Sequence[str], dimensions: int | None
) -> list[Vector]:
    """Ask for one vector per text.

    Raises:
        ModelError: There is no answer, or one without them.
    """

    async def ask(sdk: Any) -> Any:
        request = client.typed_texts(model, texts, dimensions)
        try:
            return await sdk.aio.models.embed_content(**request)
        except ValueError as error:
            # so the SDK says that an answer does not fit its types, or a model not the API
            raise client.error(f"no vectors: {str(error)[:500]}") from error

    answer = await client.send(ask)
    items = [
        {"vector": getattr(item, "values", None)}
        for item in listed(getattr(answer, "embeddings", None))
    ]
    return read(items, len(texts), client.error)
