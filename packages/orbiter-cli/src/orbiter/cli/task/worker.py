"""One attempt of a task on this machine: its entry on the queue, and the worker wrapper for it.

What the operator puts into a Job's pod, this puts into a process; the rest is the same program.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis

from orbiter.cli.task.manifest import Manifest
from orbiter_contracts import DeveloperWorkerInput, DeveloperWorkerOutput, decode, encode
from orbiter_contracts.queues import (
    ATTEMPT_FIELD,
    DEVELOPER_GROUP,
    DEVELOPER_INPUT,
    DEVELOPER_OUTPUT,
    TASK_FIELD,
    attempt_record,
    task_snapshot,
)
from orbiter_contracts.scripts import ADMIT_ATTEMPT, ATTEMPT_TTL_SECONDS

_STOP_SECONDS = 20.0
_KILL = signal.SIGKILL


@dataclass
class LocalWorker:
    """Runs the attempts of one task, one after the other.

    Attributes:
        manifest: The task.
        url: Of the queue.
        workspace: Where the agent works.
        log: File that takes the wrapper's log.
        environ: What the agent's credentials and settings are looked for in.
        uid: The task's, also its session's.
    """

    manifest: Manifest
    url: str
    workspace: Path
    log: Path
    environ: dict[str, str]
    uid: str = field(default_factory=lambda: str(uuid4()))

    async def attempt(self, number: int, prompt: str) -> DeveloperWorkerOutput | None:
        """Run an attempt to its end; None when its worker ended without a word.

        Cancelling stops the worker and the agent first.
        """
        redis = Redis.from_url(self.url, decode_responses=True, protocol=2)
        try:
            with suppress(Exception):  # it is there already after the first attempt
                await redis.xgroup_create(DEVELOPER_INPUT, DEVELOPER_GROUP, "0", mkstream=True)
            record = attempt_record(self.uid, number)
            entry = await self._admit(redis, record, number, prompt)
            await self._work(self._environment(record, number, entry))
            output_id = await redis.hget(record, "output")
            if output_id is None:
                return None
            found: Any = await redis.xrange(DEVELOPER_OUTPUT, output_id, output_id)
            return decode(DeveloperWorkerOutput, found[0][1])
        finally:
            await redis.aclose()

    async def _admit(self, redis: Redis, record: str, number: int, prompt: str) -> str:
        spec = self.manifest.spec
        task = f"{self.manifest.namespace}/{self.manifest.name}"
        git = (spec.get("workspace") or {}).get("git")
        words = ("url", "ref", "branch", "push")
        place = {"git": {key: git[key] for key in words if key in git}} if git else None
        message = DeveloperWorkerInput.model_validate(
            {
                "task_id": spec.get("taskId", task),
                "project_id": spec.get("projectId"),
                "prompt": prompt,
                "timeout": spec["timeoutSeconds"],
                "workspace": place,
            }
        )
        routing = {TASK_FIELD: task, ATTEMPT_FIELD: str(number)}
        fields = [text for pair in encode(message, **routing).items() for text in pair]
        admit = redis.register_script(ADMIT_ATTEMPT)
        return str(await admit(keys=[record, DEVELOPER_INPUT], args=[ATTEMPT_TTL_SECONDS, *fields]))

    def _environment(self, record: str, number: int, entry: str) -> dict[str, str]:
        task = f"{self.manifest.namespace}/{self.manifest.name}"
        own = {
            "WORKER_ID": f"{self.manifest.namespace}.{self.manifest.name}-{number}",
            "WORKER_TYPE": "developer",
            "REDIS_URL": self.url,
            "TASK_ENTRY_ID": entry,
            "TASK_RECORD": record,
            "TASK_NAME": task,
            "TASK_ATTEMPT": str(number),
            "SESSION_ID": self.uid,
            "SNAPSHOT_KEY": task_snapshot(self.uid),
            "WORKSPACE_DIR": str(self.workspace),
            # The wrapper and an Orbiter agent are installed beside this program.
            "PATH": f"{self.environ.get('PATH', os.defpath)}:{Path(sys.executable).parent}",
        }
        return {**self.environ, **agent_environment(self.manifest.spec["agent"]), **own}

    async def _work(self, environ: dict[str, str]) -> None:
        with self.log.open("ab") as log:
            # In a session of its own: the terminal's Ctrl-C is ours to pass on.
            process = await asyncio.create_subprocess_exec(
                # -P: this may well run in a directory whose files an agent wrote.
                *(sys.executable, "-P", "-m", "worker_wrapper"),
                env=environ,
                stderr=log,
                stdout=log,
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            await process.wait()
        finally:
            await _stop(process)


def agent_environment(agent: dict[str, Any]) -> dict[str, str]:
    """The variables of the wrapper that say which agent, and how."""
    values = {
        "AGENT_TYPE": agent["type"],
        "AGENT_MODEL": agent.get("model"),
        "AGENT_MAX_TURNS": agent.get("maxTurns"),
        "AGENT_MAX_COST_USD": agent.get("maxCostUSD"),
        "AGENT_SYSTEM_PROMPT": agent.get("systemPrompt"),
        "AGENT_ENV": ",".join(item["name"] for item in agent.get("env") or ()) or None,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End a wrapper at once: the second SIGTERM ends the agent too."""
    for sign, seconds in ((signal.SIGTERM, 0.3), (signal.SIGTERM, _STOP_SECONDS), (_KILL, 5.0)):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(sign)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), seconds)
