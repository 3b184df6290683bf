import pytest

from orbiter.train import OpenAITrainer, TrainingError, TrlTrainer


@pytest.mark.parametrize("trainer", [OpenAITrainer("m"), TrlTrainer("m", directory="jobs")])
@pytest.mark.parametrize("given", ["sft.jsonl", None])
async def test_what_is_no_file_of_examples_is_named_with_what_makes_one(trainer, given):
    with pytest.raises(TrainingError, match=r"write_sft\(.*write_preferences\(") as refused:
        await trainer.start(given)
    assert repr(given) in str(refused.value)
