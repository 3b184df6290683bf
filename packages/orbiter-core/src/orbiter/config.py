"""Everything that can be configured in core: validated, frozen, one home for each value."""

from operator import not_
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from orbiter.types import OrbiterError, Usage

DEFAULT_PROVIDER = "openai"
DEFAULT_MODEL = "openai:gpt-4o"
DEFAULT_MAX_STEPS = 10
DEFAULT_RETRIES = 2
MAX_INPUT_TIMEOUT = 10 * 365 * 86400.0


class _DefaultTemperature(float):
    """Told from a 1.0 that somebody wrote by its identity, also in another process."""

    def __reduce__(self) -> str:
        return "DEFAULT_TEMPERATURE"


# a vendor is sent a temperature that somebody wrote, and not this one
DEFAULT_TEMPERATURE: float = _DefaultTemperature("1.0")

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


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
    # what was written before agents had one reads the same
    description: str = Field(default="", exclude_if=not_)
    temperature: float = Field(default=DEFAULT_TEMPERATURE, ge=0.0, le=2.0)
    max_tokens: int | None = Field(default=None, ge=1)
    max_steps: int = Field(default=DEFAULT_MAX_STEPS, ge=1)
    retries: int = Field(default=DEFAULT_RETRIES, ge=0)


class ModelSettings(BaseModel):
    """How a model is to answer: of an agent, of a run, of one call; the later of them wins.

    What nobody gave is not sent, so the vendor's own value holds; None takes back what an earlier
    one gave. A vendor that cannot do what was given raises, naming the setting and the model.

    Attributes:
        temperature: From 0 to 2; reads 1.0 when it was not given.
        max_tokens: Output tokens of one call.
        top_p: Sample from the likeliest tokens that have this probability together.
        stop: Texts at which the answer ends; one may be given as it is.
        seed: Makes the same answer likelier for the same request.
        tool_choice: "auto", "none", "required" (any tool), or the name of a tool. What forces a
            call holds for one model call, so that the model can speak of the result.
        parallel_tool_calls: Whether one answer may call several tools.
        thinking_budget: Tokens the model may think with.
        reasoning_effort: How much it is to think, in the vendors' words; instead of a budget.
        prompt_caching: False does without the vendor's cache, where it has to be asked for.
        timeout: Seconds one call may take.
        extra_headers: Of the HTTP request; those of several settings come together.
        extra_body: Fields of the request's body, unchecked; likewise.
        http_client: The HTTP client that the vendor's SDK is to use. Whoever made it closes it.
    """

    model_config = {"frozen": True, "extra": "forbid", "defer_build": True}

    temperature: float = Field(default=DEFAULT_TEMPERATURE, ge=0.0, le=2.0)
    max_tokens: int | None = Field(default=None, ge=1)
    top_p: float | None = Field(default=None, ge=0.0, le=1.0)
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    tool_choice: str | None = Field(default=None, min_length=1)
    parallel_tool_calls: bool | None = None
    thinking_budget: int | None = Field(default=None, ge=1)
    reasoning_effort: Effort | None = None
    prompt_caching: bool | None = None
    timeout: float | None = Field(default=None, gt=0)
    # headers and bodies may hold secrets
    extra_headers: dict[str, str] | None = Field(default=None, repr=False)
    extra_body: dict[str, Any] | None = Field(default=None, repr=False)
    http_client: Any = Field(default=None, repr=False, exclude=True)

    @field_validator("stop", mode="before")
    @classmethod
    def _one_text(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_way_to_think(self) -> Self:
        if self.thinking_budget is not None and self.reasoning_effort is not None:
            raise ValueError("give thinking_budget or reasoning_effort, not both")
        return self

    @model_serializer(mode="wrap")
    def _what_was_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # read back, what nobody gave must not look as if somebody had
        found: dict[str, Any] = handler(self)
        return {name: value for name, value in found.items() if name in self.model_fields_set}

    @property
    def given(self) -> dict[str, Any]:
        """What was given and not taken back, by name."""
        found = ((name, getattr(self, name)) for name in self.model_fields_set)
        return {name: value for name, value in found if value is not None}

    @property
    def shown(self) -> dict[str, Any]:
        """What was given and holds no secret: without headers, body and client."""
        fields = type(self).model_fields
        return {name: value for name, value in self.given.items() if fields[name].repr}

    @property
    def forces_a_call(self) -> bool:
        """Whether the model has to call a tool."""
        return self.tool_choice not in (None, "auto", "none")

    def merged(self, later: "ModelSettings | None") -> "ModelSettings":
        """Return these settings with the later ones laid over them."""
        if later is None:
            return self
        update = {name: getattr(later, name) for name in later.model_fields_set}
        for name in ("extra_headers", "extra_body"):
            mine, theirs = getattr(self, name), update.get(name)
            if mine and theirs:
                update[name] = {**mine, **theirs}
        # a budget and an effort are two words for one thing
        if update.get("thinking_budget") is not None:
            update["reasoning_effort"] = None
        elif update.get("reasoning_effort") is not None:
            update["thinking_budget"] = None
        return self.model_copy(update=update)

    def without(self, *names: str) -> "ModelSettings":
        """Return these settings as if those had not been given."""
        kept = {n: getattr(self, n) for n in self.model_fields_set if n not in names}
        return ModelSettings.model_construct(**kept)


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

    model_config = {"frozen": True, "defer_build": True}

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
        input_timeout: Seconds a person has for an answer; without one in time a call is denied.
    """

    model_config = {"frozen": True, "defer_build": True}

    timeout: float | None = Field(default=None, gt=0)
    model_calls: int | None = Field(default=None, ge=1)
    input_tokens: int | None = Field(default=None, ge=1)
    output_tokens: int | None = Field(default=None, ge=1)
    total_tokens: int | None = Field(default=None, ge=1)
    input_timeout: float | None = Field(default=None, gt=0, le=MAX_INPUT_TIMEOUT)


class Spent(BaseModel):
    """What a run had taken when it was interrupted, for the run that goes on: `run(spent=...)`.

    Attributes:
        usage: Tokens of its model calls.
        steps: Its model calls by the agent's name.
    """

    model_config = {"frozen": True, "defer_build": True}

    usage: Usage = Usage()
    steps: dict[str, int] = {}
