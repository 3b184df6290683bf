"""What checkpoints cost: a turn that goes on meanwhile, and each of them beside a bare tar.

A real wrapper, a real Redis, and an agent that is a script: it works in a clone of 50 MB, changes
files and says so. The same work is done with and without checkpoints, in pairs. Measured is the
agent's own time, from its first step to its last. The pairs are taken in turn, so that what else
the machine does meets both. What one checkpoint takes is measured by checkpoint_parts.py. Prints
a table and writes bench/checkpoints.json; a missed goal makes the exit code 1.
"""

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from checkpoint_parts import parts
from redis.asyncio import Redis
from support.git_repositories import git
from support.queues import RECORD, Queues
from support.redis_server import running_server

from orbiter_contracts import read_checkpoint

ROOT = Path(__file__).resolve().parents[2]
SESSION = "5e55104e-0000-4000-8000-000000000000"
GOAL_PERCENT = 3.0
FILES, FILE_BYTES = 500, 100_000
# One step: some text is edited, all of the clone is read, and the work is said. It counts steps
# and not seconds, so that what a checkpoint takes of the machine makes the turn longer.
AGENT = """#!/usr/bin/env python3
import hashlib, json, os, pathlib, sys, time
argv = sys.argv
home = pathlib.Path(os.environ["HOME"], ".claude/projects/-work")
home.mkdir(parents=True, exist_ok=True)
known = home / (argv[argv.index("--session-id") + 1] + ".jsonl")
sys.stdin.read()
files = sorted(path for path in pathlib.Path(".").glob("part-*"))
began = time.monotonic()
for step in range({steps}):
    for path in files:
        hashlib.sha256(path.read_bytes()).digest()
    pathlib.Path(f"notes-{{step % 10}}.txt").write_text(f"step {{step}}\\n" * 200)
    with known.open("a") as file:
        file.write(json.dumps({{"step": step, "text": "x" * 500}}) + "\\n")
    event = {{"type": "stream_event", "event": {{"type": "message_start", "message":
        {{"usage": {{"input_tokens": 10}}}}}}}}
    print(json.dumps(event), flush=True)
pathlib.Path({took!r}).write_text(str(time.monotonic() - began))
print(json.dumps({{"type": "result", "num_turns": 1, "result": "<result>{{}}</result>",
    "usage": {{"input_tokens": 1, "output_tokens": 1}}}}))
"""


def repository(where: Path) -> Path:
    """A repository whose files have 50 MB that nothing compresses."""
    where.mkdir()
    git(where, "init", "-qb", "main")
    for number in range(FILES):
        (where / f"part-{number}").write_bytes(os.urandom(FILE_BYTES))
    git(where, "add", "-A")
    git(where, "commit", "-qm", "all of it")
    return where


async def turn(directory: Path, url: str, source: Path, every: float | None) -> dict[str, Any]:
    """One turn in a fresh pod.

    Args:
        directory: For everything of it.
        url: The Redis.
        source: The repository.
        every: Seconds between two checkpoints; None for none.

    Returns:
        The agent's seconds, and how many checkpoints there were.
    """
    async with Redis.from_url(url, decode_responses=True, protocol=2) as redis:
        await redis.flushall()
        workspace = {"git": {"url": str(source), "branch": "work"}}
        bound = await Queues(redis).bound_task("work", workspace=workspace)
        for name in ("home", "work", "spill"):
            shutil.rmtree(directory / name, ignore_errors=True)
            (directory / name).mkdir()
        environ = {
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
            "HOME": str(directory / "home"),
            "WORKSPACE_DIR": str(directory / "work"),
            "SPILL_DIR": str(directory / "spill"),
            "WORKER_ID": "bench-1",
            "WORKER_TYPE": "developer",
            "SESSION_ID": SESSION,
            "REDIS_URL": url,
            "ANTHROPIC_API_KEY": "sk-bench",
            **bound,
            **({"DISRUPTION_POLICY": "Fail"} if every is None else {}),
            **({"CHECKPOINT_SECONDS": str(every)} if every is not None else {}),
        }
        wrapper = [sys.executable, "-m", "worker_wrapper"]
        done = await asyncio.to_thread(
            subprocess.run, wrapper, env=environ, capture_output=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode()[-2000:])
        kept = read_checkpoint(await redis.hget(RECORD, "checkpoint"))
    seconds = float((directory / "took").read_text())
    return {"seconds": seconds, "checkpoints": kept.generation if kept else 0}


async def measured(pairs: int, steps: int, every: float, times: int) -> dict[str, Any]:
    """All pairs, one with checkpoints and one without, which is first in turn; then the parts."""
    with tempfile.TemporaryDirectory() as name, running_server(Path(name)) as server:
        directory = Path(name)
        source = repository(directory / "source")
        program = directory / "bin" / "claude"
        program.parent.mkdir()
        program.write_text(AGENT.format(steps=steps, took=str(directory / "took")))
        program.chmod(0o755)
        found, load = [], os.getloadavg()[0]
        for number in range(pairs):
            order = (every, None) if number % 2 else (None, every)
            both = {one: await turn(directory, server.url, source, one) for one in order}
            found.append((both[every], both[None]))
            ratio = both[every]["seconds"] / both[None]["seconds"]
            print(f"pair {number + 1}: {both[every]} beside {both[None]}: {ratio:.3f}")
        each_one = await parts(directory / "parts", source, times)
    each = [with_it["seconds"] / without["seconds"] - 1 for with_it, without in found]
    return {
        "cost_percent": round(statistics.median(each) * 100, 2),
        "pairs_percent": [round(one * 100, 2) for one in each],
        "turn_seconds": round(statistics.median(one["seconds"] for _, one in found), 1),
        "every_seconds": every,
        "checkpoints": statistics.median(one["checkpoints"] for one, _ in found),
        "repository_mb": FILES * FILE_BYTES / 1e6,
        "parts": each_one,
        "load": round(load, 1),
        "cores": os.cpu_count(),
    }


def _ratios(row: dict[str, Any]) -> str:
    kept, restored, size = row["keep_ratio"], row["restore_ratio"], row["size_ratio"]
    return f"beside tar {kept} times to keep, {restored} to restore, {size} in size"


def main() -> int:
    """Measure, print and write."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--pairs", type=int, default=5)
    words.add_argument("--steps", type=int, default=800, help="of the turn, some 0.05 s each")
    words.add_argument("--every", type=float, default=10.0, help="seconds between checkpoints")
    words.add_argument("--times", type=int, default=7, help="each part is measured")
    words.add_argument("--out", type=Path, default=ROOT / "bench" / "checkpoints.json")
    given = words.parse_args()
    found = asyncio.run(measured(given.pairs, given.steps, given.every, given.times))
    found |= {"python": platform.python_version(), "date": time.strftime("%Y-%m-%d")}
    met = found["cost_percent"] < GOAL_PERCENT
    print(
        f"a turn of {found['turn_seconds']} s with {found['checkpoints']:g} checkpoints takes "
        f"{found['cost_percent']} % longer, the goal is {GOAL_PERCENT} %: "
        f"{'met' if met else 'missed'} (load {found['load']})"
    )
    for name, row in found["parts"].items():
        print(f"{name}: {row['ms']} ms, {row['bytes']} bytes; {_ratios(row)}")
    given.out.write_text(json.dumps(found | {"goal_percent": GOAL_PERCENT}, indent=1) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
