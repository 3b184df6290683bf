"""One attempt of a task on this machine: its entry on the queue, and the worker wrapper for it.

What the operator puts into a Job's pod, this puts into a process; the rest is the same program.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter.cli.task.manifest import Manifest
from orbiter.cli.task.settings import system_prompt
from orbiter_contracts import (
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    GitWorkspace,
    decode,
    encode,
)
from orbiter_contracts.attempts import Attempt, request_id, session_of
from orbiter_contracts.environment import agent_environment
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, Keys, transcript_of
from orbiter_contracts.scripts import ADMIT_ATTEMPT, ATTEMPT_TTL_SECONDS
from orbiter_contracts.transcript_reading import TranscriptReader, read_entry

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
        uid: The task's.
        keys: What the queue's keys are.
        transcript: File that takes what the agent says and does: events, a line of JSON each.
    """

    manifest: Manifest
    url: str
    workspace: Path
    log: Path
    environ: dict[str, str]
    uid: str = field(default_factory=lambda: str(uuid4()))
    keys: Keys = BARE
    transcript: Path | None = None

    async def attempt(
        self, number: int, prompt: str, answered: Sequence[str]
    ) -> DeveloperWorkerOutput | None:
        """Run an attempt to its end; None when its worker ended without a word.

        Cancelling stops the worker and the agent first.
        """
        task, stream = f"{self.manifest.namespace}/{self.manifest.name}", self.keys.developer_input
        attempt = Attempt(task, self.uid, number, self.keys)
        redis = Redis.from_url(self.url, decode_responses=True, protocol=2)
        try:
            with suppress(Exception):  # it is there already after the first attempt
                await redis.xgroup_create(stream, DEVELOPER_GROUP, "0", mkstream=True)
            message = encode(self._message(attempt, prompt), **attempt.routing)
            fields = [text for pair in message.items() for text in pair]
            admit = redis.register_script(ADMIT_ATTEMPT)
            entry = await admit(keys=[attempt.record, stream], args=[ATTEMPT_TTL_SECONDS, *fields])
            try:
                await self._work(self.environment(attempt, str(entry), answered))
            finally:
                await self._keep_transcript(transcript_of(attempt.record))
            output_id = await redis.hget(attempt.record, "output")
            if output_id is None:
                return None
            found: Any = await redis.xrange(self.keys.developer_output, output_id, output_id)
            return decode(DeveloperWorkerOutput, found[0][1])
        finally:
            await redis.aclose()

    async def _keep_transcript(self, key: str) -> None:
        """Append an attempt's events to the file; Redis, which has them, ends with the task."""
        if self.transcript is None:
            return
        redis, reader = Redis.from_url(self.url, protocol=2), TranscriptReader()
        # A transcript costs no task its outcome.
        with suppress(OSError, RedisError):
            entries: Any = await redis.xrange(key)
            with self.transcript.open("a", encoding="utf-8") as file:
                for _, fields in entries:
                    for event in reader.take(read_entry(fields)):
                        file.write(event.model_dump_json(exclude_none=True) + "\n")
        await redis.aclose()

    def _message(self, attempt: Attempt, prompt: str) -> DeveloperWorkerInput:
        spec = self.manifest.spec
        place = spec.get("workspace") or {}
        git = place.get("git")
        return attempt.message(
            prompt,
            spec["timeoutSeconds"],
            task_id=spec.get("taskId"),
            project_id=spec.get("projectId"),
            git=git and GitWorkspace.model_validate(git),
            setup=place.get("setup"),
        )

    def environment(self, attempt: Attempt, entry: str, answered: Sequence[str]) -> dict[str, str]:
        """The variables of an attempt's worker: ours, and on top those that a pod would have.

        Args:
            attempt: Which.
            entry: Id of its entry on the queue.
            answered: Request ids of the attempts before that asked and were answered.
        """
        agent = self.manifest.spec["agent"]
        return {
            **self.environ,
            **agent_environment(
                agent["type"],
                model=agent.get("model"),
                max_turns=agent.get("maxTurns"),
                max_cost_usd=agent.get("maxCostUSD"),
                system_prompt=system_prompt(self.manifest),
                env=tuple(agent.get("env") or ()),
                passed=self.environ.get("AGENT_ENV", ""),
            ),
            **attempt.environment(
                worker=f"{self.manifest.namespace}.{self.manifest.name}-{attempt.number}",
                entry=entry,
                session=session_of(request_id(attempt.uid, attempt.number), answered),
            ),
            "REDIS_URL": self.url,
            "DISRUPTION_POLICY": "Fail",  # there is no other pod that would go on
            "WORKSPACE_DIR": str(self.workspace),
            # The wrapper and an Orbiter agent are installed beside this program.
            "PATH": f"{self.environ.get('PATH', os.defpath)}:{Path(sys.executable).parent}",
        }

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


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End a wrapper at once: the second SIGTERM ends the agent too."""
    for sign, seconds in ((signal.SIGTERM, 0.3), (signal.SIGTERM, _STOP_SECONDS), (_KILL, 5.0)):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(sign)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), seconds)
