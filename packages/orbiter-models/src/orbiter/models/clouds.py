"""Providers that are read when they are named: Gemini, and the vendors' models in clouds."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from orbiter.config import ModelConfig
from orbiter.models.provider import ModelProvider, model_registry


def _of(module: str, name: str, **options: Any) -> Callable[[ModelConfig], ModelProvider]:
    def make(config: ModelConfig) -> ModelProvider:
        provider: ModelProvider = getattr(import_module(module), name)(config, **options)
        return provider

    return make


model_registry.register("google", _of("orbiter.models.google", "GoogleProvider"))
model_registry.register("azure", _of("orbiter.models.azure", "AzureProvider"))
for _api in ("chat", "responses"):
    model_registry.register(f"azure-{_api}", _of("orbiter.models.azure", "AzureProvider", api=_api))
model_registry.register("bedrock", _of("orbiter.models.bedrock", "BedrockProvider"))
model_registry.register("vertex", _of("orbiter.models.vertex", "vertex_provider"))
