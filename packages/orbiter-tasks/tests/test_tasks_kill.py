"""A process with a broker is killed at random moments, over and over, on the same store."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.eventually import eventually

from orbiter.tasks import TaskBroker, TaskState, TaskStoreJson, TaskStoreSqlite
from orbiter.tasks.contract import LEASE_SECONDS

PROGRAM = Path(__file__).with_name("marking_process.py")
KILLS = 50
LEASE = 0.6


def opened(kind: str, directory: Path):
    if kind == "json":
        return TaskStoreJson(directory / "tasks")
    return TaskStoreSqlite(directory / "tasks.db")


def process(
    kind: str, directory: Path, retries: int, submit: int, lease: float = LEASE
) -> subprocess.Popen[bytes]:
    words = [sys.executable, PROGRAM, kind, directory, retries, submit, lease]
    return subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE)


class Victims:
    """Processes to be killed one after the other, forked from one that has imported everything.

    An import takes 0.7 s of a processor, what is killed here 0.1 s.
    """

    def __init__(self, template: subprocess.Popen[str]) -> None:
        self._template = template

    def _tell(self, line: str) -> str:
        assert self._template.stdin is not None
        assert self._template.stdout is not None
        self._template.stdin.write(line + "\n")
        self._template.stdin.flush()
        return self._template.stdout.readline().strip()

    def start(self, kind: str, directory: Path, retries: int, submit: int) -> None:
        """Start one and wait until it is at work."""
        words = map(str, (kind, directory, retries, submit, LEASE))
        assert self._tell("\t".join(words)) == "ready"

    def kill(self) -> int:
        """Kill it with SIGKILL; the exit code, 0 when it had ended by itself."""
        return int(self._tell("kill"))


@pytest.fixture
def victims() -> Iterator[Victims]:
    # leaving closes its input, at which it kills what still runs and ends
    with subprocess.Popen(
        [sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as template:
        yield Victims(template)


def marks(directory: Path, word: str) -> list[tuple[str, str]]:
    """The lines the agents wrote: (process, task)."""
    file = directory / "marks"
    lines = file.read_text().splitlines() if file.exists() else []
    return [tuple(line.split()[1:]) for line in lines if line.startswith(word)]


@pytest.mark.integration
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["json", "sqlite"])
@pytest.mark.parametrize("retries", [0, 1000], ids=["orphans fail", "orphans run again"])
async def test_kill_9_loses_no_task_and_runs_none_twice(kind, retries, tmp_path, victims):
    chance = random.Random(f"{kind} {retries}")
    for _ in range(KILLS):
        victims.start(kind, tmp_path, retries, submit=8)
        time.sleep(chance.uniform(0, 0.08))
        assert victims.kill() in (-signal.SIGKILL, 0)
    last = process(kind, tmp_path, retries, submit=0)
    assert last.wait(timeout=120) == 0
    last.stdout.close()

    store = opened(kind, tmp_path)
    tasks = {task.id: task for state in TaskState for task in await store.list_by_state(state)}
    if kind == "json":
        assert len(tasks) == len(list((tmp_path / "tasks").glob("*.json")))
    else:
        await store.close()
    submitted = {task_id for _, task_id in marks(tmp_path, "submitted")}
    began, ended = marks(tmp_path, "began"), marks(tmp_path, "ended")
    assert submitted <= set(tasks)
    assert len(submitted) > KILLS
    assert all(task.is_terminal for task in tasks.values())
    orphaned = [t for t in tasks.values() if any("orphaned" in e.payload for e in t.events)]
    assert len(orphaned) > KILLS // 5, "the kills came too early or too late to prove anything"
    # within one life of a process a task runs once; one that was completed never runs again
    assert len(began) == len(set(began))
    completed = {t.id for t in tasks.values() if t.state is TaskState.COMPLETED}
    if retries:
        assert completed == set(tasks)
        for task_id in completed:
            runs = [who for who, which in began if which == task_id]
            stored = [event for event in tasks[task_id].events if event.new_state]
            starts = [e for e in stored if e.new_state is TaskState.RUNNING]
            assert len(runs) <= len(starts), "a run without a claim"
    else:
        ids = [task_id for _, task_id in began]
        assert len(ids) == len(set(ids)), "at most once, whatever happened"
        assert completed <= {task_id for _, task_id in ended}


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["json", "sqlite"])
async def test_two_processes_on_one_store_never_run_a_task_twice(kind, tmp_path):
    store = opened(kind, tmp_path)
    broker = TaskBroker(store)
    ids = [await broker.submit(str(n)) for n in range(200)]
    # who starts first may else have run them all before the next has started
    (tmp_path / "hold").touch()
    # none of them dies, so none has to be noticed: a machine may be busy for longer than LEASE
    workers = [process(kind, tmp_path, 0, submit=0, lease=60) for _ in range(3)]
    await eventually(lambda: len({who for who, _ in marks(tmp_path, "began")}) == 3)
    (tmp_path / "hold").unlink()
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0]
    for worker in workers:
        worker.stdout.close()
    began = marks(tmp_path, "began")
    assert sorted(task_id for _, task_id in began) == sorted(ids)
    tasks = [await broker.poll(task_id) for task_id in ids]
    assert {task.state for task in tasks} == {TaskState.COMPLETED}
    if kind == "sqlite":
        await store.close()
    assert os.getpid() not in {who for who, _ in began}


@pytest.mark.integration
async def test_a_task_of_a_dead_process_is_over_within_20_seconds_by_default(tmp_path):
    store = TaskStoreJson(tmp_path)
    task_id = await TaskBroker(store).submit("x")
    await store.claim("a process that dies now", LEASE_SECONDS)
    async with TaskBroker(TaskStoreJson(tmp_path)) as broker:
        task = await broker.wait(task_id, timeout=20)
    assert task.state is TaskState.FAILED
    assert "a process that dies now" in task.error
