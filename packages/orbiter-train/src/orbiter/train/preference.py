"""Preferences: two ways to go on from one point, of which one was better."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from orbiter.train._internal.canon import key_of
from orbiter.train.trajectory import Trajectory, same_prompt
from orbiter.types import AssistantMessage, Message


class PreferencePair(BaseModel):
    """A prompt, the better way to go on and the worse one.

    Attributes:
        prompt: The conversation both share.
        chosen: How the better one goes on; begins with the model.
        rejected: How the worse one goes on.
        tools: What the model could call.
        margin: How far the scores are apart.
    """

    model_config = {"frozen": True}

    prompt: list[Annotated[Message, Field(discriminator="role")]]
    chosen: list[Annotated[Message, Field(discriminator="role")]]
    rejected: list[Annotated[Message, Field(discriminator="role")]]
    tools: list[dict[str, Any]] = []
    margin: float


def preference_pairs(
    trajectories: Iterable[Trajectory], scorer: str, *, margin: float = 0.0
) -> list[PreferencePair]:
    """Return the best and the worst trajectory of each prompt as a pair.

    Trajectories of one prompt come from `Evaluator(repeats=...)`, or from several agents whose
    instructions are the same.

    Args:
        trajectories: With scores; those without this one are left out.
        scorer: By which they are compared.
        margin: The scores have to be further apart than that.
    """
    scored = [t for t in trajectories if scorer in t.scores and t.complete]
    pairs = []
    for group in same_prompt(scored):
        best = max(group, key=lambda t: t.scores[scorer])
        worst = min(group, key=lambda t: t.scores[scorer])
        apart = best.scores[scorer] - worst.scores[scorer]
        if apart > margin:
            pairs.append(_pair(best, worst, apart))
    return pairs


def _pair(best: Trajectory, worst: Trajectory, margin: float) -> PreferencePair:
    shared = _fork(best.messages, worst.messages)
    return PreferencePair(
        prompt=best.messages[:shared],
        chosen=best.messages[shared:],
        rejected=worst.messages[shared:],
        tools=best.tools,
        margin=margin,
    )


def _fork(a: Sequence[Message], b: Sequence[Message]) -> int:
    """Return where two conversations part: before the last turn of the model both begin with.

    Where not the model but a tool made the difference, it is the model's turn before that.
    """
    differs = 0
    while differs < min(len(a), len(b)) and key_of([a[differs]]) == key_of([b[differs]]):
        differs += 1
    while differs and not (
        differs < min(len(a), len(b))
        and isinstance(a[differs], AssistantMessage)
        and isinstance(b[differs], AssistantMessage)
    ):
        differs -= 1
    return differs
