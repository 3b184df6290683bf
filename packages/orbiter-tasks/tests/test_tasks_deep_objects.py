"""An AgentTask of strange contents is in nobody's way: the store lists and follows all others."""

import json

import pytest
from support.eventually import eventually
from support.fake_api import api as api

from orbiter.tasks import KubernetesTaskStore, Task, TaskState

MANAGER = "orbiter.dev/task-broker"
STRANGE = {
    "1100 nested objects": b'{"a":' * 1100 + b"1" + b"}" * 1100,
    "500000 empty lists": b"[" + b"[]," * 499_999 + b"[]]",
    "half a character": b'"\\ud800"',
    "an integer of 5000 digits": b"9" * 5000,
    "no UTF-8": b'"\xff\xfe"',
}


@pytest.fixture(params=STRANGE.values(), ids=STRANGE)
async def strange(request, api):
    """An API server whose object `strange` has this in its overlay, among good ones."""
    api.encode = lambda value: json.dumps(value).encode().replace(b'"overlay"', request.param)
    put(api, "first")
    put(api, "strange", podTemplate="overlay")
    put(api, "last")
    return api


@pytest.fixture
async def store(strange, tmp_path):
    made = KubernetesTaskStore("default", run="here", kubeconfig=str(strange.kubeconfig(tmp_path)))
    yield made
    await made.close()


def put(api, name, **spec):
    place = {"name": name, "namespace": "default"}
    api.put(
        "agenttasks", {"metadata": place, "spec": {"managedBy": MANAGER, "prompt": "x", **spec}}
    )


async def test_all_tasks_are_listed_and_may_be_claimed(store):
    claimed = [await store.claim("me", 60) for _ in range(3)]
    assert {task.id for task in claimed} == {"first", "strange", "last"}
    assert await store.claim("me", 60) is None


async def test_changes_of_the_others_are_told(strange, store):
    told = []
    leave = store.watch(lambda change: told.append(change.task_id))
    assert (await store.get("last")).state is TaskState.PENDING
    await eventually(lambda: store._following.known("last") is not None)
    strange.patch("agenttasks", "default", "strange", {"spec": {"prompt": "y"}})
    await store.create(Task(id="behind", input="x"))
    strange.patch("agenttasks", "default", "last", {"spec": {"prompt": "new"}})
    await eventually(lambda: (store._following.known("last") or Task(input="")).input == "new")
    assert "behind" in told
    assert strange.requests["list", "agenttasks"] == 1
    leave()
