"""Orbiter Context: state, prompts, knowledge and checkpoints of an agent at work."""

from orbiter.context._internal.knowledge import KnowledgeChunk, KnowledgeStore
from orbiter.context.checkpoint import Checkpoint, CheckpointStore, MemoryCheckpointStore
from orbiter.context.config import ContextConfig
from orbiter.context.context import Context
from orbiter.context.errors import ArtifactNotFoundError, CheckpointError, ContextError
from orbiter.context.neuron import Neuron, neuron_registry
from orbiter.context.processor import ContextProcessor, PromptAugmenter, ToolResultOffloader
from orbiter.context.prompt_builder import PromptBuilder
from orbiter.context.sqlite_checkpoints import SqliteCheckpointStore
from orbiter.context.state import ContextState
from orbiter.context.token_tracker import TokenTracker, Trajectory, TrajectoryStep
from orbiter.context.tokens import TokenCounter, token_count
from orbiter.context.workspace import Workspace

__all__ = [
    "ArtifactNotFoundError",
    "Checkpoint",
    "CheckpointError",
    "CheckpointStore",
    "Context",
    "ContextConfig",
    "ContextError",
    "ContextProcessor",
    "ContextState",
    "KnowledgeChunk",
    "KnowledgeStore",
    "MemoryCheckpointStore",
    "Neuron",
    "PromptAugmenter",
    "PromptBuilder",
    "SqliteCheckpointStore",
    "TokenCounter",
    "TokenTracker",
    "ToolResultOffloader",
    "Trajectory",
    "TrajectoryStep",
    "Workspace",
    "neuron_registry",
    "token_count",
]
