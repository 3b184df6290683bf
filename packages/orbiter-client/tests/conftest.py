"""A cluster's API server in the test's own process, and clients of it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_api import FakeApi
from support.fake_api import api as api

from orbiter.client import TaskClient, connect

Object = dict[str, Any]


@pytest.fixture
async def tasks(api: FakeApi, tmp_path: Path) -> AsyncIterator[TaskClient]:
    """A client by a kubeconfig, whom the API server knows as ada."""
    ada = {"status": {"userInfo": {"username": "ada"}}}
    api.reviews["selfsubjectreviews"] = lambda body: {**body, **ada}
    async with connect(kubeconfig=str(api.kubeconfig(tmp_path))) as client:
        yield client


def put_task(api: FakeApi, name: str = "fix", **status: Any) -> Object:
    """Put a task into team-a, as its operator would have it."""
    old = api.get("agenttasks", "team-a", name)
    spec = old["spec"] if old else {"prompt": "Fix it", "agent": {"type": "claude"}}
    meta = {"name": name, "namespace": "team-a"}
    return api.put("agenttasks", {"metadata": meta, "spec": spec, "status": status})
