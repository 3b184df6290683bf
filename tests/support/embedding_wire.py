"""Embeddings for the local server: requests and answers, both held against the SDKs' types."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.vendor_types import check_request


def spelled(text: str, length: int = 64) -> list[float]:
    """Return a vector by spelling, as the model of a page gives it."""
    counts = [0.0] * length
    for at in range(len(text) - 1):
        counts[zlib.crc32(text[at : at + 2].lower().encode()) % length] += 1.0
    return counts


@dataclass(frozen=True)
class Vectors:
    """What an embedding model answers.

    `of` makes the vector of a text. `items` changes what the answer holds before it is sent: then
    it need not fit the SDK's types any more.
    """

    of: Callable[[str], list[float]] = lambda text: [float(len(text)), 1.0]
    items: Callable[[list[Any]], Any] | None = None


def check_openai_embeddings(body: dict[str, Any]) -> None:
    """Refuse what the API refuses, and what the SDK's types do not know."""
    known = {name: value for name, value in body.items() if name != "output_dimension"}
    check_request("embeddings", known)
    texts = body["input"]
    assert 0 < len(texts) <= 2048, "input must have 1 to 2048 texts"
    assert all(texts), "'$.input' is invalid: an empty string"


def openai_vectors(answer: Vectors, body: dict[str, Any]) -> dict[str, Any]:
    """Write the answer of `/v1/embeddings`."""
    from openai.types import CreateEmbeddingResponse

    items: list[Any] = [
        {"object": "embedding", "index": at, "embedding": answer.of(text)}
        for at, text in enumerate(body["input"])
    ]
    told = {
        "object": "list",
        "model": body["model"],
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
        "data": items,
    }
    CreateEmbeddingResponse.model_validate(told, strict=True)
    return told if answer.items is None else {**told, "data": answer.items(items)}


def check_google_embeddings(body: dict[str, Any]) -> None:
    """Refuse what `batchEmbedContents` refuses, and what the SDK's types do not know."""
    from google.genai import types

    assert body.keys() == {"requests"}
    assert 0 < len(body["requests"]) <= 100, "at most 100 requests can be in one batch"
    for one in body["requests"]:
        # on Vertex the model stands in the address alone
        assert one.get("model", "models/m").startswith("models/"), one["model"]
        content = types.Content.model_validate(one["content"])
        assert [part.text for part in content.parts or () if part.text], "empty content"
        config = {name: one[name] for name in one if name not in ("model", "content")}
        # Vertex has the rest in an object of its own
        types.EmbedContentConfig.model_validate(config.pop("embedContentConfig", {}) | config)


def google_vectors(answer: Vectors, body: dict[str, Any]) -> dict[str, Any]:
    """Write the answer of `batchEmbedContents`."""
    from google.genai import types

    texts = [one["content"]["parts"][0]["text"] for one in body["requests"]]
    items: list[Any] = [{"values": answer.of(text)} for text in texts]
    types.EmbedContentResponse.model_validate({"embeddings": items})
    return {"embeddings": items if answer.items is None else answer.items(items)}


def check_vertex_embeddings(body: dict[str, Any]) -> None:
    """Refuse what `predict` of an embedding model refuses."""
    assert body.keys() <= {"instances", "parameters"}
    for one in body["instances"]:
        assert one.keys() <= {"content", "task_type", "title"}
        assert one["content"], "empty content"


def vertex_vectors(answer: Vectors, body: dict[str, Any]) -> dict[str, Any]:
    """Write the answer of `predict`."""
    return {
        "predictions": [
            {
                "embeddings": {
                    "values": answer.of(one["content"]),
                    "statistics": {"token_count": 2, "truncated": False},
                }
            }
            for one in body["instances"]
        ]
    }
