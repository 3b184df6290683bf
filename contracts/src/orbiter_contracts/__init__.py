"""Queue names and messages shared by Orbiter's operator, worker wrapper and tasks."""

from orbiter_contracts.agent_types import AGENT_TYPES
from orbiter_contracts.envelope import InvalidMessageError, decode, encode, text_fields
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

__all__ = [
    "AGENT_TYPES",
    "AgentVerdict",
    "DeveloperWorkerInput",
    "DeveloperWorkerOutput",
    "GitWorkspace",
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
    "SessionRecord",
    "SnapshotReport",
    "Usage",
    "WorkerInput",
    "WorkerLifecycleEvent",
    "WorkerOutput",
    "Workspace",
    "WorkspaceReport",
    "decode",
    "encode",
    "text_fields",
]
