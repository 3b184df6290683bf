import json
import sys

import pytest
from support.eventually import eventually

from orbiter.train import TrainingError, Trajectory, TrlTrainer, wait, write_sft
from orbiter.types import AssistantMessage, UserMessage


@pytest.fixture
def sft(tmp_path):
    messages = [UserMessage(content="Hi"), AssistantMessage(content="Hello")]
    return write_sft([Trajectory(messages=messages)], tmp_path / "sft.jsonl", format="trl")


def another_program(tmp_path, text):
    """A program in the place of Python, as a Python of one's own would be."""
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)
    return program


@pytest.mark.integration
async def test_a_python_without_trl_says_what_to_install(tmp_path, sft):
    trainer = TrlTrainer("tiny", directory=tmp_path / "jobs")
    job = await trainer.start(sft)
    with pytest.raises(TrainingError, match=r"is not installed for .*orbiter-train\[trl\]"):
        await wait(trainer, job.id, seconds=0.05)
    settings = json.loads((tmp_path / "jobs" / job.id / "job.json").read_text())
    assert settings["kind"] == "sft"
    assert settings["data"] == str(sft.path)


@pytest.mark.integration
async def test_a_job_outlives_its_trainer_and_can_be_cancelled(tmp_path, sft):
    python = another_program(tmp_path, "import time\ntime.sleep(600)\n")
    jobs = tmp_path / "jobs"
    job = await TrlTrainer("tiny", directory=jobs, python=python).start(sft)
    later = TrlTrainer("tiny", directory=jobs)
    assert (await later.status(job.id)).state == "running"
    assert (await later.cancel(job.id)).state == "cancelled"
    assert (await later.cancel(job.id)).state == "cancelled"


@pytest.mark.integration
async def test_a_process_that_died_is_a_failed_job(tmp_path, sft):
    python = another_program(tmp_path, "import os\nos.kill(os.getpid(), 9)\n")
    trainer = TrlTrainer("tiny", directory=tmp_path / "jobs", python=python)
    job = await trainer.start(sft)

    async def failed():
        return (await trainer.status(job.id)).state == "failed"

    await eventually(failed)
    assert "train.log" in (await trainer.status(job.id)).error


async def test_what_cannot_work_is_told(tmp_path, sft):
    trainer = TrlTrainer("tiny", directory=tmp_path / "jobs", python=tmp_path / "none")
    with pytest.raises(TrainingError, match="none cannot be started"):
        await trainer.start(sft)
    with pytest.raises(TrainingError, match="there is no training 'x'"):
        await trainer.status("x")
    with pytest.raises(TrainingError, match='TRL takes format="trl"'):
        await trainer.start(sft.model_copy(update={"format": "openai"}))
