"""Which evaluation it is: the first line of its journal."""

from datetime import datetime

from pydantic import BaseModel


class RunInfo(BaseModel):
    """Which evaluation it is; an evaluation is only ever resumed as the same.

    Attributes:
        name: What people call it.
        target: What is evaluated.
        target_hash: Of the agent's model, instructions and tools.
        dataset_hash: Of the cases.
        scorers: What each scorer is, by its name.
        cases: How many there are.
        repeats: Runs of each case.
        started_at: When it began the first time.
    """

    model_config = {"frozen": True}

    name: str
    target: str
    target_hash: str
    dataset_hash: str
    scorers: dict[str, str]
    cases: int
    repeats: int = 1
    started_at: datetime
