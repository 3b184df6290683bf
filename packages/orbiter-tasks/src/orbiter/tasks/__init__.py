"""Orbiter Tasks: one life of a task, over whichever store you choose."""

from orbiter.tasks.agents import AgentSpec, InputRequiredError, TaskAgent, ask_user
from orbiter.tasks.broker import TaskBroker
from orbiter.tasks.contract import (
    Change,
    EventLog,
    Guard,
    LeasingStore,
    TaskStore,
    WatchableStore,
)
from orbiter.tasks.kubernetes import KubernetesTaskStore
from orbiter.tasks.models import EventType, Task, TaskEvent
from orbiter.tasks.paging import PagedStore, TaskPage, page_of
from orbiter.tasks.sqlite import TaskStoreSqlite
from orbiter.tasks.state import (
    TERMINAL_STATES,
    OtherRequestError,
    TaskError,
    TaskNotFoundError,
    TaskState,
    TransitionError,
)
from orbiter.tasks.store import TaskStoreJson, TaskStoreMemory
from orbiter.tasks.versioned import VersionedStore
from orbiter.tasks.worker import Worker

__all__ = [
    "TERMINAL_STATES",
    "AgentSpec",
    "Change",
    "EventLog",
    "EventType",
    "Guard",
    "InputRequiredError",
    "KubernetesTaskStore",
    "LeasingStore",
    "OtherRequestError",
    "PagedStore",
    "Task",
    "TaskAgent",
    "TaskBroker",
    "TaskError",
    "TaskEvent",
    "TaskNotFoundError",
    "TaskPage",
    "TaskState",
    "TaskStore",
    "TaskStoreJson",
    "TaskStoreMemory",
    "TaskStoreSqlite",
    "TransitionError",
    "VersionedStore",
    "WatchableStore",
    "Worker",
    "ask_user",
    "page_of",
]
