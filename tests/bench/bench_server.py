"""Many event streams at once from one server: tokens lost and doubled, delay, CPU and memory.

A server in a process of its own runs an agent whose model speaks at a steady pace. Each of the
clients, in another process, starts a run, follows it, leaves in the middle and comes back behind
the last event it has seen. That is a wave; memory is compared between the waves, in which the
server does the same work again and again. Then Chromium scrolls through ten thousand tasks of the
server's own, and through as many of a cluster, whose API server is a scripted one in this process:
the page is opened twice, by the first who looks (the server then lists all of them) and by another.
`--only page` measures the pages alone, and keeps what the file has of the waves.

Prints a table and writes bench/server.json; a missed goal makes the exit code 1.
"""

import argparse
import asyncio
import json
import os
import platform
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from orbiter import Agent
from orbiter.models import ModelProvider, StreamChunk
from orbiter.server import ServerConfig, serve
from orbiter.tasks import Task, TaskState, TaskStoreSqlite

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
STREAMS, WAVES, TOKENS, PER_SECOND = 500, 6, 100, 5
TASKS = 10_000
GROWTH_GOAL = 0.05
FIRST_ROWS_GOAL_MS = 1000
TICKS = os.sysconf("SC_CLK_TCK")


class Steady(ModelProvider):
    """Says a given number of words at a given pace."""

    def __init__(self, tokens: int, per_second: float) -> None:
        self.tokens = tokens
        self.pause = 1 / per_second

    async def complete(self, messages: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, **options: Any) -> AsyncIterator[StreamChunk]:
        for number in range(self.tokens):
            await asyncio.sleep(self.pause)
            yield StreamChunk(delta=f"word{number} ")


@dataclass(frozen=True)
class Wave:
    """One wave: memory and CPU of the server, and what the clients saw."""

    lost: int
    doubled: int
    events: int
    seconds: float
    events_per_second: float
    delay_p50_ms: float
    delay_p99_ms: float
    server_cpu_seconds: float
    server_rss_mb: float


def process_figures(pid: int) -> tuple[float, float]:
    """Return CPU seconds and resident megabytes of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / TICKS, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def follow(
    http: aiohttp.ClientSession, run: str, after: int, until: int | None, delays: list[float]
) -> list[dict[str, Any]]:
    """Return the events behind `after`, up to `until` or to the run's end."""
    seen: list[dict[str, Any]] = []
    headers = {"Last-Event-ID": str(after)}
    async with http.get(f"/v1/runs/{run}/events", headers=headers) as response:
        response.raise_for_status()
        async for line in response.content:
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                if event["type"] == "text":
                    delays.append(time.time() - event["at"])
                seen.append(event)
                if until is not None and event["seq"] >= until:
                    break
    return seen


async def client(http: aiohttp.ClientSession, tokens: int, delays: list[float]) -> tuple[int, int]:
    """Follow a run of one's own over two connections; return tokens lost and doubled."""
    async with http.post("/v1/agents/steady/runs", json={"input": "Speak"}) as response:
        response.raise_for_status()
        run = (await response.json())["id"]
    events = await follow(http, run, 0, tokens // 2, delays)
    # what waited for us while we were away is late by our own fault
    events += await follow(http, run, events[-1]["seq"], None, [])
    words = [event["text"] for event in events if event["type"] == "text"]
    wanted = {f"word{number} " for number in range(tokens)}
    assert events[-1]["type"] == "end"
    return len(wanted - set(words)), len(words) - len(set(words))


@asynccontextmanager
async def server(
    directory: Path, tokens: int, per_second: float, kubeconfig: Path | None = None
) -> AsyncIterator[tuple[str, int]]:
    """Run a server; give its address and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words: list[Any] = [Path(__file__).resolve(), "serve", directory, port, tokens, per_second]
    words += [] if kubeconfig is None else [kubeconfig]
    child = await asyncio.create_subprocess_exec(sys.executable, *map(str, words))
    url = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession(url) as http:
            while True:
                try:
                    async with http.get("/readyz") as response:
                        if response.status == 200:
                            break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)
        yield url, child.pid
    finally:
        child.terminate()
        await child.wait()


async def measure(
    directory: Path, *, streams: int, waves: int, tokens: int, per_second: float
) -> list[Wave]:
    """Run the waves and return what was seen."""
    found = []
    async with server(directory, tokens, per_second) as (url, pid):
        for _ in range(waves):
            delays: list[float] = []
            cpu, _rss = process_figures(pid)
            began = time.perf_counter()
            connections = aiohttp.TCPConnector(limit=0)
            timeout = aiohttp.ClientTimeout(total=None)
            async with aiohttp.ClientSession(url, connector=connections, timeout=timeout) as http:
                jobs = [client(http, tokens, delays) for _ in range(streams)]
                outcomes = await asyncio.gather(*jobs)
            took = time.perf_counter() - began
            cpu_after, rss = process_figures(pid)
            cuts = statistics.quantiles(delays, n=100)
            events = streams * (tokens + 3)
            found.append(
                Wave(
                    lost=sum(lost for lost, _ in outcomes),
                    doubled=sum(doubled for _, doubled in outcomes),
                    events=events,
                    seconds=round(took, 2),
                    events_per_second=round(events / took),
                    delay_p50_ms=round(cuts[49] * 1000, 1),
                    delay_p99_ms=round(cuts[98] * 1000, 1),
                    server_cpu_seconds=round(cpu_after - cpu, 2),
                    server_rss_mb=round(rss, 1),
                )
            )
    return found


def growth(waves: list[Wave]) -> float:
    """Return by what part memory grew from the second wave, when all is warm, to the last."""
    return waves[-1].server_rss_mb / waves[1].server_rss_mb - 1


async def scroll(directory: Path, tasks: int) -> dict[str, float]:
    """Return how long the page takes for the first rows, and its frames while it scrolls."""
    from support.chromium import chromium

    (directory / "server").mkdir(parents=True)
    store = TaskStoreSqlite(directory / "server" / "tasks.db")
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(tasks):
        at = begin + timedelta(seconds=number)
        await store.create(
            Task(
                input=f"Task {number}", state=TaskState.COMPLETED, result="x", created_at=at,
                updated_at=at,
            )
        )  # fmt: skip
    await store.close()
    async with server(directory / "server", 1, 1) as (url, _), chromium() as browser:
        began = time.perf_counter()
        page = await browser.page(f"{url}/#/tasks")
        await page.until("document.querySelector('.spacer .row .badge')")
        first = time.perf_counter() - began
        frames = await page.do(SCROLL)
    return {"tasks": tasks, "first_rows_ms": round(first * 1000), **paces(frames)}


async def scroll_cluster(directory: Path, tasks: int) -> dict[str, float]:
    """Return the same of the cluster's list, for the first who looks and for who comes later.

    Beside it, in the same run, a page without any rows: what the browser takes by itself.
    """
    from support.chromium import chromium
    from support.fake_api import FakeApi

    directory.mkdir(parents=True)
    api = FakeApi()
    await api.start()
    try:
        for number in range(tasks):
            at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
            meta = {"name": f"task-{number}", "namespace": f"team-{number % 20}",
                    "creationTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "labels": {"team": f"team-{number % 20}"}}  # fmt: skip
            spec = {"prompt": "Mend the login. " * 20, "agent": {"type": "claude"}}
            status = {"phase": "Completed", "attempts": 1, "message": f"Task {number} is done",
                      "usage": {"costUSD": 0.2, "inputTokens": 1000, "outputTokens": 50},
                      "completionTime": meta["creationTimestamp"]}  # fmt: skip
            api.put("agenttasks", {"metadata": meta, "spec": spec, "status": status})
        home = directory / "server"
        async with server(home, 1, 1, api.kubeconfig(directory)) as (url, _), chromium() as browser:
            empty = f"{url}/#/tasks", "document.querySelector('.long-list')"
            await opened(browser, *empty)  # a browser's first page takes longer
            bare = await opened(browser, *empty)
            cold = await opened(browser, f"{url}/#/cluster", ROW)
            warm = await opened(browser, f"{url}/#/cluster", ROW)
            frames = await warm[1].do(SCROLL)
    finally:
        await api.stop()
    return {
        "tasks": tasks,
        "first_look_ms": round(cold[0] * 1000),
        "first_rows_ms": round(warm[0] * 1000),
        "empty_page_ms": round(bare[0] * 1000),
        "first_rows_ratio": round(warm[0] / bare[0], 2),
        **paces(frames),
    }


async def opened(browser: Any, url: str, shown: str) -> tuple[float, Any]:
    """Return how many seconds a page takes until it shows something, and the page."""
    began = time.perf_counter()
    page = await browser.page(url)
    await page.until(shown, seconds=300)
    return time.perf_counter() - began, page


def paces(frames: list[float]) -> dict[str, float]:
    """Return how long the frames of a page that scrolls were."""
    frames.sort()
    return {
        "frames": len(frames),
        "frame_p50_ms": round(statistics.median(frames), 1),
        "frame_p99_ms": round(frames[int(len(frames) * 0.99)], 1),
        "frame_longest_ms": round(frames[-1], 1),
    }


ROW = "document.querySelector('.spacer .row .badge')"
# a frame is from one requestAnimationFrame to the next; 16.7 ms is the screen's own pace
SCROLL = """(async () => {
  const rows = document.querySelector('.rows');
  const frames = [];
  let last = await new Promise(requestAnimationFrame);
  for (let top = 0; top < rows.scrollHeight; top += 900) {
    rows.scrollTop = top;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return frames;
})()"""


async def bench(args: argparse.Namespace) -> int:
    """Measure everything, tell it and write it down."""
    file = ROOT / "bench" / "server.json"
    with tempfile.TemporaryDirectory(prefix="bench-server-", ignore_cleanup_errors=True) as name:
        if args.only == "page":
            cluster = await scroll_cluster(Path(name) / "cluster", TASKS)
            page = await scroll(Path(name) / "page", TASKS)
            report = json.loads(file.read_text())
            return write(file, report, page, cluster, args.load)
        waves = await measure(
            Path(name) / "waves", streams=args.streams, waves=args.waves, tokens=args.tokens,
            per_second=PER_SECOND,
        )  # fmt: skip
        page = await scroll(Path(name) / "page", TASKS)
        cluster = await scroll_cluster(Path(name) / "cluster", TASKS)
    print(f"{args.streams} streams of {args.tokens} tokens at {PER_SECOND}/s, each cut once")
    print(f"{'wave':>4} {'lost':>5} {'doubled':>8} {'events/s':>9} {'p50 ms':>7} {'p99 ms':>8} "
          f"{'CPU s':>7} {'RSS MB':>7}")  # fmt: skip
    for number, w in enumerate(waves, 1):
        print(f"{number:>4} {w.lost:>5} {w.doubled:>8} {w.events_per_second:>9} "
              f"{w.delay_p50_ms:>7} {w.delay_p99_ms:>8} {w.server_cpu_seconds:>7} "
              f"{w.server_rss_mb:>7}")  # fmt: skip
    grown = growth(waves)
    print(
        f"memory from wave 2 to wave {len(waves)}: {grown:+.1%} (goal: at most {GROWTH_GOAL:.0%})"
    )
    met = grown <= GROWTH_GOAL and not any(w.lost or w.doubled for w in waves)
    report = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_before": round(args.load, 1),
        "streams": args.streams,
        "tokens": args.tokens,
        "tokens_per_second_and_stream": PER_SECOND,
        "waves": [asdict(wave) for wave in waves],
        "memory_growth": round(grown, 4),
        "memory_growth_goal": GROWTH_GOAL,
        "goals_met": met,
    }
    missed = write(file, report, page, cluster, args.load)
    return missed if met else 1


def write(
    file: Path, report: dict[str, Any], page: dict[str, float], cluster: dict[str, float],
    load: float,
) -> int:  # fmt: skip
    """Tell and write down what was measured of the pages; return 1 when a goal is missed."""
    for name, found in (("page", page), ("cluster_page", cluster)):
        print(f"{name}:", ", ".join(f"{key} {value}" for key, value in found.items()))
        report[name] = found
    met = cluster["first_rows_ms"] < FIRST_ROWS_GOAL_MS
    print(f"first rows of the cluster's list: {cluster['first_rows_ms']} ms "
          f"(goal: less than {FIRST_ROWS_GOAL_MS}{'' if met else '; MISSED'})")  # fmt: skip
    report |= {
        "page_load_before": round(load, 1), "first_rows_goal_ms": FIRST_ROWS_GOAL_MS,
        "first_rows_goal_met": met,
    }  # fmt: skip
    file.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if met else 1


def main() -> int:
    """Parse the arguments; `serve` is what the benchmark starts itself as."""
    if sys.argv[1:2] == ["serve"]:
        directory, port, tokens, per_second, *more = sys.argv[2:]
        serve(
            {"steady": Agent(name="steady")},
            port=int(port),
            config=ServerConfig(
                directory=Path(directory),
                drain_seconds=0,
                kubeconfig=Path(more[0]) if more else None,
                namespace="*" if more else None,
            ),
            provider=Steady(int(tokens), float(per_second)),
        )
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--waves", type=int, default=WAVES)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--only", choices=("page",))
    args = parser.parse_args()
    args.load = os.getloadavg()[0]
    return asyncio.run(bench(args))


if __name__ == "__main__":
    sys.exit(main())
