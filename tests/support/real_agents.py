"""Whole workers with the real CLI agents, which talk to the scripted model.

`claude_workers`, `codex_workers` and their like start `python -m worker_wrapper` with nothing faked
but the model. The scripts here (docs/model-server.md) are for looking at a turn from within.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.agent_clis import ModelServer, agent_cli
from support.eventually import eventually
from support.redis_server import RedisServer
from support.wrapper import API_KEY, WrapperProcess

SESSION_FLAG = (
    r"[[bash: tr '\0' '\n' < /proc/$PPID/cmdline | grep -E -A1 '^(--session-id|--resume)$']]"
    " [[say: {output}]]"
)
"""Answers with the session flag that the agent was given, and its value on the next line."""
HOLD = "[[bash: touch held; while [ ! -e released ]; do sleep 0.05; done]]"
"""Stays in a tool call until `release`."""


class RealWorkers:
    """Starts wrappers whose agent is a real CLI, and knows where that one works.

    Attributes:
        home: HOME of the worker and its agent.
        work: Where the agent works.
        environ: What all of them have in their environment.
        started: The workers, the last one last.
    """

    def __init__(self, directory: Path, environ: dict[str, str]) -> None:
        self.home = directory / "home"
        self.work = directory / "work"
        self._spill = directory / "spill"
        self._directory = directory
        self.environ = environ
        self.started: list[WrapperProcess] = []
        for path in (self.home, self.work, self._spill):
            path.mkdir()

    def start(self, worker_id: str = "w-1", **env: str) -> WrapperProcess:
        """Start a standalone developer, or what `env` makes of it."""
        environ = {
            "HOME": str(self.home),
            "WORKSPACE_DIR": str(self.work),
            "SPILL_DIR": str(self._spill),
            "WORKER_ID": worker_id,
            "WORKER_TYPE": "developer",
            **self.environ,
            **env,
        }
        process = WrapperProcess(environ, self._directory / f"wrapper-{len(self.started)}.log")
        self.started.append(process)
        return process

    def start_po(self, **env: str) -> WrapperProcess:
        """Start the PO worker po-1."""
        return self.start("po-1", WORKER_TYPE="po", **env)

    async def held(self) -> int:
        """Wait until the agent is in the tool call of HOLD; return the agent's pid."""
        await eventually((self.work / "held").exists)
        children = [
            pid for pid in self.left_behind() if _parent(pid) == self.started[-1].process.pid
        ]
        assert len(children) == 1, f"more than one agent: {children}"
        return children[0]

    def release(self) -> None:
        """Let HOLD go on."""
        (self.work / "released").touch()

    def lose_the_disk(self) -> None:
        """Have the agent's home and its workspace empty, as they are in a pod that is new."""
        for path in (self.home, self.work):
            shutil.rmtree(path)
            path.mkdir()

    def left_behind(self) -> list[int]:
        """Pids of what runs in the workspace: the agent and its tools, as long as they are."""
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if path.name.isdecimal() and (path / "cwd").readlink() == self.work:
                    found.append(int(path.name))
        return found

    def end(self) -> None:
        """End all that still run, with what their agents started."""
        for process in self.started:
            process.end()
        for pid in self.left_behind():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def claude_workers(
    tmp_path: Path,
    redis: Redis,
    redis_server: RedisServer,
    model_server: ModelServer,
    claude_cli: Path,
) -> Iterator[RealWorkers]:
    """Workers with Claude Code, on the Redis of this run, empty at the start."""
    yield from _workers(
        tmp_path,
        {
            "PATH": f"{claude_cli.parent}:{os.environ['PATH']}",
            "REDIS_URL": redis_server.url,
            "AGENT_TYPE": "claude",
            "ANTHROPIC_API_KEY": API_KEY,
            "ANTHROPIC_BASE_URL": model_server.url,
            # As root the CLI refuses to skip permissions unless it is told that it is contained.
            "AGENT_ENV": "IS_SANDBOX",
            "IS_SANDBOX": "1",
        },
    )


@pytest.fixture
def codex_workers(
    tmp_path: Path,
    redis: Redis,
    redis_server: RedisServer,
    model_server: ModelServer,
    codex_cli: Path,
) -> Iterator[RealWorkers]:
    """Workers with codex, on the Redis of this run, empty at the start."""
    yield from _workers(
        tmp_path,
        {
            "PATH": f"{codex_cli.parent}:{os.environ['PATH']}",
            "REDIS_URL": redis_server.url,
            "AGENT_TYPE": "codex",
            "OPENAI_API_KEY": API_KEY,
            "OPENAI_BASE_URL": f"{model_server.url}/v1",
        },
    )


@pytest.fixture
def orbiter_workers(
    tmp_path: Path, redis: Redis, redis_server: RedisServer, model_server: ModelServer
) -> Iterator[RealWorkers]:
    """Workers with our own agent, on the Redis of this run, empty at the start."""
    yield from _workers(
        tmp_path,
        {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "REDIS_URL": redis_server.url,
            "AGENT_TYPE": "orbiter",
            "ANTHROPIC_API_KEY": API_KEY,
            "ANTHROPIC_BASE_URL": model_server.url,
        },
    )


@pytest.fixture
def gemini_workers(
    tmp_path: Path, redis: Redis, redis_server: RedisServer, model_server: ModelServer
) -> Iterator[RealWorkers]:
    """Workers with the gemini CLI, on the Redis of this run, empty at the start."""
    yield from _workers(
        tmp_path,
        {
            "PATH": f"{agent_cli('gemini').parent}:{os.environ['PATH']}",
            "REDIS_URL": redis_server.url,
            "AGENT_TYPE": "gemini",
            # Without a model's name it asks another model which one suits the prompt.
            "AGENT_MODEL": "gemini-2.5-pro",
            "GEMINI_API_KEY": API_KEY,
            "GOOGLE_GEMINI_BASE_URL": model_server.url,
        },
    )


@pytest.fixture
def opencode_workers(
    tmp_path: Path, redis: Redis, redis_server: RedisServer, model_server: ModelServer
) -> Iterator[RealWorkers]:
    """Workers with opencode, on the Redis of this run, empty at the start."""
    yield from _workers(
        tmp_path,
        {
            "PATH": f"{agent_cli('opencode').parent}:{os.environ['PATH']}",
            "REDIS_URL": redis_server.url,
            "AGENT_TYPE": "opencode",
            # A name that is in no list of models, and has no price there.
            "AGENT_MODEL": "scripted",
            "ANTHROPIC_API_KEY": API_KEY,
            "ANTHROPIC_BASE_URL": model_server.url,
        },
    )


@pytest.fixture
def factory_workers(
    tmp_path: Path, redis: Redis, redis_server: RedisServer, model_server: ModelServer
) -> Iterator[RealWorkers]:
    """Workers with droid and a model of one's own, on the Redis of this run, empty at the start."""
    own = {
        "model": "scripted",
        "displayName": "scripted",
        "baseUrl": f"{model_server.url}/v1",
        "apiKey": "scripted",
        "provider": "generic-chat-completion-api",
    }
    started = _workers(
        tmp_path,
        {
            "PATH": f"{agent_cli('factory').parent}:{os.environ['PATH']}",
            "REDIS_URL": redis_server.url,
            "AGENT_TYPE": "factory",
            "AGENT_MODEL": "custom:scripted-0",
            "FACTORY_API_KEY": API_KEY,
        },
    )
    for workers in started:
        settings = workers.home / ".factory" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"customModels": [own]}))
        yield workers


def _workers(directory: Path, environ: dict[str, str]) -> Iterator[RealWorkers]:
    workers = RealWorkers(directory, environ)
    yield workers
    workers.end()


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
