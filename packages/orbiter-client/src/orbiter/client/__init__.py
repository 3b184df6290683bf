"""The tasks of a cluster: submit, follow, answer and cancel them, without kubectl."""

from orbiter.client.client import TaskClient
from orbiter.client.cluster import connect
from orbiter.client.errors import ClientError
from orbiter.client.models import (
    GitSource,
    KeptFile,
    KeptFiles,
    NewTask,
    Submitted,
    Task,
    TaskPage,
    TaskQuery,
    TaskSummary,
    WaitingCall,
)

__all__ = [
    "ClientError",
    "GitSource",
    "KeptFile",
    "KeptFiles",
    "NewTask",
    "Submitted",
    "Task",
    "TaskClient",
    "TaskPage",
    "TaskQuery",
    "TaskSummary",
    "WaitingCall",
    "connect",
]
