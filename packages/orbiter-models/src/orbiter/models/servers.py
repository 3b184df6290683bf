"""Servers that speak OpenAI's chat completions, by name: where they are, and in what they differ.

`groq:llama-3.3-70b-versatile` needs neither an address nor a class of its own: a server is an entry
of a table, and `register_server` adds another one.
"""

from functools import partial

from orbiter.models._internal.server import THOUGHTS as _THOUGHTS
from orbiter.models._internal.server import ModelServer
from orbiter.models.openai import OpenAIProvider
from orbiter.models.provider import model_registry


def register_server(server: ModelServer) -> None:
    """Make a server known by its name, for model strings.

    Raises:
        RegistryError: The name is taken; `model_registry.unregister` makes it free.
    """
    model_registry.register(server.name, partial(OpenAIProvider, server=server))


def _hosted(name: str, base_url: str, **differences: object) -> ModelServer:
    data = {"name": name, "base_url": base_url, "key_variable": f"{name.upper()}_API_KEY"}
    return ModelServer.model_validate({**data, **differences})


def _local(name: str, port: int) -> ModelServer:
    # what it does not know it ignores
    url = f"http://localhost:{port}/v1"
    return _hosted(name, url, needs_key=False, thoughts=_THOUGHTS)


SERVERS = (
    _local("ollama", 11434),
    _local("vllm", 8000),
    _local("lmstudio", 1234),
    _hosted(
        "cerebras",
        "https://api.cerebras.ai/v1",
        tokens_field="max_completion_tokens",
    ),
    # its models can be bound to an object, not to a schema
    _hosted(
        "deepseek",
        "https://api.deepseek.com",
        json_schema=False,
        thoughts=("reasoning_content",),
    ),
    _hosted(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        thoughts=("reasoning_content",),
    ),
    # of these some models take a schema, and some refuse the request
    _hosted(
        "groq",
        "https://api.groq.com/openai/v1",
        tokens_field="max_completion_tokens",
        json_schema=False,
    ),
    _hosted(
        "mistral",
        "https://api.mistral.ai/v1",
        seed_field="random_seed",
        stream_usage=False,
        short_call_ids=True,
        dimensions_field="output_dimension",
    ),
    _hosted(
        "moonshot",
        "https://api.moonshot.ai/v1",
        json_schema=False,
        thoughts=("reasoning_content",),
    ),
    _hosted(
        "openrouter",
        "https://openrouter.ai/api/v1",
        json_schema=False,
        thoughts=("reasoning",),
    ),
    _hosted("together", "https://api.together.xyz/v1", json_schema=False),
    _hosted("xai", "https://api.x.ai/v1"),
)

for _server in SERVERS:
    register_server(_server)
