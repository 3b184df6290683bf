"""Brokers over each store, and agents that wait until they are let go on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orbiter.tasks import Task, TaskStore, TaskStoreJson, TaskStoreMemory, TaskStoreSqlite

from .six_methods import SixMethods


@pytest.fixture(params=["memory", "json", "sqlite", "six methods"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TaskStore]:
    if request.param == "memory":
        yield TaskStoreMemory()
    elif request.param == "json":
        yield TaskStoreJson(tmp_path / "tasks")
    elif request.param == "six methods":
        yield SixMethods()
    else:
        sqlite = TaskStoreSqlite(tmp_path / "tasks.db")
        yield sqlite
        await sqlite.close()


class Gate:
    """An agent that begins, and ends when it is let through."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.open = asyncio.Event()
        self.runs: list[str] = []
        self.stopped: list[str] = []
        self.most = 0

    async def __call__(self, task: Task) -> str:
        self.runs.append(task.id)
        self.began.set()
        self.most = max(self.most, len(self.runs) - len(self.stopped))
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.stopped.append(task.id)
            raise
        return f"{task.input}!"

    @property
    def agents(self) -> dict[str, object]:
        async def gate(task: Task) -> str:
            return await self(task)

        return {"default": gate}


@pytest.fixture
def gate() -> Gate:
    return Gate()
