"""Files of examples, in a format that a trainer takes."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from orbiter.train.formats import (
    Example,
    TrainOn,
    openai_preference,
    openai_sft,
    trl_preference,
    trl_sft,
)
from orbiter.train.preference import PreferencePair
from orbiter.train.trajectory import TrainingError, Trajectory

Format = Literal["openai", "trl"]


class DatasetFile(BaseModel):
    """A file of examples.

    Attributes:
        path: JSON lines.
        kind: What there is to learn from.
        format: Who takes it.
        examples: How many.
        skipped: How many the format cannot tell.
    """

    model_config = {"frozen": True}

    path: Path
    kind: Literal["sft", "preference"]
    format: Format
    examples: int
    skipped: int = 0


def write_sft(
    trajectories: Iterable[Trajectory],
    path: str | Path,
    *,
    format: Format = "openai",
    train_on: TrainOn = "all",
) -> DatasetFile:
    """Write examples to imitate.

    Args:
        trajectories: The good ones, see `select`.
        path: The file, in place of what is there.
        format: "openai" or "trl".
        train_on: "all" that the model said, or the "last" answer only.

    Raises:
        TrainingError: There are none, or one cannot be learned from.
    """
    write = openai_sft if format == "openai" else trl_sft
    examples = [write(trajectory, train_on=train_on) for trajectory in trajectories]
    return _written(path, "sft", format, examples, 0)


def write_preferences(
    pairs: Iterable[PreferencePair],
    path: str | Path,
    *,
    format: Format = "openai",
) -> DatasetFile:
    """Write pairs to prefer one of.

    OpenAI takes one message against another. Pairs whose first answers are the same are skipped
    there and counted.

    Raises:
        TrainingError: There are none.
    """
    pairs = list(pairs)
    made = [openai_preference(p) if format == "openai" else trl_preference(p) for p in pairs]
    examples = [example for example in made if example is not None]
    return _written(path, "preference", format, examples, len(pairs) - len(examples))


def _written(
    path: str | Path,
    kind: Literal["sft", "preference"],
    format: Format,
    examples: list[Example],
    skipped: int,
) -> DatasetFile:
    file = Path(path)
    if not examples:
        raise TrainingError(f"{file}: there is nothing to learn from ({skipped} skipped)")
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(example, ensure_ascii=False) + "\n" for example in examples]
    file.write_text("".join(lines), encoding="utf-8")
    return DatasetFile(path=file, kind=kind, format=format, examples=len(examples), skipped=skipped)
