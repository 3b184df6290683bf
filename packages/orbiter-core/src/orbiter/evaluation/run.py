"""What is written down of one run of a case."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from orbiter.types import Message, StopReason, Usage


class Score(BaseModel):
    """What one scorer says of one run.

    Attributes:
        name: The scorer's.
        value: From 0 to 1; None when it could not be scored, and then `reason` says why.
        reason: Why it is not better, for people.
    """

    model_config = {"frozen": True}

    name: str
    value: float | None = Field(ge=0.0, le=1.0)
    reason: str = ""


class CaseResult(BaseModel):
    """One run of one case. Scorers see it before it has scores.

    Attributes:
        case_id: The case.
        attempt: From 1; more than one with `repeats`.
        input: What was asked.
        expected: The right answer, if the dataset tells.
        output: What the agent said: text, or JSON of its structured output.
        scores: One a scorer.
        error: What ended the run, when it failed; such a run scores 0 everywhere.
        seconds: How long the run took.
        cost_usd: US dollars; None where no price is known.
        usage: Tokens of all model calls.
        steps: Model calls.
        stop_reason: `completed`, or what ended the run early, as in `orbiter.types.RunResult`.
        messages: The conversation, with tool calls and their results.
        tags: The case's.
    """

    model_config = {"frozen": True}

    case_id: str
    attempt: int = 1
    input: str
    expected: Any = None
    output: Any = ""
    scores: list[Score] = []
    error: str | None = None
    seconds: float = 0.0
    cost_usd: float | None = None
    usage: Usage = Usage()
    steps: int = 0
    stop_reason: StopReason = "completed"
    messages: list[Annotated[Message, Field(discriminator="role")]] = []
    tags: list[str] = []

    def score(self, name: str) -> float | None:
        """Return the value of a score; None when there is none."""
        return next((score.value for score in self.scores if score.name == name), None)
