"""The real SDK of OpenAI against a local server that speaks its wire format."""

import json

import pytest

from orbiter.train import (
    OpenAITrainer,
    TrainingError,
    Trajectory,
    preference_pairs,
    wait,
    write_preferences,
    write_sft,
)
from orbiter.types import AssistantMessage, ToolCall, ToolResult, UserMessage

from .fine_tuning_server import FineTuningServer

pytestmark = pytest.mark.integration

TOOL = {
    "type": "function",
    "function": {"name": "find", "description": "", "parameters": {"type": "object"}},
}


@pytest.fixture
async def server(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with FineTuningServer().running() as server:
        yield server


def trainer(server, **settings):
    return OpenAITrainer(
        "openai:gpt-4.1-mini-2025-04-14", api_key="sk-test", base_url=server.url, **settings
    )


def example(n, answer="Here.", score=1.0):
    calls = [ToolCall(id="c", name="find", arguments=json.dumps({"n": n}))]
    messages = [
        UserMessage(content=f"{n}?"),
        AssistantMessage(tool_calls=calls),
        ToolResult(tool_call_id="c", tool_name="find", content="x"),
        AssistantMessage(content=answer),
    ]
    return Trajectory(messages=messages, tools=[TOOL], scores={"exact": score})


@pytest.fixture
def sft(tmp_path):
    return write_sft([example(n) for n in range(10)], tmp_path / "sft.jsonl", train_on="last")


async def no_time(seconds):
    return None


async def test_a_dataset_becomes_a_model(server, sft):
    tuning = trainer(server, suffix="orbiter", epochs=2, seed=7)
    job = await tuning.start(sft, validation=sft)
    assert job.state == "queued"
    job = await wait(tuning, job.id, sleep=no_time)
    assert job.model == "openai:ft:gpt-4.1-mini-2025-04-14:org:orbiter:abc"
    assert job.trained_tokens == 1234
    assert server.files["file-0"] == sft.path.read_text()
    [request] = server.requests
    assert request == {
        "model": "gpt-4.1-mini-2025-04-14",
        "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2}}},
        "training_file": "file-0",
        "validation_file": "file-1",
        "suffix": "orbiter",
        "seed": 7,
    }


async def test_preferences_are_trained_by_dpo(server, tmp_path):
    runs = [example(n, text, score) for n in range(10) for text, score in [("Yes", 1), ("No", 0)]]
    data = write_preferences(preference_pairs(runs, "exact"), tmp_path / "p.jsonl")
    tuning = trainer(server, beta=0.2)
    job = await tuning.start(data)
    assert server.requests[0]["method"] == {
        "type": "dpo",
        "dpo": {"hyperparameters": {"beta": 0.2}},
    }
    assert (await wait(tuning, job.id, sleep=no_time)).state == "succeeded"


async def test_a_job_is_found_by_its_id_alone(server, sft):
    job = await trainer(server).start(sft)
    assert (await trainer(server).status(job.id)).id == job.id


async def test_a_failed_job_says_why(server, sft):
    server.fails = "the file has duplicates"
    job = await trainer(server).start(sft)
    with pytest.raises(TrainingError, match=f"training {job.id} failed: the file has duplicates"):
        await wait(trainer(server), job.id, sleep=no_time)


async def test_a_job_can_be_cancelled(server, sft):
    job = await trainer(server).start(sft)
    assert (await trainer(server).cancel(job.id)).state == "cancelled"
    with pytest.raises(TrainingError, match="cancelled"):
        await wait(trainer(server), job.id, sleep=no_time)


async def test_what_openai_refuses_is_told(server, sft):
    sft.path.write_text('{"messages": [{"role": "user", "content": "x"}]}\n')
    with pytest.raises(TrainingError, match="last message must be from the assistant"):
        await trainer(server).start(sft)
    with pytest.raises(TrainingError, match=r"ftjob-9 cannot be asked for.*no such job"):
        await trainer(server).status("ftjob-9")


async def test_what_cannot_work_is_told_before_anything_is_sent(server, sft, tmp_path):
    few = write_sft([example(1)], tmp_path / "few.jsonl")
    with pytest.raises(TrainingError, match="has 1 examples, OpenAI takes 10 or more"):
        await trainer(server).start(few)
    other = write_sft([example(n) for n in range(10)], tmp_path / "trl.jsonl", format="trl")
    with pytest.raises(TrainingError, match='OpenAI takes format="openai"'):
        await trainer(server).start(other)
    with pytest.raises(TrainingError, match="OpenAI cannot be reached"):
        await OpenAITrainer("gpt-4.1", base_url=server.url).start(sft)
    assert server.files == {}


async def test_a_tired_server_is_asked_again(server, sft):
    server.refusals = [503]
    assert (await trainer(server).start(sft)).state == "queued"
