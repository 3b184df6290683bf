"""Around the bots of `examples`: their processes, and the sessions of alice and bob behind them.

Redis knows the bots as the user that an operator makes for front ends, with that one's rights.
"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.redis_server import RedisServer, login

from orbiter_contracts import POWorkerInput, POWorkerOutput, decode, encode
from orbiter_contracts.queues import BARE, Keys
from orbiter_contracts.redis_users import chat_rules, chat_user

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PASSWORD = "the-password-of-redis"


class Bot:
    """A bot's process, which may be killed and started again."""

    def __init__(self, program: str, log: Path, **environ: str) -> None:
        self._program = EXAMPLES / program
        self._log = log
        self.environ = {"PATH": os.environ["PATH"], **environ}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, self._program], env=self.environ, stdout=output, stderr=output
            )

    def kill(self) -> None:
        """End it without a warning."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int | None:
        """End it, and say how it has left."""
        if self._process is None:
            return None
        self._process.send_signal(how)
        return self._process.wait(timeout=90)

    async def exit_code(self) -> int | None:
        """Wait until it has left by itself, and say how."""
        process = self._process
        assert process is not None
        await eventually(lambda: process.poll() is not None, seconds=90.0)
        return process.returncode

    @property
    def log(self) -> str:
        return self._log.read_text()


class Sessions:
    """What stands in for the workers of a namespace's sessions: a test answers in their stead."""

    def __init__(self, redis: Redis, keys: Keys = BARE, namespace: str = "default") -> None:
        self.redis = redis
        self._keys = keys
        self._namespace = namespace

    async def allow(self, url: str) -> str:
        """Make the user for front ends; returns the server's URL with it."""
        user = chat_user(self._namespace)
        rules = chat_rules(self._keys, self._namespace, self._keys.session_records())
        await self.redis.execute_command("ACL", "SETUSER", user, "on", f">{PASSWORD}", *rules)
        return url.replace("//", f"//{quote(user, safe='')}:{PASSWORD}@")

    def line(self, chat_user: str, number: int, name: str) -> str:
        """The line of a user in the list of users."""
        worker = f"{self._namespace}.{name}"
        return (
            f"{chat_user} {number} {self._keys.po_input(worker)} {self._keys.po_output(worker)}\n"
        )

    async def heard(self, name: str, count: int = 1) -> list[POWorkerInput]:
        """Wait for that many messages; returns all that are there."""
        stream = self._keys.po_input(f"{self._namespace}.{name}")

        async def enough() -> list[Any]:
            entries = await self.redis.xrange(stream)
            return entries if len(entries) >= count else []

        found = await eventually(enough, seconds=90.0)
        return [decode(POWorkerInput, fields) for _, fields in found]

    async def count(self, name: str) -> int:
        return await self.redis.xlen(self._keys.po_input(f"{self._namespace}.{name}"))

    async def answers(self, name: str, message: POWorkerInput, text: str, **fields: Any) -> None:
        """Answer a message."""
        output = POWorkerOutput(
            request_id=message.request_id, user_id=message.user_id, text=text, **fields
        )
        await self.puts(name, encode(output))

    async def puts(self, name: str, fields: dict[str, str]) -> None:
        """Add whatever it is to a session's outputs."""
        await self.redis.xadd(self._keys.po_output(f"{self._namespace}.{name}"), fields)

    async def noted(self, record: str, chat_user: str, name: str) -> None:
        """Wait until a bot has noted that it has told all that a session has said."""
        stream = self._keys.po_output(f"{self._namespace}.{name}")
        [(last, _)] = await self.redis.xrevrange(stream, count=1)
        memory = f"{self._keys.session_records()}{record}"

        async def is_noted() -> bool:
            return await self.redis.hget(memory, f"{chat_user}:told") == f"{last} 0"

        await eventually(is_noted, seconds=90.0)


@pytest.fixture
async def sessions(redis_server: RedisServer) -> AsyncIterator[Sessions]:
    """The sessions, of which an empty Redis knows nothing yet."""
    redis = login(redis_server.url)
    await redis.flushall()
    yield Sessions(redis)
    await redis.aclose()
