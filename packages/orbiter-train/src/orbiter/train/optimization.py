"""What an optimisation found, told so that nobody takes luck for skill."""

from typing import Literal

from pydantic import BaseModel

from orbiter.evaluation import Difference
from orbiter.train.budget import Spent


class Attempt(BaseModel):
    """Instructions that were tried.

    Attributes:
        round: When, from 1.
        why: What the proposer wanted to change.
        instructions: The text.
        train: Mean score on the train split.
        held_out: Mean score on the held-out split; None when it was not the best of its round or
            not better than what there was.
        kept: Whether it won there.
    """

    model_config = {"frozen": True}

    round: int
    why: str
    instructions: str
    train: float
    held_out: float | None = None
    kept: bool = False


class Optimization(BaseModel):
    """The outcome.

    Attributes:
        original: The instructions at the beginning.
        instructions: Those that are kept: the last that won on the held-out split, else the
            original.
        objective: The score that counts.
        held_out: The original and the kept instructions on the held-out split, case by case.
        confidence: How sure a verdict has to be, before it is made stricter for `looks`.
        looks: How many instructions were tried on the held-out split. Each is another chance to
            win by luck, so the verdict asks for that much more.
        attempts: All that were tried, in order.
        train_cases: How many cases the proposer learned from.
        spent: Runs, tokens and rounds.
        stopped: Why it ended.
    """

    model_config = {"frozen": True}

    original: str
    instructions: str
    objective: str
    held_out: Difference
    confidence: float
    looks: int
    attempts: list[Attempt]
    train_cases: int
    spent: Spent
    stopped: str

    @property
    def verdict(self) -> Literal["better", "within noise", "no gain"]:
        """What may be said of the kept instructions."""
        if self.instructions == self.original:
            return "no gain"
        return "better" if self.held_out.verdict == "better" else "within noise"

    def report(self) -> str:
        """Return what was found, in sentences."""
        found, spent = self.held_out, self.spent
        tried = f"{len(self.attempts)} instructions were tried in {spent.rounds} rounds"
        used = f"{spent.runs} runs and {spent.usage.total_tokens} tokens"
        lines = [f"{tried}, with {used}. It ended because {self.stopped}."]
        held = f"on the {found.cases} held-out cases"
        if self.verdict == "no gain":
            lines.append(
                f"None was better {held} than the original ({self.objective} "
                f"{found.baseline:.3f}): the original is kept."
            )
            return "\n".join(lines)
        lines.append(
            f"{self.objective} {held}: {found.baseline:.3f} -> {found.candidate:.3f} "
            f"({found.difference:+.3f}, interval {found.interval.low:+.3f} to "
            f"{found.interval.high:+.3f}, p = {found.p:.3f}; {self.looks} looks at these cases)."
        )
        if self.verdict == "better":
            lines.append(
                f"That is a gain, at {self.confidence:.0%} confidence. Of the cases, "
                f"{len(found.improved)} improved and {len(found.regressed)} got worse."
            )
        else:
            lines.append(
                f"That is within noise: at {self.confidence:.0%} confidence {found.cases} cases "
                "cannot tell it from luck. Hold out more cases, or repeat them, before you rely "
                "on it."
            )
        return "\n".join(lines)
