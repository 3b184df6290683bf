"""A fake API server, and the controller of triggers with a clock of its own."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
from redis.asyncio import Redis
from support.eventually import eventually
from support.fake_api import FakeApi, Object
from support.webhooks import MASTER_KEY, REPOSITORY

from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.connection import Credentials
from orbiter_operator.kube.leader_election import Leader
from orbiter_operator.runtime.health import Health
from orbiter_operator.runtime.metrics import Metrics
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.streams.client import blocking_client, redis_client
from orbiter_triggers.controller.app import Triggers, Webhooks

NAMESPACE = "team"
SIX = datetime(2026, 11, 30, 6, tzinfo=UTC)


class TriggerWorld:
    """A fake cluster, and the controller of triggers in it."""

    def __init__(self, api: FakeApi, redis_url: str = "") -> None:
        self.api = api
        self.redis_url = redis_url
        self.now = SIX - timedelta(minutes=30)
        self.health = Health()
        self.metrics = Metrics()
        self.clients: list[Redis] = []
        self._open = AsyncExitStack()
        self._controller: asyncio.Task[None] | None = None
        self.triggers: Triggers | None = None
        self.api.listeners.append(self._stamped)

    def _stamped(self, change: str, plural: str, obj: Object) -> None:
        """What is made is made now, by the test's clock."""
        if change == "ADDED" and plural == "agenttasks":
            obj["metadata"]["creationTimestamp"] = f"{self.now:%Y-%m-%dT%H:%M:%SZ}"

    async def start(self) -> None:
        """Start a controller, as after a crash."""
        await self.stop()
        self.health, self.metrics = Health(), Metrics()
        connection = kopf.ConnectionInfo(server=self.api.url)
        # Not in the controller's task: that is cancelled again while it takes long to end.
        kube = await self._open.enter_async_context(Kube(Credentials(lambda: connection)))
        self._controller = asyncio.create_task(self._run(kube), name="controller")

    async def stop(self) -> None:
        """End it at once, whatever it does."""
        if self._controller is not None:
            await end([self._controller])
            self._controller = None
        await self._open.aclose()
        for client in self.clients:
            await client.aclose()
        self.clients.clear()

    def kill_soon(self) -> None:
        """Cancel it from inside of a request."""
        assert self._controller is not None
        self._controller.cancel()

    async def _run(self, kube: Kube) -> None:
        leader = Leader(
            kube,
            namespace="orbiter-system",
            name="orbiter-triggers",
            identity="triggers-0",
            duration=60,
            renew=20,
            clock=time.monotonic,
        )
        await leader.acquire()
        webhooks = None
        if self.redis_url:
            redis, reader = redis_client(self.redis_url), blocking_client(self.redis_url)
            self.clients += redis, reader
            webhooks = Webhooks(redis, reader, MASTER_KEY, url="https://hooks.example.com")
        self.triggers = Triggers(
            namespaces=[NAMESPACE],
            resync_seconds=600,
            kube=kube,
            leader=leader,
            metrics=self.metrics,
            health=self.health,
            webhooks=webhooks,
            clock=lambda: self.now,
        )
        await self.triggers.run()

    def apply(self, name: str = "deps", **spec: Any) -> Object:
        """What `kubectl apply` does with an AgentTrigger of every hour."""
        cron = {"schedule": "0 * * * *", **spec.pop("cron", {})}
        template = {"spec": {"prompt": "Look at ${{event.scheduledTime}}."}}
        meta = {
            "name": name,
            "namespace": NAMESPACE,
            "creationTimestamp": f"{self.now:%Y-%m-%dT%H:%M:%SZ}",
        }
        known = self.api.get("agenttriggers", NAMESPACE, name)
        whole = {"source": {"cron": cron}, "taskTemplate": template} | spec
        if known is not None:
            changed = self.api.patch("agenttriggers", NAMESPACE, name, {"spec": whole})
            assert changed is not None
            return changed
        return self.api.put("agenttriggers", {"metadata": meta, "spec": whole})

    def apply_github(self, name: str = "fixes", **spec: Any) -> Object:
        """The same of one that hears a repository."""
        template = {"spec": {"prompt": "Fix ${{event.title}}."}}
        source = {"github": {"repository": REPOSITORY}}
        return self.apply(name, **{"source": source, "taskTemplate": template} | spec)

    def at(self, moment: datetime) -> None:
        """It is so late now, and whoever waits for that is told."""
        self.now = moment
        if self.triggers is not None:
            for key in self.triggers.cache:
                self.triggers.queue.add(key)

    @property
    def tasks(self) -> list[Object]:
        """All AgentTasks, by name."""
        found = self.api.objects["agenttasks"]
        return [found[place] for place in sorted(found)]

    def status(self, name: str = "deps") -> Object:
        """The trigger's status; empty when there is none."""
        found: Object = (self.api.get("agenttriggers", NAMESPACE, name) or {}).get("status") or {}
        return found

    def outcomes(self, name: str = "deps") -> list[str]:
        """What became of the latest events, the newest first."""
        return [note["outcome"] for note in self.status(name).get("lastEvents", ())]

    def ends(self, task: Object, phase: str = "Completed") -> None:
        """The operator has brought a task to its end."""
        self.api.patch(
            "agenttasks", NAMESPACE, task["metadata"]["name"], {"status": {"phase": phase}}
        )

    async def until(self, condition: Callable[[], Any] | Callable[[], Awaitable[Any]]) -> None:
        """Wait for something that the controller does."""
        await eventually(condition)
