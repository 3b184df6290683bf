"""The Trainer, the one thing every backend of fine-tuning is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from pydantic import BaseModel

from orbiter.train.dataset import DatasetFile
from orbiter.train.trajectory import TrainingError

JobState = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class TrainingJob(BaseModel):
    """A training, as it stands.

    Attributes:
        id: What the backend calls it.
        state: Where it is.
        model: The trained model when it succeeded: a model string for `Agent(model=...)`, or the
            directory of a local one.
        error: Why it failed.
        trained_tokens: How many, where the backend says so.
    """

    model_config = {"frozen": True}

    id: str
    state: JobState
    model: str | None = None
    error: str | None = None
    trained_tokens: int | None = None

    @property
    def done(self) -> bool:
        """Whether it will not change any more."""
        return self.state in ("succeeded", "failed", "cancelled")


class Trainer(Protocol):
    """Trains models. All it keeps is with the backend: a job's id is enough to go on."""

    async def start(
        self, data: DatasetFile, *, validation: DatasetFile | None = None
    ) -> TrainingJob:
        """Begin to train.

        Raises:
            TrainingError: The backend does not take the data.
        """
        ...

    async def status(self, job_id: str) -> TrainingJob:
        """Return how a job stands.

        Raises:
            TrainingError: There is no such job, or the backend cannot be asked.
        """
        ...

    async def cancel(self, job_id: str) -> TrainingJob:
        """End a job."""
        ...


async def wait(
    trainer: Trainer,
    job_id: str,
    *,
    seconds: float = 30.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> TrainingJob:
    """Wait until a job is over.

    Args:
        trainer: Whose job it is.
        job_id: The job.
        seconds: Between two looks.
        sleep: How to wait.

    Returns:
        The job, which has succeeded.

    Raises:
        TrainingError: It failed or was cancelled; the text says why.
    """
    while not (job := await trainer.status(job_id)).done:
        await sleep(seconds)
    if job.state != "succeeded":
        raise TrainingError(f"training {job.id} {job.state}: {job.error or 'no reason is given'}")
    return job
