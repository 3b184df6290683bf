"""Everything that can be configured in core: validated, frozen, one home for each value."""

from pydantic import BaseModel, Field

from orbiter.types import OrbiterError, Usage

DEFAULT_PROVIDER = "openai"
DEFAULT_MODEL = "openai:gpt-4o"
DEFAULT_MAX_STEPS = 10


def parse_model_string(model: str) -> tuple[str, str]:
    """Split "provider:model_name"; without a prefix the provider is "openai".

    Args:
        model: For example "anthropic:claude-sonnet-4-20250514" or "gpt-4o". Only the first colon
            counts, so names may contain more of them.

    Returns:
        The provider and the model's name.

    Raises:
        OrbiterError: One of the two is empty.
    """
    provider, colon, name = model.partition(":")
    if not colon:
        provider, name = DEFAULT_PROVIDER, model
    if not provider.strip() or not name.strip():
        raise OrbiterError(f"'{model}' is no model string: write it as 'provider:model_name'")
    return provider.strip(), name.strip()


class AgentConfig(BaseModel):
    """The plain values an Agent is built from."""

    model_config = {"frozen": True}

    name: str = Field(min_length=1)
    model: str = DEFAULT_MODEL
    instructions: str = ""
    temperature: float = Field(default=1.0, ge=0.0, le=2.0)
    max_tokens: int | None = Field(default=None, ge=1)
    max_steps: int = Field(default=DEFAULT_MAX_STEPS, ge=1)


class ModelConfig(BaseModel):
    """How a provider reaches a model.

    Attributes:
        provider: For example "openai".
        model_name: The name the provider knows the model by.
        api_key: None takes the provider's environment variable.
        base_url: None takes the provider's own address.
        max_retries: Further tries after a 429, a 5xx or a lost connection.
        timeout: Seconds one call may take.
    """

    model_config = {"frozen": True}

    provider: str = DEFAULT_PROVIDER
    model_name: str = "gpt-4o"
    api_key: str | None = Field(default=None, repr=False)
    base_url: str | None = None
    max_retries: int = Field(default=3, ge=0)
    timeout: float = Field(default=600.0, gt=0)


class TaskConfig(BaseModel):
    """The limits of one run; a run that meets one ends with what it has and says so.

    Attributes:
        timeout: Seconds the run may take.
        model_calls: Model calls of all agents together.
        input_tokens: Tokens sent, all calls together; checked before each call.
        output_tokens: Tokens received, likewise.
        total_tokens: Both, likewise.
    """

    model_config = {"frozen": True}

    timeout: float | None = Field(default=None, gt=0)
    model_calls: int | None = Field(default=None, ge=1)
    input_tokens: int | None = Field(default=None, ge=1)
    output_tokens: int | None = Field(default=None, ge=1)
    total_tokens: int | None = Field(default=None, ge=1)


class Spent(BaseModel):
    """What a run had taken when it was interrupted, for the run that goes on: `run(spent=...)`.

    Attributes:
        usage: Tokens of its model calls.
        steps: Its model calls by the agent's name.
    """

    model_config = {"frozen": True}

    usage: Usage = Usage()
    steps: dict[str, int] = {}
