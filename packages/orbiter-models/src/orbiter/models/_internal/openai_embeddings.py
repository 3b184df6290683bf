"""`/v1/embeddings`, as OpenAI and the servers that speak like it have it."""

from collections.abc import Sequence
from typing import Any

from orbiter.models._internal.arguments import listed
from orbiter.models._internal.sdk import SdkClient
from orbiter.models._internal.server import ModelServer
from orbiter.models._internal.vectors import Vector, read


async def embed(
    client: SdkClient,
    server: ModelServer,
    model: str,
    texts: Sequence[str],
    dimensions: int | None,
) -> list[Vector]:
    """Ask for one vector per text.

    Raises:
        ModelError: There is no answer, or one without them.
    """
    # numbers and not Base64, which not every server knows
    request: dict[str, Any] = {"model": model, "input": list(texts), "encoding_format": "float"}
    if dimensions is not None and server.dimensions_field == "dimensions":
        request["dimensions"] = dimensions
    elif dimensions is not None:
        request["extra_body"] = {server.dimensions_field: dimensions}

    async def ask(sdk: Any) -> Any:
        try:
            return await sdk.embeddings.create(**request)
        except (ValueError, TypeError) as error:
            # so the SDK says that an answer is none of embeddings
            raise client.error(f"the answer holds no vectors: {error}") from error

    answer = await client.send(ask)
    items = [
        {"vector": getattr(item, "embedding", None), "index": getattr(item, "index", None)}
        for item in listed(getattr(answer, "data", None))
    ]
    return read(items, len(texts), client.error)
