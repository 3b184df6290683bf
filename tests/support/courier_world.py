"""A fake cluster with the controller of triggers, a scripted GitHub, and the courier between."""

from collections import Counter
from contextlib import AsyncExitStack
from copy import deepcopy
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import kopf
from redis.asyncio import Redis
from support.fake_api import FakeApi, Object
from support.fake_github import TOKEN, FakeGithub
from support.trigger_world import NAMESPACE, TriggerWorld
from support.webhooks import MASTER_KEY, REPOSITORY, github_request

from orbiter_contracts.queues import Keys
from orbiter_contracts.redis_users import courier_rules, receiver_rules, triggers_rules
from orbiter_contracts.webhook_signatures import Hook
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.connection import Credentials
from orbiter_operator.runtime.reconciler import WorkQueue
from orbiter_operator.streams.client import redis_client
from orbiter_triggers.courier.cache import CourierCache
from orbiter_triggers.courier.client import Github
from orbiter_triggers.courier.credentials import GithubCredentials
from orbiter_triggers.courier.poll import Poll
from orbiter_triggers.courier.records import Records
from orbiter_triggers.courier.threads import Threads
from orbiter_triggers.event_stream import EventStream
from orbiter_triggers.events.requests import read_event

STREAM = Keys.of_namespace(NAMESPACE).trigger_events
USERS = {"triggers": triggers_rules(), "receiver": receiver_rules(), "courier": courier_rules()}
INTERVAL = timedelta(minutes=10)


class CourierWorld(TriggerWorld):
    """All of it. Everybody has the rights in Redis that they have in an installation."""

    def __init__(self, api: FakeApi, redis: Redis, url: str, directory: Path) -> None:
        super().__init__(api, url_of(url, "triggers"))
        self.redis = redis
        self.github = FakeGithub()
        self.counted: Counter[str] = Counter()
        self.door, self.ours = (
            redis_client(url_of(url, "receiver")),
            redis_client(url_of(url, "courier")),
        )
        self.answers = True
        self.repositories = {(NAMESPACE, REPOSITORY)}
        self._directory = directory
        self._ours_open = AsyncExitStack()

    async def begin(self) -> None:
        for user, rules in USERS.items():
            wanted = ("ACL", "SETUSER", user, "reset", "on", ">secret", *rules)
            await self.redis.execute_command(*wanted)
        (self._directory / "token").write_text(TOKEN)
        self.github.now = self.now
        await self.github.start()
        await self.start()
        await self.restart()

    async def end(self) -> None:
        await self.stop()
        await self._ours_open.aclose()
        await self.github.stop()
        for redis in (self.door, self.ours):
            await redis.aclose()
        await self.redis.execute_command("ACL", "DELUSER", *USERS)

    async def restart(self) -> None:
        """A new courier: it knows what Redis, the cluster and GitHub know."""
        self.cache = CourierCache(lambda key: None)
        client = Github(
            self.github.url,
            GithubCredentials(self._directory, lambda: self.now.timestamp()),
            private=[ip_network("127.0.0.0/8")],
            clock=lambda: self.now.timestamp(),
            write_pause=0.0,
        )
        self.client = await self._ours_open.enter_async_context(client)
        self.poll = Poll(
            cache=self.cache,
            github=self.client,
            redis=self.ours,
            may_see=lambda *asked: asked in self.repositories,
            allowed=lambda: None,
            count=lambda outcome: self.counted.update([outcome]),
            interval=INTERVAL.total_seconds(),
            clock=lambda: self.now,
        )
        connection = kopf.ConnectionInfo(server=self.api.url)
        kube = await self._ours_open.enter_async_context(Kube(Credentials(lambda: connection)))
        self.threads = Threads(
            queue=WorkQueue(self.seconds),
            cache=self.cache,
            kube=kube,
            github=self.client,
            api=self.github.url,
            records=Records(self.ours),
            may_see=lambda *asked: asked in self.repositories,
            allowed=lambda: None,
            answers=self.answers,
            link="https://orbiter.example.com/#/cluster//tasks/{namespace}/{name}",
            clock=self.seconds,
        )

    def seconds(self) -> float:
        """The time, for those that only count how much passes."""
        return self.now.timestamp()

    def see(self) -> None:
        """The courier's informers have brought what there is."""
        for plural, cache in (
            ("agenttriggers", self.cache.triggers),
            ("agenttasks", self.cache.tasks),
        ):
            for obj in self.api.objects[plural].values():
                cache.put(deepcopy(obj))

    async def told(self, passed: timedelta = timedelta(0)) -> list[float | None]:
        """GitHub is told of every task, so much later; after how long it would be told more."""
        self.later(passed)
        self.see()
        return [await self.threads.handle(key) for key in self.cache.tasks]

    def later(self, passed: timedelta) -> None:
        """So much time has passed, for everybody."""
        self.github.now = self.now + passed
        self.at(self.now + passed)

    async def polled(self, passed: timedelta = INTERVAL) -> Counter[str]:
        """A round of the poll, so much later; returns what has become of what it found."""
        self.later(passed)
        self.counted.clear()
        self.see()
        await self.poll.round()
        return self.counted

    async def known(self, name: str = "fixes") -> None:
        """Wait until the controller serves a trigger."""
        await self.until(lambda: self.status(name).get("observedGeneration") is not None)

    async def is_empty(self) -> bool:
        """Nothing is left to decide."""
        return int(await self.redis.xlen(STREAM)) == 0

    async def send(self, event: str, body: Object, name: str = "fixes") -> None:
        """A webhook, as the receiver takes it in."""
        found = self.api.get("agenttriggers", NAMESPACE, name)
        assert found is not None
        hook = Hook(NAMESPACE, name, "github", found["metadata"]["uid"])
        headers, raw = github_request(hook, event, body)
        secrets, now = [hook.secret(MASTER_KEY)], self.now.timestamp()
        read = read_event(hook, headers.items(), raw, secrets, now)
        await EventStream(self.door).add(NAMESPACE, read)

    def names(self) -> list[str]:
        return [task["metadata"]["name"] for task in self.tasks]

    def becomes(self, **status: Any) -> None:
        """What the operator writes about every task."""
        for name in self.names():
            self.api.patch("agenttasks", NAMESPACE, name, {"status": status})

    def prompts(self) -> list[Any]:
        return [task["spec"]["prompt"] for task in self.tasks]


def url_of(url: str, user: str) -> str:
    """Redis in the name of one of the users."""
    return url.replace("redis://", f"redis://{user}:secret@")
