"""Receiver, controller and courier as their real programs, killed and started again.

Beside them stands `LimitedTasks`, which does to AgentTasks what an operator with a limit would.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from redis.asyncio import Redis
from support.courier_world import USERS, url_of
from support.eventually import eventually
from support.fake_api import FakeApi, Object
from support.fake_github import TOKEN
from support.ports import free_port
from support.storm_github import StormGithub
from support.webhooks import MASTER_KEY, REPOSITORY

MODULES: Final = {
    "receiver": "orbiter_triggers.receiver",
    "controller": "orbiter_triggers",
    "courier": "orbiter_triggers.courier",
}
_AT_WORK: Final = {"receiver": '"serving"'} | dict.fromkeys(
    ("controller", "courier"), '"this replica is active now"'
)
"""What a part says in its log when it begins to work."""


class Programs:
    """All three.

    Args:
        api: The cluster.
        redis_url: Redis, without a user.
        github: Where the courier goes.
        ca: File with the CA of its certificate.
        directory: For files.
        namespace: What they serve.
    """

    def __init__(
        self,
        api: FakeApi,
        redis_url: str,
        github: StormGithub,
        ca: Path,
        directory: Path,
        namespace: str,
    ) -> None:
        self.kills: Counter[str] = Counter()
        self.port = free_port()
        self._directory = directory
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._lives: Counter[str] = Counter()
        self._said: dict[str, int] = {}
        (directory / "token").write_text(TOKEN)
        shared = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(api.kubeconfig(directory)),
            "ORBITER_WATCH_NAMESPACES": namespace,
            "ORBITER_WEBHOOK_MASTER_KEY": MASTER_KEY,
            "ORBITER_LEASE_DURATION_SECONDS": "5",
            "ORBITER_LEASE_RENEW_SECONDS": "1",
            "ORBITER_HEALTH_PORT": "0",
            "ORBITER_METRICS_PORT": "0",
        }
        own = {
            "receiver": {"ORBITER_WEBHOOK_PORT": str(self.port)},
            "controller": {"ORBITER_LEASE_NAME": "triggers"},
            "courier": {
                "ORBITER_LEASE_NAME": "courier",
                "ORBITER_GITHUB_URL": github.url,
                "ORBITER_GITHUB_CA": str(ca),
                "ORBITER_GITHUB_PRIVATE_NETWORKS": "127.0.0.0/8",
                "ORBITER_GITHUB_WRITE_SECONDS": "0",
                "ORBITER_GITHUB_CREDENTIALS": str(directory),
                "ORBITER_GITHUB_REPOSITORIES": json.dumps({namespace: [REPOSITORY]}),
                "ORBITER_POLL_SECONDS": "10",
            },
        }
        users = {"receiver": "receiver", "controller": "triggers", "courier": "courier"}
        self._environments: dict[str, Mapping[str, str]] = {
            part: {**shared, **own[part], "ORBITER_REDIS_URL": url_of(redis_url, users[part])}
            for part in MODULES
        }

    async def begin(self, redis: Redis) -> None:
        """Make their users in Redis, and start all of them."""
        for user, rules in USERS.items():
            await redis.execute_command("ACL", "SETUSER", user, "reset", "on", ">secret", *rules)
        for part in MODULES:
            await self.start(part)

    async def start(self, part: str, *, as_before: bool = False) -> None:
        """Start a part: as another pod's, or as the container of the same pod."""
        self._lives[part] += not as_before
        identity = {"ORBITER_IDENTITY": f"{part}-{self._lives[part]}"}
        path = self._log(part)
        self._said[part] = path.stat().st_size if path.exists() else 0
        with path.open("ab") as log:
            self._running[part] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", MODULES[part]),
                env={**self._environments[part], **identity},
                stderr=log,
            )

    async def kill(self, part: str, *, as_before: bool) -> None:
        """Kill a part in the middle of whatever it does, and start it again."""
        process = self._running[part]
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        self.kills[part] += 1
        await self.start(part, as_before=as_before)

    async def freeze(self, part: str) -> None:
        """Have a part stand still until its successor works: then it has to find that out."""
        await eventually(lambda: self.at_work(part), seconds=120.0)
        frozen = self._running[part]
        frozen.send_signal(signal.SIGSTOP)
        self.kills[f"{part}, frozen"] += 1
        try:
            await self.start(part)
            await eventually(lambda: self.at_work(part), seconds=120.0)
            frozen.send_signal(signal.SIGCONT)
            # Who is not the active one any more ends by itself.
            assert await asyncio.wait_for(frozen.wait(), 120.0) == 1
        finally:
            with contextlib.suppress(ProcessLookupError):
                frozen.kill()
            await frozen.wait()

    def at_work(self, part: str) -> bool:
        """Whether a part has begun to work since it was started."""
        return _AT_WORK[part].encode() in self._log(part).read_bytes()[self._said[part] :]

    async def end(self, redis: Redis) -> dict[str, int]:
        """Tell all to stop; returns their exit codes."""
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        codes = {part: await process.wait() for part, process in self._running.items()}
        await redis.execute_command("ACL", "DELUSER", *USERS)
        return codes

    def _log(self, part: str) -> Path:
        """What a part has said, in all of its lives."""
        return self._directory / f"{part}.log"


class LimitedTasks:
    """Brings tasks to their ends, so many at once and the oldest first.

    Args:
        api: The cluster.
        at_once: How many.
        seconds: How long one works.
    """

    def __init__(self, api: FakeApi, at_once: int, seconds: float) -> None:
        self._api = api
        self._at_once = at_once
        self._seconds = seconds
        self._waiting: deque[tuple[str, str]] = deque()
        self._work: set[asyncio.Task[None]] = set()
        self.made = 0
        self.ended = 0
        api.listeners.append(self._seen)

    async def stop(self) -> None:
        self._api.listeners.remove(self._seen)
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    def _seen(self, change: str, plural: str, obj: Object) -> None:
        if change == "ADDED" and plural == "agenttasks":
            self.made += 1
            self._waiting.append((obj["metadata"]["namespace"], obj["metadata"]["name"]))
            asyncio.get_running_loop().call_soon(self._more)

    def _more(self) -> None:
        while self._waiting and len(self._work) < self._at_once:
            task = asyncio.create_task(self._run(*self._waiting.popleft()))
            self._work.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        self.ended += not task.cancelled()
        self._more()

    async def _run(self, namespace: str, name: str) -> None:
        place = "agenttasks", namespace, name
        self._api.patch(*place, {"status": {"phase": "Running", "attempts": 1}})
        await asyncio.sleep(self._seconds)
        result = {"phase": "Completed", "result": {"summary": "It was the cache."}}
        self._api.patch(*place, {"status": result})
