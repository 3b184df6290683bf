"""Questions and answers: what was answered, and what the attempt after a question is told.

Pure; part of `plan`. The id of a question is the request id of the attempt that asked it, and an
answer is never changed or taken back, so `spec.input` alone says which attempts were questions.
"""

from typing import NamedTuple

from orbiter_contracts import attempts
from orbiter_operator.tasks.observed import Observed
from orbiter_operator.tasks.plan.naming import message_id

_LOST = (
    "You have worked on this before and asked a question. What you said and did then is lost, so "
    "begin anew with what you were told:"
)


class Told(NamedTuple):
    """What an attempt is told after a question.

    Attributes:
        answer: What goes on with the agent's session.
        anew: What an agent without its session is told: the prompt and every answer.
    """

    answer: str
    anew: str


def answer_given(observed: Observed) -> str | None:
    """The answer to the question in the task's status, if there is one."""
    asked = observed.status.input_request
    if asked is None:
        return None
    return next((item.text for item in observed.spec.input if item.id == asked.id), None)


def failures_before(observed: Observed, attempt: int) -> int:
    """How many attempts before this one have failed: all that did not end with a question."""
    return attempt - 1 - len(_answered(observed, attempt))


def session_of(observed: Observed, attempt: int) -> str:
    """The session of an attempt: a new one, but after a question that of the attempt that asked.

    Its id is the request id of the attempt that began it, a UUID as the agents want it.
    """
    return attempts.session_of(message_id(observed, attempt), _answered(observed, attempt))


def told(observed: Observed, attempt: int) -> Told | None:
    """What the attempt is told instead of the prompt; None when nothing was asked before it.

    An attempt that follows a failed one is told the same as that: its session goes on from the
    last question too.
    """
    answers = list(_answered(observed, attempt).values())
    if not answers:
        return None
    asked = observed.status.input_request
    question = [f"You asked: {asked.question}"] if asked is not None else []
    known = [f"Answer {number}: {text}" for number, text in enumerate(answers, 1)]
    anew = [observed.prompt or "", "", _LOST, *known[:-1], *question, known[-1]]
    return Told(answer=answers[-1], anew="\n".join(anew).strip())


def _answered(observed: Observed, attempt: int) -> dict[str, str]:
    """The answers to the questions of the attempts before this one, by id and in their order."""
    if not observed.spec.input:
        return {}
    texts = {item.id: item.text for item in observed.spec.input}
    # There are no more attempts than failures allowed and answers, whatever a label says.
    most = observed.spec.retry.attempts_allowed + len(texts)
    ids = (message_id(observed, number) for number in range(1, min(attempt, most + 1)))
    return {request: texts[request] for request in ids if request in texts}
