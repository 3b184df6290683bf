"""Worker wrappers for tests: parts of one in this process, or a whole one with a fake CLI.

`wrappers` starts whole processes (`python -m worker_wrapper`) whose `claude` is `fake_claude`, a
shell script that notes what it was given and answers as the test says.
"""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
from redis.asyncio import Redis
from support.eventually import eventually
from support.namespaced import Tenancy
from support.redis_server import RedisServer

from worker_wrapper.queue.connection import RedisConnection

API_KEY = "sk-ant-not-a-real-key"

_CLAUDE = """#!/bin/sh
home={home}
turn="$home/turns/$(date +%s%N)-$$"
mkdir -p "$turn.new"
printf '%s\\n' "$@" >"$turn.new/argv"
env >"$turn.new/env"
cat >"$turn.new/prompt"
echo $$ >"$turn.new/pid"
mv "$turn.new" "$turn"
while [ -e "$home/held" ]; do sleep 0.02; done
. "$home/behaviour"
"""

# Keeps conversations as the real one does: a file each, refused where the real one refuses.
_REMEMBERS = """
while [ $# -gt 0 ]; do
  case "$1" in --session-id|--resume) how=$1; id=$2 ;; esac
  shift
done
file="$HOME/.claude/projects/-work/$id.jsonl"
mkdir -p "$(dirname "$file")"
if [ "$how" = --session-id ] && [ -e "$file" ]; then
  echo "Error: Session ID $id is already in use." >&2; exit 1
elif [ "$how" = --resume ] && [ ! -e "$file" ]; then
  echo "No conversation found with session ID: $id" >&2; exit 1
fi
{{ tr '\\n' ' ' <"$turn/prompt"; echo; }} >>"$file"
{then}
said=$(tr '\\n' '|' <"$file")
printf '{{"type":"result","num_turns":1,"result":"%s%s","session_id":"%s",' "$said" {block} "$id"
printf '"total_cost_usd":0.25,"usage":{{"input_tokens":%s,"output_tokens":5}}}}\\n' {tokens}
"""

# Kills the wrapper after its n-th talk with Redis, or before the first one of a kind: as
# sitecustomize of a whole process.
_SABOTAGE = """
import os, signal
from worker_wrapper.queue import connection

real, count = connection.RedisConnection._once, 0

async def once(self, *arguments):
    global count
    if ":transcript" in str(arguments[0]):  # beside the work, and whenever it pleases
        return await real(self, *arguments)
    if os.environ["DIES_BEFORE"] and os.environ["DIES_BEFORE"] in str(arguments[0]):
        os.kill(os.getpid(), signal.SIGKILL)
    reply = await real(self, *arguments)
    count += 1
    if count == int(os.environ["DIES_AFTER"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return reply

connection.RedisConnection._once = once
"""


_IN_A_POD = """
import os, socket

socket.gethostname = lambda: os.environ["POD"]
"""


@asynccontextmanager
async def connected(
    url: str, *, waits: Callable[[], bool] | None = None
) -> AsyncIterator[RedisConnection]:
    """The wrapper's own connection to a server; it does not wait between tries."""
    connection = RedisConnection(url, structlog.get_logger(), waits=waits, sleep=_no_time)
    try:
        yield connection
    finally:
        await connection.close()
        await asyncio.sleep(0)  # asyncio closes the socket one turn of its loop later


def _never() -> bool:
    """In a test nothing is missing, so waiting for it would be waiting for ever."""
    return False


async def _no_time(seconds: float) -> None:
    """Wait for nothing: how long the pauses are is a rule with a test of its own."""


@dataclass(frozen=True)
class FakeTurn:
    """What the fake CLI was given once."""

    argv: list[str]
    prompt: str
    env: dict[str, str]
    pid: int


class FakeClaude:
    """A `claude` that answers at once, when it is released, or as a shell script says."""

    def __init__(self, home: Path) -> None:
        self.bin = home / "bin"
        self._home = home
        for directory in (self.bin, home / "turns"):
            directory.mkdir(parents=True)
        program = self.bin / "claude"
        program.write_text(_CLAUDE.format(home=shlex.quote(str(home))))
        program.chmod(0o755)
        self.says("done <result>{}</result>")

    def says(self, text: str, **fields: Any) -> None:
        """Answer every turn with this text; `fields` replace those of Claude's JSON."""
        answer = {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": 1,
            "result": text,
            "total_cost_usd": 0.25,
            "usage": {"input_tokens": 10, "output_tokens": 5},
            "permission_denials": [],
            **fields,
        }
        (self._home / "answer").write_text(json.dumps(answer))
        self.does(f"cat {shlex.quote(str(self._home / 'answer'))}")

    def remembers(self, *, tokens: int = 10, then: str = "", block: str = "") -> None:
        """Answer with all prompts of the conversation, each with a `|` behind it.

        Args:
            tokens: How many tokens each request is said to have.
            then: Shell commands to run once the prompt is written down.
            block: What to say behind the prompts, as it has to be in JSON.
        """
        self.does(_REMEMBERS.format(tokens=tokens, then=then, block=shlex.quote(block)))

    def does(self, script: str) -> None:
        """Run this shell script instead of answering."""
        (self._home / "behaviour").write_text(script + "\n")

    @property
    def behaviour(self) -> str:
        """The shell script that answers at present."""
        return (self._home / "behaviour").read_text()

    def hold(self) -> None:
        """Take every message and answer none until `release`."""
        (self._home / "held").touch()

    def release(self) -> None:
        """Let every turn go on."""
        (self._home / "held").unlink(missing_ok=True)

    @property
    def turns(self) -> list[FakeTurn]:
        """What it was given, the oldest first."""
        found = []
        for path in sorted((self._home / "turns").iterdir()):
            if path.suffix != ".new":
                env = dict(line.partition("=")[::2] for line in _lines(path / "env"))
                prompt = (path / "prompt").read_text()
                pid = int((path / "pid").read_text())
                found.append(FakeTurn(_lines(path / "argv"), prompt, env, pid))
        return found


class WrapperProcess:
    """A wrapper in a process of its own."""

    def __init__(self, env: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "worker_wrapper"], env=env, stdout=output, stderr=output
            )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def exit_code(self, *, seconds: float = 90.0) -> int:
        """Wait until it has left, and say how."""
        await eventually(lambda: self.process.poll() is not None, seconds=seconds)
        assert self.process.returncode is not None
        return self.process.returncode

    async def logged(self, event: str) -> dict[str, Any]:
        """Wait for a line of its log."""
        return await eventually(lambda: next((e for e in self.log if e["event"] == event), None))

    @property
    def log(self) -> list[dict[str, Any]]:
        """Its log so far."""
        return [json.loads(line) for line in _lines(self._log) if line.startswith("{")]

    @property
    def output(self) -> str:
        """Everything it printed."""
        return self._log.read_text()

    def end(self) -> None:
        """Be sure that it is gone; pytest shows its log when the test fails."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        print(self.output)


class Wrappers:
    """Starts wrappers against one Redis and with one fake CLI."""

    def __init__(
        self, directory: Path, url: str, claude: FakeClaude, tenancy: Tenancy | None = None
    ) -> None:
        self._directory = directory
        self._tenancy = tenancy
        self._url = url
        self._claude = claude
        self._started: list[WrapperProcess] = []

    def start(self, worker_id: str = "w-1", **env: str) -> WrapperProcess:
        """Start a standalone developer, or what `env` makes of it."""
        for name in ("home", "work", "spill"):
            (self._directory / name).mkdir(exist_ok=True)
        environ = {
            "PATH": f"{self._claude.bin}:{os.environ['PATH']}",
            "HOME": str(self._directory / "home"),
            "WORKSPACE_DIR": str(self._directory / "work"),
            "SPILL_DIR": str(self._directory / "spill"),
            "WORKER_ID": worker_id,
            "WORKER_TYPE": "developer",
            "REDIS_URL": self._url,
            "ANTHROPIC_API_KEY": API_KEY,
            **env,
        }
        if self._tenancy:
            environ = self._tenancy.admit(environ)
        log = self._directory / f"wrapper-{len(self._started)}.log"
        process = WrapperProcess(environ, log)
        self._started.append(process)
        return process

    @property
    def home(self) -> Path:
        """HOME of the wrappers and their agents, unless they are given another."""
        return self._directory / "home"

    def start_dying(
        self, worker_id: str, *, after: int = 0, before: str = "", **env: str
    ) -> WrapperProcess:
        """Start a wrapper that is killed at a certain step.

        Args:
            worker_id: Its name.
            after: It dies right after it talked to Redis that many times.
            before: It dies when it is about to send a command with that in it.
            **env: What it needs besides.
        """
        saboteur = self._directory / "saboteur"
        saboteur.mkdir(exist_ok=True)
        (saboteur / "sitecustomize.py").write_text(_SABOTAGE)
        how = {"DIES_AFTER": str(after), "DIES_BEFORE": before}
        return self.start(worker_id, PYTHONPATH=str(saboteur), **how, **env)

    def start_in(self, pod: str, worker_id: str, **env: str) -> WrapperProcess:
        """Start a wrapper whose host has that name."""
        changed = self._directory / "host-name"
        changed.mkdir(exist_ok=True)
        (changed / "sitecustomize.py").write_text(_IN_A_POD)
        return self.start(worker_id, PYTHONPATH=str(changed), POD=pod, **env)

    def end(self) -> None:
        """End all that still run."""
        self._claude.release()
        for process in self._started:
            process.end()
        self.end_agents()

    def end_agents(self) -> None:
        """What a killed wrapper leaves goes with its container; here nobody else ends it."""
        work = self._directory / "work"
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if path.name.isdecimal() and (path / "cwd").readlink() == work:
                    os.kill(int(path.name), signal.SIGKILL)


@pytest.fixture
async def connection(
    redis_server: RedisServer, tenancy: Tenancy | None
) -> AsyncIterator[RedisConnection]:
    """The wrapper's own connection to the server of this run; a developer's in a namespace."""
    url, waits = redis_server.url, None
    if tenancy:
        worker = {"WORKER_ID": "me", "WORKER_TYPE": "developer", "REDIS_URL": url}
        url, waits = tenancy.admit(worker)["REDIS_URL"], _never
    async with connected(url, waits=waits) as connection:
        yield connection


@pytest.fixture
def fake_claude(tmp_path: Path) -> FakeClaude:
    """The CLI of the wrappers of this test."""
    return FakeClaude(tmp_path / "fake-claude")


@pytest.fixture
def wrappers(
    tmp_path: Path,
    redis: Redis,
    redis_server: RedisServer,
    fake_claude: FakeClaude,
    tenancy: Tenancy | None,
) -> Iterator[Wrappers]:
    """Wrappers on the Redis of this run, empty at the start."""
    wrappers = Wrappers(tmp_path, redis_server.url, fake_claude, tenancy)
    yield wrappers
    wrappers.end()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
