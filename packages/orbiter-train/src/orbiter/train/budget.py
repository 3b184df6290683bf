"""The budget of an optimisation: what it may spend, and what it has spent."""

from pydantic import BaseModel, Field

from orbiter.types import Usage


class Budget(BaseModel):
    """The most that may be spent; None is no limit.

    Attributes:
        runs: Runs of the agent.
        tokens: Of the agent's runs and of the proposer, both.
        rounds: Times that new instructions are asked for.
    """

    model_config = {"frozen": True}

    runs: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    rounds: int = Field(default=5, ge=1)


class Spent(BaseModel):
    """What was spent."""

    model_config = {"frozen": True}

    runs: int = 0
    usage: Usage = Usage()
    rounds: int = 0

    def plus(self, *, runs: int = 0, usage: Usage | None = None, rounds: int = 0) -> "Spent":
        """Return this and more."""
        return Spent(
            runs=self.runs + runs,
            usage=self.usage + (usage or Usage()),
            rounds=self.rounds + rounds,
        )

    def exhausted(self, budget: Budget, runs: int = 0) -> str | None:
        """Say which limit forbids another `runs` runs, if one does."""
        if budget.runs is not None and self.runs + runs > budget.runs:
            return f"{self.runs} of {budget.runs} runs are spent, {runs} more are needed"
        if budget.tokens is not None and self.usage.total_tokens >= budget.tokens:
            return f"{self.usage.total_tokens} of {budget.tokens} tokens are spent"
        if runs == 0 and self.rounds >= budget.rounds:
            return f"{self.rounds} rounds are over"
        return None
