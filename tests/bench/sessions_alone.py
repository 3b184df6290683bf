"""How sessions wake without an API server's share: the operator's parts on a fake one in memory.

The real Redis, the real parts; requests are answered by a few lines of Python in the same process.
"""

import asyncio
import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from bench_operator import percentiles
from redis.asyncio import Redis
from support.fake_api import FakeApi
from support.redis_server import running_server
from support.running_sessions import running_sessions
from support.talks import Talks

Object = dict[str, Any]
_IDLE = {"scaleToZeroAfterSeconds": 600}


class Patched:
    """When the fake API server was asked to scale each Deployment."""

    def __init__(self, api: FakeApi) -> None:
        self.at: dict[str, float] = {}
        self._changed = asyncio.Event()
        api.before = self._before

    async def until(self, names: list[str]) -> None:
        """Wait until all of these were."""
        async with asyncio.timeout(60):
            while not all(name in self.at for name in names):
                self._changed.clear()
                await self._changed.wait()

    async def _before(self, verb: str, plural: str, body: Object | None) -> None:
        if (verb, plural) == ("patch", "deployments") and body and body["spec"].get("replicas"):
            self.at.setdefault(body["metadata"]["name"], time.perf_counter())
            self._changed.set()


async def measure(sessions: int, single: int, many: int) -> Object:
    """Message sent → the scale patch arrives, one by one and at once."""
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)
    with _redis_server() as server:
        redis = Redis.from_url(server.url, decode_responses=True, protocol=2)
        api = FakeApi()
        await api.start()
        talks, patched = Talks(api, redis), Patched(api)
        names = [f"s-{n:04d}" for n in range(sessions)]
        for name in names:
            talks.apply(name, idle=_IDLE)
        try:
            async with running_sessions(api, server) as operator:
                async with asyncio.timeout(120):
                    while len(operator.sessions.waker) < sessions:
                        await asyncio.sleep(0.1)
                waits = []
                for name in names[:single]:
                    began = time.perf_counter()
                    await talks.send(name)
                    await patched.until([name])
                    waits.append(patched.at[name] - began)
                crowd = names[single : single + many]
                began = time.perf_counter()
                await asyncio.gather(*(talks.send(name) for name in crowd))
                await patched.until(crowd)
                last = max(patched.at[name] for name in crowd) - began
        finally:
            await redis.aclose()
            await api.stop()
    return {"wake": percentiles(waits), "at_once_all_scaled_ms": round(last * 1000, 1)}


@contextmanager
def _redis_server() -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as directory, running_server(Path(directory)) as server:
        yield server
