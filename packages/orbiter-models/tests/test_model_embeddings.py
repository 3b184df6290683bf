"""Embedders by the real SDKs, against a server whose requests and answers fit the SDKs' types."""

import math
import subprocess
import sys

import pytest
from support.embedding_wire import Vectors
from support.model_wire import Refusal, WireServer

from orbiter.models import (
    ModelCallForbiddenError,
    ModelError,
    ModelLimits,
    ScriptedModel,
    forbid_real_calls,
    get_embedder,
    limit_model,
)
from orbiter.models.embedding import BATCH_CHARS, MAX_DIMENSIONS, ModelEmbedder
from orbiter.models.servers import SERVERS
from orbiter.registry import RegistryError

KEYS = ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    forbid_real_calls(False)
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    for server in SERVERS:
        monkeypatch.delenv(server.url_variable, raising=False)
        monkeypatch.setenv(server.key_variable, "sk-of-theirs")


@pytest.fixture
async def at():
    """Make embedders of model strings, whom one local server answers."""
    async with WireServer().running() as wire:
        made = []

        def make(model, *answers, **options):
            path = "" if model.partition(":")[0] in ("google", "azure", "vertex") else "/v1"
            options = {"api_key": "sk-test", "max_retries": 0, **options}
            embedder = get_embedder(model, base_url=wire.url + path, **options)
            wire.answers.extend(answers)
            made.append(embedder)
            return embedder, wire

        yield make
        for embedder in made:
            await embedder.aclose()


async def test_openai_is_asked_for_a_batch_of_numbers(at):
    embedder, wire = at("openai:text-embedding-3-small", Vectors())
    assert await embedder.embed(["Bern", "Paris, France"]) == [(4.0, 1.0), (13.0, 1.0)]
    [request] = wire.received
    assert request.headers["authorization"] == "Bearer sk-test"
    assert request.body == {
        "model": "text-embedding-3-small",
        "input": ["Bern", "Paris, France"],
        "encoding_format": "float",
    }


async def test_google_is_asked_for_one_vector_per_text(at):
    embedder, wire = at("google:gemini-embedding-001", Vectors(), dimensions=2)
    assert await embedder.embed(["Bern", "Paris, France"]) == [(4.0, 1.0), (13.0, 1.0)]
    [request] = wire.received
    assert request.headers["x-goog-api-key"] == "sk-test"
    assert request.path.endswith("/models/gemini-embedding-001:batchEmbedContents")
    assert request.body["requests"] == [
        {
            "model": "models/gemini-embedding-001",
            "content": {"role": "user", "parts": [{"text": text}]},
            "outputDimensionality": 2,
        }
        for text in ("Bern", "Paris, France")
    ]


async def test_googles_model_of_pictures_too_gives_a_vector_per_text(at):
    embedder, _ = at("google:gemini-embedding-2", Vectors())
    assert await embedder.embed(["a", "bb", "ccc"]) == [(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]


@pytest.mark.parametrize(
    ("model", "verb"),
    [("text-embedding-005", "predict"), ("gemini-embedding-001", "batchEmbedContents")],
)
async def test_vertex_is_asked_in_the_words_of_its_model(at, monkeypatch, model, verb):
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    embedder, wire = at(f"vertex:{model}", Vectors(), dimensions=2)
    assert await embedder.embed(["a", "bb"]) == [(1.0, 1.0), (2.0, 1.0)]
    assert wire.received[0].path.endswith(f"/publishers/google/models/{model}:{verb}")


async def test_azure_is_asked_for_its_deployment(at, monkeypatch):
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-04-01-preview")
    embedder, wire = at("azure:small", Vectors())
    assert await embedder.embed(["a"]) == [(1.0, 1.0)]
    assert wire.received[0].path == "/openai/deployments/small/embeddings"


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
async def test_each_compatible_server_is_asked_by_its_name_and_in_its_words(at, server):
    embedder, wire = at(f"{server.name}:bge-m3", Vectors(), dimensions=2, api_key=None)
    assert await embedder.embed(["a"]) == [(1.0, 1.0)]
    [request] = wire.received
    assert request.headers["authorization"] == "Bearer sk-of-theirs"
    assert request.body[server.dimensions_field] == 2
    assert embedder.name == f"{server.name}:bge-m3"


async def test_texts_go_in_batches_by_number_and_by_length(at):
    embedder, wire = at("openai:m", *[Vectors()] * 4, batch_size=3)
    long = "x" * (BATCH_CHARS + 1)
    texts = ["a", "bb", "ccc", "dddd", long, "e"]
    assert [vector[0] for vector in await embedder.embed(texts)] == [*map(float, map(len, texts))]
    assert [len(request.body["input"]) for request in wire.received] == [3, 1, 1, 1]


async def test_no_texts_ask_nobody(at):
    embedder, wire = at("openai:m")
    assert await embedder.embed([]) == []
    assert wire.received == []


async def test_vectors_in_another_order_are_put_in_that_of_the_texts(at):
    embedder, _ = at("openai:m", Vectors(items=lambda items: items[::-1]))
    assert await embedder.embed(["a", "bb"]) == [(1.0, 1.0), (2.0, 1.0)]


async def test_a_server_that_numbers_nothing_is_taken_by_its_word(at):
    unnumbered = Vectors(items=lambda items: [{"embedding": i["embedding"]} for i in items])
    embedder, _ = at("openai:m", unnumbered)
    assert await embedder.embed(["a", "bb"]) == [(1.0, 1.0), (2.0, 1.0)]


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        (lambda items: items[:1], "holds 1 vectors for 2 texts"),
        (lambda items: None, "holds 0 vectors for 2 texts"),
        (lambda items: "many", "holds 0 vectors for 2 texts"),
        (lambda items: [{**i, "embedding": []} for i in items], "no usable vectors: 0.vector"),
        (lambda items: [{**i, "embedding": "AACAPw=="} for i in items], "no usable vectors"),
        (lambda items: [{**i, "embedding": [math.nan]} for i in items], "finite number"),
        (lambda items: [{**i, "embedding": [math.inf]} for i in items], "finite number"),
        (lambda items: [{**i, "embedding": ["a"]} for i in items], "no usable vectors: 0.vector.0"),
        (
            lambda items: [{**i, "embedding": [0.5] * (MAX_DIMENSIONS + 1)} for i in items],
            "at most",
        ),
        (lambda items: [{**i, "index": 0} for i in items], "which vector is of which text"),
        (lambda items: [items[0], {**items[1], "embedding": [1.0]}], "has 1 numbers and not 2"),
        (lambda items: ["a", 7], "no usable vectors"),
    ],
)
async def test_what_is_no_vector_is_refused_by_name_of_the_model(at, items, problem):
    embedder, _ = at("openai:m", Vectors(items=items))
    with pytest.raises(ModelError, match=problem) as caught:
        await embedder.embed(["a", "bb"])
    assert "m]" in str(caught.value)
    assert not caught.value.retryable


@pytest.mark.parametrize("items", [lambda items: items[:1], lambda items: [{"values": []}] * 2])
async def test_googles_answers_are_checked_as_well(at, items):
    embedder, _ = at("google:m", Vectors(items=items))
    with pytest.raises(ModelError, match=r"^\[m\] the answer holds"):
        await embedder.embed(["a", "bb"])


async def test_a_length_other_than_that_asked_for_is_named(at):
    embedder, _ = at("openai:m", Vectors(), dimensions=256)
    with pytest.raises(ModelError, match="has 2 numbers and not dimensions=256: leave dimensions"):
        await embedder.embed(["a"])


async def test_another_length_than_before_is_named(at):
    embedder, _ = at("vllm:m", Vectors(), Vectors(of=lambda text: [1.0]))
    await embedder.embed(["a"])
    with pytest.raises(ModelError, match="1 numbers and not 2, as before: has the server another"):
        await embedder.embed(["a"])


async def test_an_empty_text_is_named_before_anything_is_sent(at):
    embedder, wire = at("openai:m")
    with pytest.raises(ModelError, match="text 1 of 2 is empty"):
        await embedder.embed(["a", " \n"])
    assert wire.received == []


@pytest.mark.parametrize("model", ["openai:m", "google:m"])
async def test_a_refusal_names_model_and_server(at, model):
    embedder, _ = at(model, Refusal(404, "model not found"))
    with pytest.raises(ModelError, match=r"^\[m\] \w+ answered 404: .*model not found") as caught:
        await embedder.embed(["a"])
    assert "asked at http://127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("model", ["openai:m", "google:m"])
async def test_a_busy_server_is_asked_again(at, model):
    busy = Refusal(429, headers={"retry-after": "0"})
    embedder, wire = at(model, busy, Vectors(), max_retries=1)
    assert await embedder.embed(["a"]) == [(1.0, 1.0)]
    assert len(wire.received) == 2


async def test_limits_of_a_model_hold_for_its_vectors(at):
    limits = ModelLimits(requests_per_minute=100)
    limit_model("openai:limited-embedding", limits)
    try:
        busy = Refusal(429, headers={"retry-after": "0"})
        embedder, wire = at("openai:limited-embedding", busy, Vectors(), max_retries=1)
        assert await embedder.embed(["a"]) == [(1.0, 1.0)]
        assert len(wire.received) == 2
    finally:
        limit_model("openai:limited-embedding", None)


@pytest.mark.parametrize("model", ["openai:m", "google:m", "mistral:m"])
def test_a_key_is_needed_as_for_the_model(model, monkeypatch):
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    with pytest.raises(ModelError, match=r"no API key: set [A-Z]+_API_KEY"):
        get_embedder(model)


def test_who_has_no_embeddings_is_told_who_has():
    with pytest.raises(ModelError, match=r"\[anthropic:claude\].*openai:text-embedding-3-small"):
        get_embedder("anthropic:claude", api_key="k")
    with pytest.raises(RegistryError, match="nobody"):
        get_embedder("nobody:m")


async def test_a_provider_without_embeddings_says_so():
    with pytest.raises(ModelError, match=r"\[scripted\] it makes no vectors"):
        await ModelEmbedder(ScriptedModel("x"), "scripted").embed(["a"])


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"dimensions": 0}, {"dimensions": 99_999}])
def test_numbers_out_of_bounds_are_named(wrong):
    [name] = wrong
    with pytest.raises(ModelError, match=rf"^\[openai:m\] {name} is {wrong[name]}"):
        get_embedder("openai:m", api_key="k", **wrong)


async def test_without_a_prefix_the_model_is_openais(at):
    assert at("m")[0].name == "openai:m"


async def test_embeddings_are_real_calls_that_can_be_forbidden(at):
    embedder, wire = at("openai:m")
    forbid_real_calls()
    with pytest.raises(ModelCallForbiddenError):
        await embedder.embed(["a"])
    assert wire.received == []


def test_nothing_is_imported_before_the_first_call():
    code = (
        "import sys; from orbiter.models import get_embedder; "
        "get_embedder('openai:m', api_key='k'); get_embedder('google:m', api_key='k'); "
        "print({'openai', 'google.genai', 'httpx'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
