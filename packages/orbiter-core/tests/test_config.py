import pytest
from pydantic import ValidationError

from orbiter.config import AgentConfig, ModelConfig, TaskConfig, parse_model_string
from orbiter.types import OrbiterError


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("openai:gpt-4o", ("openai", "gpt-4o")),
        ("anthropic:claude-sonnet-4-20250514", ("anthropic", "claude-sonnet-4-20250514")),
        ("gpt-4o-mini", ("openai", "gpt-4o-mini")),
        ("openai:ft:gpt-4o:acme::7p4l", ("openai", "ft:gpt-4o:acme::7p4l")),
        (" openai : gpt-4o ", ("openai", "gpt-4o")),
    ],
)
def test_a_model_string_is_split_at_its_first_colon(text, parts):
    assert parse_model_string(text) == parts


@pytest.mark.parametrize("text", ["", "openai:", ":gpt-4o", " : "])
def test_half_a_model_string_is_refused_with_its_value(text):
    with pytest.raises(OrbiterError, match="'provider:model_name'") as caught:
        parse_model_string(text)
    assert repr(text) in str(caught.value)


def test_an_agents_config_has_the_published_defaults():
    config = AgentConfig(name="assistant")
    assert config.model == "openai:gpt-4o"
    assert (config.instructions, config.temperature, config.max_tokens) == ("", 1.0, None)
    assert config.max_steps == 10


@pytest.mark.parametrize(
    "values",
    [{"name": ""}, {"temperature": 2.1}, {"temperature": -0.1}, {"max_steps": 0},
     {"max_tokens": 0}],
)  # fmt: skip
def test_values_out_of_range_are_refused(values):
    with pytest.raises(ValidationError):
        AgentConfig(**{"name": "assistant", **values})


@pytest.mark.parametrize("config", [AgentConfig(name="a"), ModelConfig(), TaskConfig()])
def test_configs_are_frozen(config):
    with pytest.raises(ValidationError, match="frozen"):
        setattr(config, next(iter(type(config).model_fields)), "other")


def test_a_model_config_never_shows_its_key():
    assert "sk-secret" not in repr(ModelConfig(api_key="sk-secret"))


def test_a_run_has_no_limits_by_default():
    assert set(TaskConfig().model_dump().values()) == {None}
