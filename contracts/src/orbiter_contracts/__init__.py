"""Queue names and messages shared by Orbiter's operator, worker wrapper and tasks."""

from orbiter_contracts.agent_types import AGENT_TYPES, AGENTS
from orbiter_contracts.artifacts import ArtifactsReport
from orbiter_contracts.checkpoints import Checkpoint, DisruptionPolicy, read_checkpoint
from orbiter_contracts.clamping import clamped_cost, clamped_count, clamped_data, fitted
from orbiter_contracts.envelope import (
    InvalidMessageError,
    decode,
    decode_json,
    encode,
    excerpt,
    text_fields,
)
from orbiter_contracts.input_requests import InputAnswer, InputCall, InputRequest
from orbiter_contracts.messages import (
    AgentVerdict,
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    GitWorkspace,
    LifecycleEventName,
    OutputStatus,
    POWorkerInput,
    POWorkerOutput,
    SessionRecord,
    Usage,
    WorkerInput,
    WorkerLifecycleEvent,
    WorkerOutput,
    Workspace,
    WorkspaceReport,
)
from orbiter_contracts.po_state import (
    PORotation,
    POState,
    POTurn,
    POWorkerState,
    RotationReason,
    SnapshotReport,
)
from orbiter_contracts.routing import Route, read_route

__all__ = [
    "AGENTS",
    "AGENT_TYPES",
    "AgentVerdict",
    "ArtifactsReport",
    "Checkpoint",
    "DeveloperWorkerInput",
    "DeveloperWorkerOutput",
    "DisruptionPolicy",
    "GitWorkspace",
    "InputAnswer",
    "InputCall",
    "InputRequest",
    "InvalidMessageError",
    "LifecycleEventName",
    "OutputStatus",
    "PORotation",
    "POState",
    "POTurn",
    "POWorkerInput",
    "POWorkerOutput",
    "POWorkerState",
    "RotationReason",
    "Route",
    "SessionRecord",
    "SnapshotReport",
    "Usage",
    "WorkerInput",
    "WorkerLifecycleEvent",
    "WorkerOutput",
    "Workspace",
    "WorkspaceReport",
    "clamped_cost",
    "clamped_count",
    "clamped_data",
    "decode",
    "decode_json",
    "encode",
    "excerpt",
    "fitted",
    "read_checkpoint",
    "read_route",
    "text_fields",
]
