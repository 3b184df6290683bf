"""A process with a broker whose agent marks each run in a file; it is there to be killed.

It ends by itself when the store has no unfinished task left. While there is a file `hold`, what has
begun does not end.

Without arguments it is a template: whatever takes long to import is imported, nothing has begun.
For each line of arguments it forks a process that runs as one started anew would; at the next line,
or when its input ends, it kills that process with SIGKILL and says how it ended.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from orbiter.tasks import Task, TaskBroker, TaskState, TaskStore, TaskStoreJson, TaskStoreSqlite

ACTIVE = (TaskState.PENDING, TaskState.RUNNING)


def mark(directory: Path, word: str, task_id: str) -> None:
    """Append a line in one write: a killed process leaves whole lines."""
    file = os.open(directory / "marks", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{word} {os.getpid()} {task_id}\n".encode())
    os.close(file)


async def unfinished(store: TaskStore) -> bool:
    for state in ACTIVE:
        if await store.list_by_state(state):
            return True
    return False


async def main(kind: str, directory: Path, retries: int, submit: int, lease: float) -> None:
    store: TaskStore
    if kind == "json":
        store = TaskStoreJson(directory / "tasks")
    else:
        store = TaskStoreSqlite(directory / "tasks.db")

    async def agent(task: Task) -> str:
        mark(directory, "began", task.id)
        await asyncio.sleep(0.005)
        while (directory / "hold").exists():
            await asyncio.sleep(0.02)
        mark(directory, "ended", task.id)
        return "done"

    broker = TaskBroker(
        store,
        poll_interval=0.02,
        agent_specs={"default": agent},
        concurrency=3,
        lease_seconds=lease,
        orphan_retries=retries,
    )
    async with broker:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for n in range(submit):
            mark(directory, "submitted", await broker.submit(str(n)))
        while await unfinished(store):
            await asyncio.sleep(0.02)
    if isinstance(store, TaskStoreSqlite):
        await store.close()


def run(words: list[str]) -> None:
    kind, directory, retries, submit, lease = words
    asyncio.run(main(kind, Path(directory), int(retries), int(submit), float(lease)))


def template() -> None:
    """Fork a process a line. It is reaped here only, so no other one can have its pid."""
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                run(line.rstrip("\n").split("\t"))
                code = 0
            finally:
                os._exit(code)
        sys.stdin.readline()
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:]:
        run(sys.argv[1:])
    else:
        template()
