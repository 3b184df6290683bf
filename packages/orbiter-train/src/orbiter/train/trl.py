"""TRL as a Trainer: a local training in a process of its own, so that torch stays out of ours."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from orbiter.train._given import check_files
from orbiter.train.dataset import DatasetFile
from orbiter.train.trainer import TrainingJob
from orbiter.train.trajectory import TrainingError

PROGRAM = Path(__file__).with_name("_internal") / "trl_program.py"


class TrlTrainer:
    """Fine-tunes a local model with TRL. Needs `orbiter-train[trl]`, here or in another Python."""

    def __init__(
        self,
        model: str,
        *,
        directory: str | Path,
        arguments: Mapping[str, Any] | None = None,
        python: str | Path | None = None,
    ) -> None:
        """Choose the model; nothing is loaded yet.

        Args:
            model: A directory with a model, or its name on the Hugging Face hub.
            directory: Where jobs are kept: each has a directory in it with its settings, its log
                `train.log` and the trained model.
            arguments: For TRL's SFTConfig or DPOConfig, such as `{"num_train_epochs": 1}`.
            python: The Python that has TRL installed; None is the one that runs now.
        """
        self.model = model
        self.directory = Path(directory)
        self._arguments = dict(arguments or {})
        self._python = str(python or sys.executable)

    async def start(
        self, data: DatasetFile, *, validation: DatasetFile | None = None
    ) -> TrainingJob:
        """Begin to train in a process that outlives this one; see Trainer."""
        check_files(data, validation, "trl", "TRL")
        job_id = uuid4().hex[:12]
        home = self.directory / job_id
        await asyncio.to_thread(self._launch, home, data, validation)
        return TrainingJob(id=job_id, state="running")

    def _launch(self, home: Path, data: DatasetFile, validation: DatasetFile | None) -> None:
        home.mkdir(parents=True)
        settings = {
            "model": self.model,
            "kind": data.kind,
            "data": str(data.path.absolute()),
            "validation": str(validation.path.absolute()) if validation else None,
            "arguments": self._arguments,
            "output": str((home / "model").absolute()),
        }
        (home / "job.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
        # spawned rather than opened as a Popen: it outlives this process, which need not wait
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            pid = os.posix_spawnp(
                self._python,
                [self._python, str(PROGRAM), str(home.absolute())],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(home / "train.log"), write, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
            )
        except OSError as error:
            raise TrainingError(f"{self._python} cannot be started: {error.strerror}") from error
        (home / "pid").write_text(str(pid))

    async def status(self, job_id: str) -> TrainingJob:
        """Look how a job stands; see Trainer."""
        home = self._home(job_id)
        running = self._running(job_id)
        # asked in this order, a job that ends in between is not taken for one that died
        try:
            ended = json.loads((home / "ended.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            if running:
                return TrainingJob(id=job_id, state="running")
            told = f"the process is gone; see {home / 'train.log'}"
            return TrainingJob(id=job_id, state="failed", error=told)
        return TrainingJob(id=job_id, **ended)

    async def cancel(self, job_id: str) -> TrainingJob:
        """End a job; see Trainer."""
        home = self._home(job_id)
        if (await self.status(job_id)).done:
            return await self.status(job_id)
        pid = int((home / "pid").read_text())
        os.killpg(pid, signal.SIGKILL)
        await asyncio.to_thread(_wait_for_end, pid)
        (home / "ended.json").write_text(json.dumps({"state": "cancelled"}))
        return await self.status(job_id)

    def _home(self, job_id: str) -> Path:
        home = self.directory / job_id
        if not (home / "job.json").is_file():
            raise TrainingError(f"there is no training '{job_id}' in {self.directory}")
        return home

    def _running(self, job_id: str) -> bool:
        try:
            return _alive(int((self._home(job_id) / "pid").read_text()))
        except FileNotFoundError:
            return False


def _alive(pid: int) -> bool:
    """Return whether a process still runs; one that is our child is buried when it does not."""
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _wait_for_end(pid: int) -> None:
    while _alive(pid):
        time.sleep(0.01)
