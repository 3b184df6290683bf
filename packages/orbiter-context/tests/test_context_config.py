import pytest
from pydantic import ValidationError

from orbiter.context import ContextConfig


def test_the_defaults_are_those_of_the_table() -> None:
    assert ContextConfig().model_dump() == {
        "mode": "copilot",
        "history_rounds": 20,
        "summary_threshold": 30,
        "offload_threshold": 4000,
        "enable_retrieval": False,
        "neuron_names": [],
    }


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        ContextConfig().mode = "pilot"  # type: ignore[misc]


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "autopilot"},
        {"history_rounds": 0},
        {"summary_threshold": 0},
        {"offload_threshold": 0},
        {"history_round": 5},
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        ContextConfig.model_validate(wrong)
