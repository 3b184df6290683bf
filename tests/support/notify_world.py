"""Receivers of notifications on loopback, and the courier's loop that sends to them."""

import asyncio
import base64
import json
from collections import deque
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import kopf
from aiohttp import web
from redis.asyncio import Redis
from support import servers
from support.eventually import eventually
from support.fake_api import FakeApi, Object

from orbiter_contracts.queues import Keys, dead_letter
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.connection import Credentials
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.streams.client import redis_client
from orbiter_triggers.courier.notify.notifier import Notifier
from orbiter_triggers.courier.notify.outbox import Outbox
from orbiter_triggers.courier.notify.sender import Sender, guarded_session

NAMESPACE = "team"
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
LOOPBACK = (ip_network("127.0.0.0/8"),)


class Receiver:
    """An HTTP server that keeps what it was sent, and answers as it is told."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: deque[tuple[int, dict[str, str]]] = deque()
        self.held: asyncio.Event | None = None
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=hidden"

    @property
    def types(self) -> list[str]:
        """Subject and type of what has come, the first first."""
        events = [json.loads(body) for _, body in self.got]
        return [f"{one['subject']} {one['type'].rpartition('.')[2]}" for one in events]

    def says(self, *statuses: int, **headers: str) -> None:
        """What it answers to the next requests, in their order; 204 to all that follow."""
        self.answers += [(status, headers) for status in statuses]

    async def start(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await servers.stop(self._runner)
            self._runner = None

    async def _answer(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append((headers, await request.read()))
        if self.held is not None:
            await self.held.wait()
        status, more = self.answers.popleft() if self.answers else (204, {})
        return web.Response(status=status, headers=more)


class NotifyWorld:
    """A fake cluster, a real Redis, and a courier that has a clock of its own."""

    def __init__(self, api: FakeApi, redis: Redis, url: str) -> None:
        self.api, self.redis, self._url = api, redis, url
        self.now = NOON
        self.receiver = Receiver()
        self.private: Any = LOOPBACK
        self.allow_http = True
        self.counted: list[str] = []
        self.notifier: Notifier | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start a courier, as after a crash."""
        await self.stop()
        self._running = asyncio.create_task(self._run(), name="courier")

    async def stop(self) -> None:
        """End it at once, whatever it does."""
        if self._running is not None:
            await end([self._running])
            self._running = None

    async def _run(self) -> None:
        connection = kopf.ConnectionInfo(server=self.api.url)
        client = redis_client(self._url)
        try:
            async with (
                Kube(Credentials(lambda: connection)) as kube,
                guarded_session(self.private) as session,
            ):
                sender = Sender(
                    kube=kube,
                    session=session,
                    clock=lambda: self.now.timestamp(),
                    allow_http=self.allow_http,
                )
                self.notifier = Notifier(
                    kube=kube,
                    outbox=Outbox(client, Keys().notifications_waiting("orbiter", "courier")),
                    sender=sender,
                    namespaces=[NAMESPACE],
                    identity="courier-0",
                    allowed=lambda: None,
                    count=self.counted.append,
                    clock=lambda: self.now,
                    chance=lambda: 0.5,
                )
                await self.notifier.run()
        finally:
            await client.aclose()

    def real_now(self) -> datetime:
        """The machine's time, for programs that have no other."""
        return datetime.now(UTC)

    def secret(self, name: str = "orbiter-notify", **values: str) -> None:
        """A Secret of the namespace."""
        texts = values or {"secret": SECRET, "url": self.receiver.url}
        data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        self.api.put("secrets", {"metadata": {"name": name, "namespace": NAMESPACE}, "data": data})

    def sink(self, receiver: Receiver | None = None, **more: Any) -> Object:
        """One of `notify`; http, which the specification's pattern allows."""
        url = (receiver or self.receiver).url
        return {"url": url, "secretRef": {"name": "orbiter-notify"}, **more}

    def task(self, name: str = "fix", *sinks: Object, **status: Any) -> Object:
        """A task whose operator has written this status."""
        known = self.api.get("agenttasks", NAMESPACE, name)
        told = {"notify": list(sinks or (self.sink(),)), "phase": "Running", **status}
        if known is not None:
            changed = self.api.patch("agenttasks", NAMESPACE, name, {"status": told})
            assert changed is not None
            return changed
        created = (self.now - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta = {"name": name, "namespace": NAMESPACE, "creationTimestamp": created}
        return self.api.put("agenttasks", {"metadata": meta, "spec": {}, "status": told})

    def ends(self, name: str = "fix", *sinks: Object, phase: str = "Completed") -> Object:
        """The same at its end, which is now."""
        when = self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return self.task(name, *sinks, phase=phase, completionTime=when)

    def near_budget(self) -> Object:
        """A budget of which a good part is spent, since now."""
        when = self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        near = {"type": "NearLimit", "status": "True", "reason": "WarnAtPercent", "message": "80 %"}
        status = {"periodStart": when, "conditions": [{**near, "lastTransitionTime": when}]}
        meta = {"name": "month", "namespace": NAMESPACE}
        spec = {"maxCostUSD": 100}
        return self.api.put("agentbudgets", {"metadata": meta, "spec": spec, "status": status})

    def at(self, moment: datetime) -> None:
        """It is so late now, and who waits for that is told."""
        self.now = moment
        if self.notifier is not None:
            for lane in self.notifier.outbox.lanes:
                self.notifier.lanes.add(lane)

    def events(self) -> list[str]:
        """Reasons and messages of the Events that the courier has posted."""
        found = self.api.objects["events"].values()
        return [f"{one['reason']}: {one['message']}" for one in found]

    async def letters(self) -> list[dict[str, str]]:
        stream = dead_letter(Keys.of_namespace(NAMESPACE).notifications)
        return [fields for _, fields in await self.redis.xrange(stream)]

    async def kept(self, obj: Object) -> dict[str, str]:
        """What Redis knows of the notifications of an object, by the events' ids."""
        key = Keys.of_namespace(NAMESPACE).notified(obj["metadata"]["uid"])
        found: dict[str, str] = await self.redis.hgetall(key)
        return {name.partition("/")[2]: value for name, value in found.items()}

    async def until(self, condition: Any) -> None:
        await eventually(condition)
