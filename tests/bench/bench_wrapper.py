"""What the wrapper itself costs: its start, each turn beyond the agent's own time, its memory.

Runs against a real Redis and a shell script for an agent. The goals are those of the project's
README; a missed one makes the exit code 1. Prints a table and writes bench/wrapper.json.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from redis import Redis
from support.redis_server import RedisServer, running_server

from orbiter_contracts import POWorkerInput, encode
from orbiter_contracts.queues import BARE

ROOT = Path(__file__).resolve().parents[2]
ANSWER = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "num_turns": 1,
    "result": "An answer.",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
WORKER = "bench"


@dataclass(frozen=True)
class Figure:
    """One measured figure and the goal it has to stay below."""

    name: str
    unit: str
    p50: float
    p99: float
    goal: float

    @property
    def met(self) -> bool:
        """Whether it stays below its goal, at the median."""
        return self.p50 < self.goal


def figure(name: str, unit: str, samples: list[float], goal: float) -> Figure:
    """Sum up samples."""
    ordered = sorted(samples)
    p99 = ordered[min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))]
    return Figure(name, unit, round(statistics.median(ordered), 2), round(p99, 2), goal)


class Bench:
    """A directory, a Redis, and an agent that answers at once."""

    def __init__(self, directory: Path, server: RedisServer) -> None:
        self.directory = directory
        self.server = server
        self.redis = Redis.from_url(server.url, decode_responses=True, protocol=2)
        for name in ("bin", "home", "work", "image"):
            (directory / name).mkdir()
        (directory / "answer.json").write_text(json.dumps(ANSWER))
        self.agent = directory / "bin" / "claude"
        self.agent.write_text(f"#!/bin/sh\ncat >/dev/null\ncat {directory}/answer.json\n")
        self.agent.chmod(0o755)
        # A worker image has no rich, which structlog imports where it finds it.
        (directory / "image" / "rich.py").write_text("raise ImportError('not in a worker image')\n")

    def start(self) -> "subprocess.Popen[bytes]":
        """Start a PO wrapper."""
        environ = {
            "PATH": f"{self.agent.parent}:{os.environ['PATH']}",
            "HOME": str(self.directory / "home"),
            "PYTHONPATH": str(self.directory / "image"),
            "WORKSPACE_DIR": str(self.directory / "work"),
            "SPILL_DIR": str(self.directory),
            "WORKER_ID": WORKER,
            "WORKER_TYPE": "po",
            "REDIS_URL": self.server.url,
            "ANTHROPIC_API_KEY": "sk-bench",
            "LOG_LEVEL": "error",
        }
        return subprocess.Popen([sys.executable, "-m", "worker_wrapper"], env=environ)

    def first_read_ms(self) -> float:
        """Milliseconds from starting the process to its first blocking read."""
        with self.redis.monitor() as monitor:
            began = time.time()
            wrapper = self.start()
            for seen in monitor.listen():
                if seen["command"].startswith("XREADGROUP") and " BLOCK " in seen["command"]:
                    break
        wrapper.send_signal(signal.SIGTERM)
        wrapper.wait()
        return (float(seen["time"]) - began) * 1000

    def turn_ms(self, last: str) -> tuple[float, str]:
        """Milliseconds from sending a message to having its answer; and the answer's id."""
        message = encode(POWorkerInput(user_id=1, prompt="hello"))
        began = time.perf_counter()
        self.redis.xadd(BARE.po_input(WORKER), message)
        ((_, ((entry, _),)),) = self.redis.xread({BARE.po_output(WORKER): last}, block=30_000)
        return (time.perf_counter() - began) * 1000, entry

    def agent_ms(self) -> float:
        """Milliseconds that running the agent by hand takes."""
        began = time.perf_counter()
        subprocess.run(
            [str(self.agent)], input=b"hello", capture_output=True, check=True, cwd=self.directory
        )
        return (time.perf_counter() - began) * 1000


def peak_mb(pid: int) -> float:
    """Peak resident memory of a process, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(bench: Bench, *, starts: int, turns: int) -> list[Figure]:
    """Take all figures in one run; turns and runs by hand alternate, so that load hits both."""
    bench.first_read_ms()  # the first start also compiles the modules
    first_reads = [bench.first_read_ms() for _ in range(starts)]
    wrapper = bench.start()
    overheads, last = [], "0"
    for count in range(turns + 3):
        by_hand = bench.agent_ms()
        took, last = bench.turn_ms(last)
        if count >= 3:  # the first turns import what only a turn needs
            overheads.append(took - by_hand)
    memory = peak_mb(wrapper.pid)
    wrapper.send_signal(signal.SIGTERM)
    wrapper.wait()
    return [
        figure("start to first read", "ms", first_reads, 400),
        figure("overhead per turn", "ms", overheads, 10),
        figure(f"peak RSS after {turns} turns", "MB", [memory], 60),
    ]


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=15)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--json", type=Path, default=ROOT / "bench" / "wrapper.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "redis").mkdir()
        with running_server(directory / "redis") as server:
            bench = Bench(directory, server)
            figures = measure(bench, starts=arguments.starts, turns=arguments.turns)
            bench.redis.close()
    print(f"{'':28}{'p50':>9}{'p99':>9}{'goal':>9}")
    for item in figures:
        verdict = "" if item.met else "  missed"
        print(
            f"{item.name:28}{item.p50:9.1f}{item.p99:9.1f}{item.goal:8.0f}{item.unit:>3}{verdict}"
        )
    machine = {"python": platform.python_version(), "cores": os.cpu_count()}
    report = {**machine, "figures": [asdict(item) for item in figures]}
    arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(item.met for item in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
