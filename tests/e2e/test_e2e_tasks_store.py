"""The cluster as a store of tasks: the conformance suite, and the five lines of every store."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client, config
from support.cluster import Cluster
from support.markdown_blocks import blocks_of
from support.world import NAMESPACE, World

from orbiter.tasks import (
    KubernetesTaskStore,
    Task,
    TaskBroker,
    TaskError,
    TaskState,
    TaskStore,
    TransitionError,
)
from orbiter.tasks.conformance import TaskStoreConformance

PAGE = Path(__file__).parents[2] / "docs" / "tasks.md"
AGENT = {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}}
SPECS = {"default": {"agent": AGENT, "timeoutSeconds": 120}}
# A request that is cancelled while it connects leaves its socket to the garbage collector: what
# aiohttp had not yet got from the event loop it cannot close.
pytestmark = pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning")
ASK = '[[attempt: 1]] [[result: {"status": "input_required", "summary": "", "question": "Which?"}]]'


@pytest.fixture(scope="module", autouse=True)
def sockets_collected_here() -> Iterator[None]:
    """Not in whatever test comes next, where the same warning is an error."""
    yield
    gc.collect()


@pytest.fixture
async def empty(world: World) -> World:
    """The namespace without any tasks."""
    settings = client.Configuration()
    await config.load_kube_config(str(world.cluster.kubeconfig), client_configuration=settings)
    async with client.ApiClient(settings) as api:
        await client.CustomObjectsApi(api).delete_collection_namespaced_custom_object(
            "orbiter.dev", "v1alpha1", NAMESPACE, "agenttasks"
        )
    return world


class TestAgentTasksThatBrokersRun(TaskStoreConformance):
    """In a namespace that the operator watches: it leaves them alone."""

    @pytest.fixture(autouse=True)
    def nothing_left_over(self) -> None:
        """Nothing to wait for: these tasks have no pods, and each test begins with none."""

    @pytest.fixture
    async def store(self, empty: World) -> AsyncIterator[TaskStore]:
        made = on(empty.cluster, run="here")
        yield made
        await made.close()

    async def reopened(self, store: KubernetesTaskStore) -> TaskStore:
        await store.close()
        return store


@pytest.fixture
async def store(world: World) -> AsyncIterator[KubernetesTaskStore]:
    """The cluster, whose operator runs the tasks."""
    made = on(world.cluster, specs=SPECS)
    yield made
    await made.close()


def on(cluster: Cluster, **options: object) -> KubernetesTaskStore:
    """A store in the namespace of these tests."""
    return KubernetesTaskStore(NAMESPACE, kubeconfig=str(cluster.kubeconfig), **options)  # type: ignore[arg-type]


async def test_the_five_lines_run_on_the_cluster_too(store: KubernetesTaskStore) -> None:
    async with TaskBroker(store) as broker:
        task_id = await broker.submit('[[result: {"summary": "entangled"}]]', topic="physics")
        task = await broker.wait(task_id)
        print(task.result)
    assert (task.state, task.result) == (TaskState.COMPLETED, "entangled")
    assert task.metadata == {"topic": "physics"}


async def test_the_page_on_tasks_says_what_is_so_of_the_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = (block for block in blocks_of(PAGE) if "KubernetesTaskStore(" in block.code)
    monkeypatch.setenv("KUBECONFIG", str(world.cluster.kubeconfig))
    names: dict[str, Any] = {"TaskBroker": TaskBroker}
    exec(block.code.replace("team-a", NAMESPACE), names)
    await names["explain"]()
    assert "scripted model" in capsys.readouterr().out


async def test_every_reader_sees_the_same_events_and_callbacks_come(
    store: KubernetesTaskStore,
) -> None:
    seen: list[TaskState] = []

    async def told(task: Task) -> None:
        seen.append(task.state)

    async with TaskBroker(store) as broker:
        task_id = await broker.submit("[[bash: sleep 1]]\n[[result]]")

        async def follow() -> list[tuple[int, TaskState | None]]:
            return [(event.seq, event.new_state) async for event in broker.stream(task_id)]

        await broker.notify(task_id, {TaskState.RUNNING, TaskState.COMPLETED}, told)
        readers = await asyncio.gather(*(follow() for _ in range(50)))
        assert await broker.wait(task_id)
    assert readers == [[(1, TaskState.RUNNING), (2, TaskState.COMPLETED)]] * 50
    assert seen == [TaskState.RUNNING, TaskState.COMPLETED]


async def test_cancelling_stops_the_agent_and_says_so_when_it_has(
    store: KubernetesTaskStore, world: World
) -> None:
    async with TaskBroker(store) as broker:
        task_id = await broker.submit("[[hang]]")
        await broker.wait(task_id, until={TaskState.RUNNING}, timeout=60)
        assert (await broker.cancel(task_id)).state is TaskState.CANCELLED
        assert world.status(task_id)["reason"] == "Cancelled"
        with pytest.raises(TransitionError, match="it is cancelled and stays so"):
            await store.move(task_id, TaskState.CANCELLED)


async def test_an_answer_lets_the_agent_go_on(store: KubernetesTaskStore, world: World) -> None:
    async with TaskBroker(store) as broker:
        task_id = await broker.submit(f"{task_marker(world)} {ASK}")
        task = await broker.wait(task_id, timeout=60)
        assert (task.state, task.question) == (TaskState.INPUT_REQUIRED, "Which?")
        answered = await broker.answer(task_id, '[[result: {"summary": "that one"}]]')
        assert answered.state is TaskState.PENDING
        with pytest.raises(TransitionError, match="asked nothing"):
            await broker.answer(task_id, "again")
        done = await broker.wait(task_id, until={TaskState.COMPLETED}, timeout=60)
        states = [event.new_state async for event in broker.stream(task_id) if event.new_state]
    assert done.result == "that one"
    assert states == ["running", "input_required", "pending", "running", "completed"]


async def test_what_the_operator_runs_is_not_run_by_a_broker(store: KubernetesTaskStore) -> None:
    task = await store.create(Task(id="not-ours", input="[[result]]"))
    assert await store.claim("owner", 10) is None
    with pytest.raises(TransitionError, match="the operator runs it"):
        await store.update_state(task.id, TaskState.RUNNING)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (Task(id="No name", input="x"), "'No name' is no name of an object"),
        (Task(input=" "), "prompt is empty; write what the agent should do"),
        (Task(input="x", metadata={"config_name": "nobody"}), "unknown agent 'nobody'"),
    ],
)
async def test_what_cannot_be_a_task_is_refused_with_the_reason(
    store: KubernetesTaskStore, task: Task, said: str
) -> None:
    with pytest.raises(TaskError, match=said):
        await store.create(task)


def task_marker(world: World) -> str:
    """What no other prompt has: the scripted model counts attempts by their prompt."""
    return f"Run {id(world)}-{asyncio.get_running_loop().time()}."
