"""OpenAI's fine-tuning API as a Trainer."""

from typing import Any

from orbiter.train._given import check_files
from orbiter.train.dataset import DatasetFile
from orbiter.train.trainer import JobState, TrainingJob
from orbiter.train.trajectory import TrainingError

FEWEST_EXAMPLES = 10
_STATES: dict[str, JobState] = {
    "validating_files": "queued",
    "queued": "queued",
    "running": "running",
    "paused": "running",
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
}


class OpenAITrainer:
    """Fine-tunes a model of OpenAI. Needs `orbiter-train[openai]` and OPENAI_API_KEY."""

    def __init__(
        self,
        model: str,
        *,
        suffix: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate_multiplier: float | None = None,
        beta: float | None = None,
        seed: int | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        max_retries: int = 3,
    ) -> None:
        """Choose the model; nothing is sent yet.

        Args:
            model: Such as "gpt-4.1-mini-2025-04-14"; a prefix "openai:" is taken off.
            suffix: Part of the trained model's name.
            epochs: Passes over the data; None leaves this and the next to OpenAI.
            batch_size: Examples at once.
            learning_rate_multiplier: Of the default rate.
            beta: For preferences: how close to stay to the model as it is.
            seed: Makes trainings repeatable.
            api_key: By default OPENAI_API_KEY.
            base_url: By default OPENAI_BASE_URL, else OpenAI itself.
            max_retries: Further tries after a 429, a 5xx or a lost connection.
        """
        self.model = model.removeprefix("openai:")
        self._suffix = suffix
        self._seed = seed
        self._settings = {
            "n_epochs": epochs,
            "batch_size": batch_size,
            "learning_rate_multiplier": learning_rate_multiplier,
        }
        self._beta = beta
        self._connection = {"api_key": api_key, "base_url": base_url, "max_retries": max_retries}

    async def start(
        self, data: DatasetFile, *, validation: DatasetFile | None = None
    ) -> TrainingJob:
        """Upload the data and begin to train; see Trainer."""
        check_files(data, validation, "openai", "OpenAI")
        if data.examples < FEWEST_EXAMPLES:
            raise TrainingError(
                f"{data.path} has {data.examples} examples, OpenAI takes {FEWEST_EXAMPLES} or more"
            )
        request: dict[str, Any] = {"model": self.model, "method": self._method(data.kind)}
        if self._suffix is not None:
            request["suffix"] = self._suffix
        if self._seed is not None:
            request["seed"] = self._seed
        async with self._client() as client:
            try:
                request["training_file"] = await _upload(client, data)
                if validation is not None:
                    request["validation_file"] = await _upload(client, validation)
                return _job(await client.fine_tuning.jobs.create(**request))
            except _sdk().OpenAIError as error:
                raise TrainingError(f"OpenAI does not train {self.model}: {error}") from error

    async def status(self, job_id: str) -> TrainingJob:
        """Ask for a job; see Trainer."""
        async with self._client() as client:
            try:
                return _job(await client.fine_tuning.jobs.retrieve(job_id))
            except _sdk().OpenAIError as error:
                raise TrainingError(f"training {job_id} cannot be asked for: {error}") from error

    async def cancel(self, job_id: str) -> TrainingJob:
        """End a job; see Trainer."""
        async with self._client() as client:
            try:
                return _job(await client.fine_tuning.jobs.cancel(job_id))
            except _sdk().OpenAIError as error:
                raise TrainingError(f"training {job_id} cannot be cancelled: {error}") from error

    def _method(self, kind: str) -> dict[str, Any]:
        settings = {name: value for name, value in self._settings.items() if value is not None}
        name = "supervised" if kind == "sft" else "dpo"
        if kind == "preference" and self._beta is not None:
            settings["beta"] = self._beta
        return {"type": name, name: {"hyperparameters": settings}} if settings else {"type": name}

    def _client(self) -> Any:
        try:
            return _sdk().AsyncOpenAI(**self._connection)
        except _sdk().OpenAIError as error:
            raise TrainingError(f"OpenAI cannot be reached: {error}") from error


async def _upload(client: Any, data: DatasetFile) -> str:
    uploaded = await client.files.create(file=data.path, purpose="fine-tune")
    return str(uploaded.id)


def _job(job: Any) -> TrainingJob:
    error = job.error.message if job.error is not None and job.error.message else None
    return TrainingJob(
        id=job.id,
        state=_STATES.get(job.status, "running"),
        model=f"openai:{job.fine_tuned_model}" if job.fine_tuned_model else None,
        error=error,
        trained_tokens=job.trained_tokens,
    )


def _sdk() -> Any:
    try:
        import openai
    except ModuleNotFoundError as error:
        raise TrainingError("OpenAITrainer needs the extra: orbiter-train[openai]") from error
    return openai
