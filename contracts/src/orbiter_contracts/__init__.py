"""Queue names and messages shared by Orbiter's operator, worker wrapper and tasks."""

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

__all__ = [
    "AgentVerdict",
    "DeveloperWorkerInput",
    "DeveloperWorkerOutput",
    "GitWorkspace",
    "InvalidMessageError",
    "LifecycleEventName",
    "OutputStatus",
    "POWorkerInput",
    "POWorkerOutput",
    "SessionRecord",
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
