from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orbiter.tasks import TaskStore, TaskStoreJson, TaskStoreMemory, TaskStoreSqlite
from orbiter.tasks.conformance import TaskStoreConformance

from .six_methods import SixMethods


class TestMemory(TaskStoreConformance):
    @pytest.fixture
    def store(self) -> TaskStore:
        return TaskStoreMemory()


class TestJson(TaskStoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> TaskStore:
        return TaskStoreJson(tmp_path / "tasks")

    async def reopened(self, store: TaskStoreJson) -> TaskStore:
        return TaskStoreJson(store.directory)


class TestSqlite(TaskStoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[TaskStore]:
        store = TaskStoreSqlite(tmp_path / "tasks.db")
        yield store
        await store.close()

    async def reopened(self, store: TaskStoreSqlite) -> TaskStore:
        await store.close()
        return TaskStoreSqlite(store.path)


class TestSixMethodsBehindTheAdapter(TaskStoreConformance):
    @pytest.fixture
    def store(self) -> TaskStore:
        return SixMethods()
