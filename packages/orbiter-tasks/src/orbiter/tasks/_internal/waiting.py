"""Tasks whose agent waits for a person: what is kept of the run, and what was answered so far.

All of it is in the task's events, so any worker can go on. A run that has begun to do what was
approved is not begun again: when its worker ended in the middle, the person is asked once more.
"""

from typing import Any, NamedTuple

from orbiter.approval import (
    InputAnswer,
    InputRequest,
    answered_id,
    ask_again,
    describe,
    read_answer,
    read_reply,
    requests_of,
)
from orbiter.errors import InputAnswerError
from orbiter.tasks.agents import InputRequiredError
from orbiter.tasks.models import EventType, Task, TaskEvent, utc_now
from orbiter.tasks.state import OtherRequestError, TaskState, TransitionError
from orbiter.types import OrbiterError

_AGAIN = "Its worker ended while it went on: what was approved may have run already."


class AgentWaitsError(InputRequiredError):
    """An agent waits for a person.

    Attributes:
        request: What is asked now.
        paused: The run, where what was answered so far no longer counts.
    """

    def __init__(self, request: InputRequest, paused: str | None, why: str = "") -> None:
        super().__init__("\n".join(filter(None, [why, describe(request)])))
        self.request = request
        self.paused = paused

    def payload(self) -> dict[str, Any]:
        """Return what the task's event keeps of it."""
        kept = {"question": self.question, "request": self.request.model_dump(mode="json")}
        return kept if self.paused is None else {**kept, "paused": self.paused}


class Waiting(NamedTuple):
    """A run that waits, and what people have said to it.

    Attributes:
        paused: The run.
        answers: So far, in the order of its requests.
        begun: Whether a worker has gone on with it.
    """

    paused: str
    answers: list[InputAnswer]
    begun: bool

    def ask(self) -> None:
        """Ask what is still open.

        Raises:
            AgentWaitsError: Something is.
            OrbiterError: The run was changed where it was kept.
        """
        if self.begun:
            raise self.again(_AGAIN)
        left = requests_of(self.paused)[len(self.answers) :]
        if left:
            raise AgentWaitsError(left[0], None)

    def again(self, why: str) -> AgentWaitsError:
        """Return what asks everything once more."""
        paused = ask_again(self.paused)
        return AgentWaitsError(requests_of(paused)[0], paused, why)


def waiting(task: Task) -> Waiting | None:
    """Return the run of a task that waits for people; None when none does.

    Raises:
        OrbiterError: An answer was changed where it was kept.
    """
    paused: str | None = None
    answers: list[InputAnswer] = []
    begun = False
    for event in task.events:
        payload = event.payload
        if "paused" in payload:
            paused, answers, begun = payload["paused"], [], False
        elif "question" in payload and "request" not in payload:
            paused = None
        elif "decision" in payload:
            answers.append(read_answer(payload["decision"]))
        elif "resumed" in payload:
            begun = True
    return None if paused is None else Waiting(paused, answers, begun)


def answer_event(task: Task, text: str, by: str, request_id: str | None = None) -> TaskEvent:
    """Return the event of an answer.

    Raises:
        TransitionError: The task asks nothing.
        OtherRequestError: It is to another request, or may be.
        InputAnswerError: It is no answer to what is asked.
        OrbiterError: The request was changed where it was kept.
    """
    if task.state is not TaskState.INPUT_REQUIRED:
        raise TransitionError(task.id, f"it is {task.state} and has asked nothing")
    asked = [event.payload for event in task.events if "question" in event.payload]
    if not asked or "request" not in asked[-1]:
        if request_id is not None:
            raise OtherRequestError(task.id, "", f"this answers '{request_id[:100]}'")
        return TaskEvent(task_id=task.id, event_type=EventType.LOG, payload={"answer": text})
    try:
        request = InputRequest.model_validate(asked[-1]["request"])
    except ValueError as error:
        raise OrbiterError(f"task {task.id}: what it asks was changed in the store") from error
    named = answered_id(request, text) if request_id is None else request_id
    if named is not None and named != request.id:
        raise OtherRequestError(task.id, request.id, f"this answers '{named[:100]}'")
    answer = read_reply(request, text, by=by)
    # what a task asks first is all that anybody can have been shown of it; a later `approve` may
    # have been typed before this was asked, or be the same one sent twice
    if named is None and request.kind == "approval" and len(asked) > 1:
        raise OtherRequestError(task.id, request.id, "this names no request: give its request_id")
    if problem := request.refusal(answer, now=utc_now()):
        raise InputAnswerError(problem)
    payload = {"answer": text, "decision": answer.model_dump_json(exclude_none=True)}
    return TaskEvent(task_id=task.id, event_type=EventType.LOG, payload=payload)
