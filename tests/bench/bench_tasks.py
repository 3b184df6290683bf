"""What the TaskBroker itself costs per task, over each store; beside arq and taskiq on one Redis.

The agent does nothing. The peers run the same in Pythons of their own under .orbiter/, installed
there the first time; without a network their figures are missing and so is the goal. Prints a
table and writes bench/tasks.json; a missed goal makes the exit code 1.
"""

import argparse
import asyncio
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from task_peers import CONCURRENCY, PEERS, REQUIREMENTS

from orbiter.tasks import Task, TaskBroker, TaskStore, TaskStoreJson, TaskStoreMemory
from orbiter.tasks.sqlite import TaskStoreSqlite

ROOT = Path(__file__).resolve().parents[2]
STATE = Path(os.environ.get("ORBITER_STATE") or ROOT / ".orbiter")
PEERS_HOME = STATE / "bench-task-peers"
ROUNDS = 3
STORES = ("memory", "sqlite", "json")


@dataclass(frozen=True)
class Figure:
    """Microseconds per task, and the goal it has to stay at or below; None where there is none."""

    name: str
    us: float
    goal: float | None = None

    @property
    def met(self) -> bool:
        """Whether the goal is met."""
        return self.goal is None or self.us <= self.goal


async def noop(task: Task) -> str:
    """Do nothing."""
    return task.input


async def ours(store: TaskStore, tasks: int) -> float:
    """Return the microseconds per task, from the first submit to the last result."""
    broker = TaskBroker(store, agent_specs={"default": noop}, concurrency=CONCURRENCY)
    async with broker:
        began = time.perf_counter()
        ids = [await broker.submit(str(number)) for number in range(tasks)]
        done = [await broker.wait(task_id) for task_id in ids]
        took = time.perf_counter() - began
    if [task.result for task in done] != [str(number) for number in range(tasks)]:
        raise SystemExit("a task was not completed")
    if isinstance(store, TaskStoreSqlite):
        await store.close()
    return took / tasks * 1e6


def one_round(kind: str, tasks: int) -> float:
    """Measure a store once, on an empty directory."""
    with tempfile.TemporaryDirectory() as directory:
        stores: dict[str, TaskStore] = {
            "memory": TaskStoreMemory(),
            "sqlite": TaskStoreSqlite(Path(directory) / "tasks.db"),
            "json": TaskStoreJson(Path(directory) / "tasks"),
        }
        return asyncio.run(ours(stores[kind], tasks))


def answers(port: int) -> bool:
    """Say whether somebody listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def redis_server() -> Iterator[str]:
    """Run a Redis that keeps nothing on disk, as fast as it gets; yield its URL."""
    program = next(filter(None, map(shutil.which, ("redis-server", "valkey-server"))), None)
    if program is None:
        raise SystemExit("no redis-server or valkey-server on PATH: apt-get install redis-server")
    with socket.socket() as probe, tempfile.TemporaryDirectory() as directory:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command = [program, *options, "--dir", directory]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not answers(port):
                time.sleep(0.01)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


def peer_python(name: str) -> Path | None:
    """Return a Python that has the peer; None where it cannot be had."""
    python = PEERS_HOME / name / "bin" / "python"
    if not python.exists():
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "venv", "--quiet", PEERS_HOME / name], check=True)
        command = [uv, "pip", "install", "--quiet", "--python", python, *REQUIREMENTS[name]]
        if subprocess.run(command).returncode:
            shutil.rmtree(PEERS_HOME / name)
            return None
    return python


def measure(tasks: int) -> tuple[list[Figure], dict[str, str]]:
    """Measure everything, ours and the peers' by turns."""
    taken: dict[str, list[float]] = {}
    versions: dict[str, str] = {}
    script = Path(__file__).with_name("task_peers.py")
    pythons = {name: python for name in PEERS if (python := peer_python(name)) is not None}
    with redis_server() as url:
        for _ in range(ROUNDS):
            for name, python in pythons.items():
                said = subprocess.check_output([python, script, name, url, str(tasks)])
                found = json.loads(said)
                taken.setdefault(name, []).append(found["us"])
                versions[name] = found["version"]
            for kind in STORES:
                taken.setdefault(kind, []).append(one_round(kind, tasks))
    us = {name: statistics.median(values) for name, values in taken.items()}
    best = min((us[name] for name in pythons), default=None)
    figures = [Figure(f"{name}, Redis", us[name]) for name in pythons]
    figures.append(Figure("orbiter, memory", us["memory"], best))
    figures += [Figure(f"orbiter, {kind}", us[kind]) for kind in STORES[1:]]
    return figures, versions


def main() -> int:
    """Measure, print, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2000, help="tasks per case and round")
    options = parser.parse_args()
    figures, versions = measure(options.tasks)
    many = Figure("orbiter, memory, 10000 tasks", one_round("memory", 10_000))
    for figure in (*figures, many):
        goal = "" if figure.goal is None else f"goal {figure.goal:8.0f}"
        verdict = "" if figure.met else "MISSED"
        print(f"{figure.name:30} {figure.us:8.0f} us/task  {goal} {verdict}".rstrip())
    written = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "tasks": options.tasks,
        "peers": versions,
        "figures": [asdict(figure) for figure in (*figures, many)],
    }
    (ROOT / "bench" / "tasks.json").write_text(json.dumps(written, indent=2) + "\n")
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
