"""A paused run and what people said to it: read and matched before anything happens."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from orbiter._input_requests import InputAnswer, InputRequest
from orbiter._internal.message_builder import close_calls
from orbiter._misuse import require_all
from orbiter._paused import Paused, read_paused
from orbiter.config import Spent
from orbiter.errors import InputAnswerError
from orbiter.types import AssistantMessage, Message, OrbiterError, ToolResult

if TYPE_CHECKING:
    from orbiter.replay import Step

_ANSWERS = "run(answers=...)"


class Resumed(NamedTuple):
    """A run that goes on.

    Attributes:
        paused: What it was.
        answers: By the id of the call; one without an answer has expired.
    """

    paused: Paused
    answers: dict[str, InputAnswer]

    @property
    def history(self) -> list[Message]:
        """The conversation before the turn that waits."""
        return self.paused.messages[: self.paused.start]

    @property
    def said(self) -> list[Message]:
        """What the turn has said before the message whose calls wait."""
        return close_calls(self.paused.messages[self.paused.start : self.paused.asking])

    @property
    def asking(self) -> Message:
        """The message whose calls wait."""
        return self.paused.messages[self.paused.asking]

    @property
    def edited(self) -> dict[str, dict[str, Any]]:
        """Arguments that people gave in the place of the model's, by the id of the call."""
        before = {call: asked.edited for call, asked in self.paused.asked.items() if asked.edited}
        return before | {
            call: answer.arguments
            for call, answer in self.answers.items()
            if answer.arguments is not None
        }

    def is_of(self, step: "Step | None") -> bool:
        """Say whether this is what a step of a journal waits for."""
        waiting = None if step is None else step.waits_for
        return waiting is not None and waiting.id == self.paused.id

    def after(self, asking: AssistantMessage, results: Sequence[ToolResult]) -> "Resumed":
        """Return this for a run whose journal has what was said before."""
        paused = self.paused.model_copy(update={"messages": [asking, *results], "start": 0})
        return Resumed(paused, self.answers)

    @property
    def spent(self) -> Spent:
        """What the run has taken so far."""
        return Spent(usage=self.paused.usage, steps=self.paused.steps)


def going_on(
    resume: str | bytes | None,
    answers: Sequence[InputAnswer],
    input: str,
    messages: Sequence[Message],
    spent: Spent | None,
) -> Resumed | None:
    """Read what a run is given to go on with; None for one that begins.

    Raises:
        OrbiterError: See `resumed_of`; or there is more to it than a paused run has room for.
    """
    if resume is None:
        if answers:
            raise OrbiterError(f"{_ANSWERS} goes with run(resume=result.paused)")
        return None
    for name, given in (("input", input), ("messages", messages), ("spent", spent)):
        if given:
            raise OrbiterError(
                f"run(resume=...) goes on where the run has paused, and takes no {name}: leave it "
                "empty, and say more once it has gone on"
            )
    return resumed_of(resume, answers)


def resumed_of(resume: str | bytes, answers: Sequence[InputAnswer]) -> Resumed:
    """Read a paused run and find for each answer the call that it is about.

    Args:
        resume: What was `result.paused`.
        answers: What people said.

    Raises:
        OrbiterError: It is no paused run.
        InputAnswerError: An answer is to nothing that waits, to another call than the one that
            waits, or missing.
    """
    paused = read_paused(resume)
    give = "an InputAnswer, such as result.requests[0].approve()"
    require_all(answers, InputAnswer, _ANSWERS, give, "a list, such as [answer]")
    calls = {request.id: call for call, request in paused.open.items()}
    found: dict[str, InputAnswer] = {}
    for answer in answers:
        call = calls.get(answer.id)
        if call is None:
            raise InputAnswerError(
                f"{_ANSWERS}: nothing waits for an answer to '{answer.id}'; what waits: "
                f"{', '.join(calls)}"
            )
        if call in found:
            raise InputAnswerError(f"{_ANSWERS}: two answers to '{answer.id}'; give the first one")
        if problem := paused.open[call].refusal(answer):
            raise InputAnswerError(f"{_ANSWERS}: {problem}")
        found[call] = answer
    # what nobody has said in time counts for nothing, whoever took it: the call is denied
    now = datetime.now(UTC)
    late = {call for call, request in paused.open.items() if _late(request, now)}
    missing = [r for call, r in paused.open.items() if call not in found and call not in late]
    if missing:
        what = ", ".join(f"'{r.id}' ({r.calls[0].tool})" for r in missing)
        raise InputAnswerError(f"{_ANSWERS}: no answer to {what}; the run goes on with all of them")
    return Resumed(paused, {call: said for call, said in found.items() if call not in late})


def _late(request: InputRequest, now: datetime) -> bool:
    return request.expires is not None and now >= request.expires
