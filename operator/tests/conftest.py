"""Fixtures of the operator's tests: a fake API server, a fake node, the operator beside them."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import pytest
from redis.asyncio import ConnectionPool, Redis
from support.eventually import eventually
from support.fake_api import FakeApi, Object
from support.fake_api import api as api
from support.fake_node import FakeNode
from support.fake_session_node import FakeSessionNode
from support.redis_server import PATIENT, RedisServer
from support.replicated import Replicated
from support.wrapper_node import WrapperNode

from orbiter_contracts.redis_connection import connection_to
from orbiter_contracts.redis_url import read_redis_url
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.connection import Credentials
from orbiter_operator.streams.client import redis_client

NAMESPACE = "team"


class OperatorProcess:
    """The real program as a process of its own, to be killed at any moment."""

    def __init__(self, api: FakeApi, directory: Path, **settings: object) -> None:
        self._directory = directory
        self._environment = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(api.kubeconfig(directory)),
            "ORBITER_LEASE_NAMESPACE": "orbiter-system",
            "ORBITER_IDENTITY": "operator-0",
            "ORBITER_HEALTH_PORT": "0",
            "ORBITER_METRICS_PORT": "0",
            "ORBITER_LOG_LEVEL": "debug",
        } | {f"ORBITER_{key.upper()}": str(value) for key, value in settings.items()}
        self.process: asyncio.subprocess.Process | None = None
        self.log = directory / f"{self._environment['ORBITER_IDENTITY']}.log"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "orbiter_operator", env=self._environment, stderr=log
            )

    def kill_now(self) -> None:
        """SIGKILL without waiting; from inside a request of the fake API server."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()

    async def end(self, how: signal.Signals = signal.SIGKILL) -> int:
        """End it and wait; returns the exit code."""
        if self.process is None:
            return 0
        if self.process.returncode is None:
            self.process.send_signal(how)
        code = await self.process.wait()
        self.process = None
        return code

    async def answers(self) -> dict[str, tuple[int, str]]:
        """Status codes and texts of both probes, and the metrics."""
        log = self.log.read_text()
        health, metrics = (
            log.split(f'"{name}": ')[1].split(",")[0] for name in ("health_port", "metrics_port")
        )
        found = {}
        async with aiohttp.ClientSession() as session:
            for name, port in (("healthz", health), ("readyz", health), ("metrics", metrics)):
                async with session.get(f"http://127.0.0.1:{port}/{name}") as response:
                    found[name] = (response.status, await response.text())
        return found


class World:
    """A fake cluster with a real Redis, and the operator in it."""

    def __init__(self, server: RedisServer | Replicated, redis: Redis, directory: Path) -> None:
        self.api = FakeApi()
        self.redis = redis
        kind, options = connection_to(read_redis_url(server.url))
        pool = ConnectionPool(kind, **options, protocol=2, **PATIENT)
        self.binary = Redis.from_pool(pool)
        self.server = server
        self.directory = directory
        self.node = FakeNode(self.api, redis)
        self.sessions = FakeSessionNode(self.api, redis)
        self.operators: list[OperatorProcess] = []

    async def start_operator(self, **settings: object) -> OperatorProcess:
        operator = OperatorProcess(
            self.api, self.directory, **{"redis_url": self.server.url} | settings
        )
        self.operators.append(operator)
        await operator.start()
        return operator

    def apply(self, name: str, prompt: str = "ok", **spec: Any) -> Object:
        """What `kubectl apply` does with an AgentTask."""
        return self.api.put(
            "agenttasks",
            {
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"prompt": prompt, "agent": {"type": "claude"}, **spec},
            },
        )

    def adopted(self, task_id: str) -> str | None:
        """The name of the AgentTask that was made of an entry with this task id."""
        for obj in self.api.objects["agenttasks"].values():
            if (obj.get("spec") or {}).get("taskId") == task_id:
                name: str = obj["metadata"]["name"]
                return name
        return None

    def status(self, name: str) -> Object:
        """The task's status; empty when there is none."""
        obj = self.api.get("agenttasks", NAMESPACE, name) or {}
        found: Object = obj.get("status") or {}
        return found

    def phases(self, name: str) -> list[str]:
        """The phases the task has shown, as `kubectl get -w` would print them."""
        shown: list[str] = []
        for _, _, plural, obj in self.api.history:
            if plural == "agenttasks" and obj["metadata"]["name"] == name:
                phase = (obj.get("status") or {}).get("phase", "")
                if phase and shown[-1:] != [phase]:
                    shown.append(phase)
        return shown

    async def until(self, name: str, *phases: str, seconds: float = 90.0) -> Object:
        """Wait until the task is in one of the phases; returns its status."""
        try:
            await eventually(lambda: self.status(name).get("phase") in phases, seconds=seconds)
        except AssertionError:
            logs = "".join(operator.log.read_text() for operator in self.operators)
            raise AssertionError(f"{name}: {self.status(name)}\n{logs[-8000:]}") from None
        return self.status(name)

    async def until_reason(self, name: str, reason: str, seconds: float = 90.0) -> Object:
        """Wait until the status has this reason."""
        await eventually(lambda: self.status(name).get("reason") == reason, seconds=seconds)
        return self.status(name)

    def events(self, name: str) -> list[str]:
        """Reasons of the task's Events, in the order they were posted."""
        found = self.api.objects["events"].values()
        return [item["reason"] for item in found if item["involvedObject"]["name"] == name]


@pytest.fixture
async def kube(api: FakeApi) -> AsyncIterator[Kube]:
    """The operator's client of the fake API server."""
    connection = kopf.ConnectionInfo(server=api.url)
    async with Kube(Credentials(lambda: connection)) as made:
        yield made


@pytest.fixture
async def world(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[World]:
    """A world on the shared Redis server."""
    async with running_world(World(redis_server, redis, tmp_path)) as made:
        yield made


@pytest.fixture
async def own_world(own_redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[World]:
    """A world whose Redis the test may break."""
    client = Redis.from_url(own_redis_server.url, decode_responses=True, protocol=2, **PATIENT)
    async with running_world(World(own_redis_server, client, tmp_path)) as made:
        yield made
    await client.aclose()


@pytest.fixture
async def replicated_world(replicated: Replicated, tmp_path: Path) -> AsyncIterator[World]:
    """A world whose Redis is behind Sentinels, with workers that publish as the wrapper does."""
    client = redis_client(replicated.url)
    made = World(replicated, client, tmp_path)
    made.node = WrapperNode(made.api, client, turn_delay=1.0, url=replicated.url)
    async with running_world(made) as world:
        yield world
    await client.aclose()


class running_world:  # noqa: N801 - used like a function
    """Starts a world and ends everything in it."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def __aenter__(self) -> World:
        await self._world.api.start()
        self._world.node.start()
        self._world.sessions.start()
        return self._world

    async def __aexit__(self, *_: object) -> None:
        for operator in self._world.operators:
            await operator.end()
        await self._world.node.stop()
        await self._world.sessions.stop()
        await self._world.api.stop()
        await self._world.binary.aclose()
