"""Orbiter Models: providers of language models, and a scripted one for tests."""

# they enter themselves as providers
from orbiter.models import anthropic, clouds, openai  # noqa: F401
from orbiter.models._internal.guard import ModelCallForbiddenError, forbid_real_calls
from orbiter.models._internal.server import ModelServer
from orbiter.models.embedding import ModelEmbedder, get_embedder
from orbiter.models.fallback import FallbackError, FallbackModel
from orbiter.models.limited import LimitedModel, limit_model
from orbiter.models.limits import ModelLimits
from orbiter.models.provider import ModelProvider, get_provider, model_registry
from orbiter.models.scripted import ModelRequest, ScriptedModel, call
from orbiter.models.servers import register_server
from orbiter.models.types import (
    FinishReason,
    ModelError,
    ModelResponse,
    StreamChunk,
    ToolCallDelta,
)

__all__ = [
    "FallbackError",
    "FallbackModel",
    "FinishReason",
    "LimitedModel",
    "ModelCallForbiddenError",
    "ModelEmbedder",
    "ModelError",
    "ModelLimits",
    "ModelProvider",
    "ModelRequest",
    "ModelResponse",
    "ModelServer",
    "ScriptedModel",
    "StreamChunk",
    "ToolCallDelta",
    "call",
    "forbid_real_calls",
    "get_embedder",
    "get_provider",
    "limit_model",
    "model_registry",
    "register_server",
]
