"""How much a context does by itself, and from where on."""

from typing import Literal

from pydantic import BaseModel, Field

Mode = Literal["pilot", "copilot", "navigator"]
# The rest is for the answer, the tools' schemas, and what an estimate misses.
BUDGET_SHARE = 0.6


class ContextConfig(BaseModel):
    """Automation level and thresholds of a Context.

    Attributes:
        mode: `pilot` does nothing by itself. `copilot` keeps the window small: it drops old
            rounds, summarises them and moves large tool results to the workspace. `navigator`
            does that too, recalls knowledge unasked, shortens old tool results and notes entities.
        history_rounds: How many rounds of conversation the model sees at most, the running one
            included. A round is what the user says and all that follows until the next time.
        summary_threshold: From more than so many rounds on, those outside the window are
            summarised.
        offload_threshold: Tool results of more than so many tokens go to the workspace.
        enable_retrieval: Index what is moved to the workspace; in `navigator` mode also recall
            knowledge for each input.
        neuron_names: Prompt neurons to add to the system prompt, in any mode.
        window_tokens: The model's window; by the model's name when absent.
        budget_share: How much of the window the system prompt and the conversation may take, but
            in `pilot` mode. Beyond it the conversation is compacted to half of that.
    """

    model_config = {"frozen": True, "extra": "forbid"}

    mode: Mode = "copilot"
    history_rounds: int = Field(default=20, ge=1)
    summary_threshold: int = Field(default=30, ge=1)
    offload_threshold: int = Field(default=4000, ge=1)
    enable_retrieval: bool = False
    neuron_names: list[str] = []
    # left out of dumps as long as they say nothing new: readers of older versions refuse them
    window_tokens: int | None = Field(default=None, ge=1_000, exclude_if=lambda value: not value)
    budget_share: float = Field(
        default=BUDGET_SHARE, gt=0, le=1, exclude_if=lambda value: value == BUDGET_SHARE
    )
