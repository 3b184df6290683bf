"""Five hundred viewers of fifty live transcripts: events lost and doubled, delay, CPU and memory.

A server in a process of its own follows fifty transcripts in a real Redis, to which their workers
write twice a second. Ten viewers look at each; half of them leave in the middle of a wave and come
back behind the last event they have seen. Beside it, in the same run, the same is read by a bare
loop: one reader for each transcript and nothing between.

Prints a table and writes bench/viewers.json; a missed goal makes the exit code 1.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from redis.asyncio import Redis

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "bench")]

from bench_server import process_figures  # noqa: E402 - the benchmarks are programs, not a package
from goals import Goal, exit_code, told  # noqa: E402
from support.fake_api import FakeApi  # noqa: E402
from support.ports import free_port  # noqa: E402
from support.redis_server import RedisServer  # noqa: E402

from orbiter import Agent  # noqa: E402
from orbiter.server import ServerConfig, serve  # noqa: E402
from orbiter_contracts.queues import Keys  # noqa: E402
from orbiter_contracts.transcript import WRITES_A_SECOND, TextEvent  # noqa: E402
from orbiter_contracts.transcript_reading import entry_data, read_entry  # noqa: E402
from orbiter_contracts.transcript_scripts import END_FIELD, NEXT_FIELD  # noqa: E402

TRANSCRIPTS, VIEWERS, WAVES, ENTRIES, EVENTS = 50, 500, 5, 16, 3
NAMESPACE = "default"
GOALS = {
    "lost": Goal("<=", 0),
    "doubled": Goal("<=", 0),
    "delay.p50_ms": Goal("<", 100),
    "delay.p99_ms": Goal("<", 1000),
}


def stream(number: int) -> str:
    """The key of a transcript."""
    return Keys.of_namespace(NAMESPACE).task_transcript(f"uid-{number}", 1)


def put_objects(api: FakeApi, url: str) -> None:
    """The tasks whose transcripts are shown, and the Secret of their readers."""
    import base64

    for number in range(TRANSCRIPTS):
        meta = {"name": f"task-{number}", "namespace": NAMESPACE, "uid": f"uid-{number}"}
        place = f"{{{NAMESPACE}}}:worker:developer:input"
        status = {"phase": "Running", "attempts": 1, "inputStream": place}
        api.put("agenttasks", {"metadata": meta, "spec": {"prompt": "x"}, "status": status})
    data = {"transcript-url": base64.b64encode(url.encode()).decode()}
    meta = {"name": "orbiter-transcript", "namespace": NAMESPACE}
    api.put("secrets", {"metadata": meta, "data": data})


class Writers:
    """The workers of all transcripts; each event says when it was written."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.next = 0
        self._bytes = [0] * TRANSCRIPTS

    async def wave(self) -> None:
        """Write to each as often as a worker may, at moments of its own."""
        begin = self.next
        self.next += ENTRIES * EVENTS
        await asyncio.gather(*(self._write(number, begin) for number in range(TRANSCRIPTS)))

    async def _write(self, number: int, sequence: int) -> None:
        await asyncio.sleep(number / TRANSCRIPTS / WRITES_A_SECOND)
        for _ in range(ENTRIES):
            events = [
                TextEvent(
                    sequence=sequence + at, at=datetime.now(UTC), attempt=1, text=f"{time.time()} "
                )
                for at in range(EVENTS)
            ]
            sequence += EVENTS
            data = entry_data(events)
            self._bytes[number] += len(data)
            fields = {"data": data, END_FIELD: self._bytes[number], NEXT_FIELD: sequence}
            await self._redis.xadd(stream(number), fields)  # type: ignore[arg-type]
            await asyncio.sleep(1 / WRITES_A_SECOND)


class Viewer:
    """Somebody who looks at one transcript."""

    def __init__(self, http: aiohttp.ClientSession, number: int) -> None:
        self._http = http
        self._path = f"/v1/cluster/tasks/{NAMESPACE}/task-{number % TRANSCRIPTS}/transcript"
        self.leaves = number >= VIEWERS // 2
        self.seen: list[int] = []
        self.there = asyncio.Event()

    async def look(self, until: int, delays: list[float]) -> None:
        """Follow up to the event that has this `seq`; perhaps over two connections."""
        self.there = asyncio.Event()
        if self.leaves:
            await self._follow(until - ENTRIES * EVENTS // 2, delays)
            # what waits for us while we are away is late by our own fault
            await self._follow(until, [])
        else:
            await self._follow(until, delays)

    async def _follow(self, until: int, delays: list[float]) -> None:
        headers = {"Last-Event-ID": str(self.seen[-1] if self.seen else 0)}
        async with self._http.get(self._path, headers=headers) as response:
            response.raise_for_status()
            self.there.set()
            async for line in response.content:
                if line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    delays.append(time.time() - float(event["text"]))
                    self.seen.append(event["seq"])
                    if event["seq"] >= until:
                        return


async def bare(redis: Redis, delays: list[float], after: str, count: int, number: int) -> None:
    """Read a transcript with nothing between."""
    while count > 0:
        found: Any = await redis.xread({stream(number): after}, count=50, block=2000)
        for identity, fields in found[0][1] if found else ():
            after = identity.decode()
            for event in read_entry(fields).events:
                count -= 1
                delays.append(time.time() - float(getattr(event, "text", "0")))


@asynccontextmanager
async def server(directory: Path, kubeconfig: Path) -> AsyncIterator[tuple[str, int]]:
    """Run a server; give its address and its process."""
    port = free_port()
    words = [Path(__file__).resolve(), "serve", directory, port, kubeconfig]
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


async def measure(directory: Path, redis_server: RedisServer) -> dict[str, Any]:
    """Measure all waves, and the bare loop behind each."""
    api = FakeApi()
    await api.start()
    put_objects(api, redis_server.url)
    delays, alone = list[list[float]](), list[list[float]]()
    async with Redis.from_url(redis_server.url, max_connections=200) as redis:
        writers = Writers(redis)
        async with server(directory, api.kubeconfig(directory)) as (url, pid):
            limits = aiohttp.TCPConnector(limit=0)
            timeout = aiohttp.ClientTimeout(total=None)
            async with aiohttp.ClientSession(url, connector=limits, timeout=timeout) as http:
                viewers = [Viewer(http, number) for number in range(VIEWERS)]
                cpu, _ = process_figures(pid)
                began = time.monotonic()
                for _ in range(WAVES):
                    waits: list[float] = []
                    until = writers.next + ENTRIES * EVENTS
                    looking = [asyncio.create_task(v.look(until, waits)) for v in viewers]
                    await asyncio.sleep(0)  # each has begun
                    await asyncio.gather(*(viewer.there.wait() for viewer in viewers))
                    await writers.wave()
                    await asyncio.gather(*looking)
                    delays.append(waits)
                seconds = time.monotonic() - began
                used, rss = process_figures(pid)
        seen = [viewer.seen for viewer in viewers]
        for _ in range(WAVES):
            waits = []
            count = ENTRIES * EVENTS
            last = [await redis.xrevrange(stream(n), count=1) for n in range(TRANSCRIPTS)]
            reading = [
                asyncio.create_task(bare(redis, waits, last[n][0][0].decode(), count, n))
                for n in range(TRANSCRIPTS)
            ]
            await writers.wave()
            await asyncio.gather(*reading)
            alone.append(waits)
    await api.stop()
    wanted = set(range(1, WAVES * ENTRIES * EVENTS + 1))
    ours, theirs = statistics.median(map(p50, delays)), statistics.median(map(p50, alone))
    return {
        "viewers": VIEWERS,
        "transcripts": TRANSCRIPTS,
        "events_shown": sum(map(len, seen)),
        "lost": sum(len(wanted - set(found)) for found in seen),
        "doubled": sum(len(found) - len(set(found)) for found in seen),
        "delay.p50_ms": ours,
        "delay.p99_ms": statistics.median(map(p99, delays)),
        "bare.p50_ms": theirs,
        "bare.p99_ms": statistics.median(map(p99, alone)),
        "ratio_to_bare": round(ours / theirs, 1),
        "server_cpu_percent": round(100 * (used - cpu) / seconds, 1),
        "server_rss_mb": round(rss, 1),
    }


def p50(waits: list[float]) -> float:
    """The median, in milliseconds."""
    return round(statistics.median(waits) * 1000, 1)


def p99(waits: list[float]) -> float:
    """The 99th percentile, in milliseconds."""
    return round(sorted(waits)[int(len(waits) * 0.99)] * 1000, 1)


def main() -> int:
    """Measure, print, write, judge."""
    if sys.argv[1:2] == ["serve"]:
        directory, port, kubeconfig = Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
        config = ServerConfig(
            directory=directory / "server", kubeconfig=kubeconfig, namespace="*", transcripts=True
        )
        serve({"helper": Agent(name="helper")}, port=port, config=config)
        return 0
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as place:
        redis_server = RedisServer(Path(place))
        redis_server.start()
        try:
            rows = asyncio.run(measure(Path(place), redis_server))
        finally:
            redis_server.stop()
    print(*told(rows, GOALS, {}), sep="\n")
    written = {"python": platform.python_version(), "cores": os.cpu_count(), **rows}
    (ROOT / "bench" / "viewers.json").write_text(json.dumps(written, indent=2) + "\n")
    return exit_code(rows, GOALS)


if __name__ == "__main__":
    sys.exit(main())
