"""Conversations whose agent waits for a person: the next message is the answer.

The paused run is a row of its session. Nobody but this server reads or writes it; clients see the
requests and say what they decide.
"""

import sqlite3
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pydantic import TypeAdapter

from orbiter.approval import (
    InputAnswer,
    InputRequest,
    answered_id,
    ask_again,
    read_reply,
    requests_of,
)
from orbiter.errors import InputAnswerError
from orbiter.server._internal.errors import RequestError

_answers: TypeAdapter[tuple[InputAnswer, ...]] = TypeAdapter(tuple[InputAnswer, ...])


@dataclass(frozen=True, slots=True)
class Wait:
    """A run that waits.

    Attributes:
        paused: The run.
        answers: What was said so far, in the order of its requests.
        run_id: The run that goes on with it, if one does.
    """

    paused: str
    answers: tuple[InputAnswer, ...] = ()
    run_id: str = ""

    @property
    def open(self) -> InputRequest | None:
        """What is asked now; None when all is answered."""
        return next(iter(self.left), None)

    @property
    def left(self) -> tuple[InputRequest, ...]:
        """What is asked and not answered yet."""
        return requests_of(self.paused)[len(self.answers) :]

    def take(self, text: str, by: str, request_id: str | None) -> "Wait":
        """Return it with one answer more.

        Args:
            text: What was typed.
            by: Who typed it.
            request_id: What they had before them; an InputAnswer in the text may name it, too.

        Raises:
            RequestError: The text is no answer to what is asked, or was typed to something else.
        """
        request = self.open
        if request is None:
            return self
        named = answered_id(request, text) if request_id is None else request_id
        if named is None:
            raise RequestError(
                422,
                "the session waits for an answer: say to which request, by request_id, whose id is "
                "in input_requests of its latest run",
                code="no_answer",
                param="request_id",
            )
        if named != request.id:
            raise RequestError(
                409,
                f"this answers '{named[:100]}', and the session waits for '{request.id}': look at "
                "what it asks now",
                code="other_request",
            )
        try:
            answer = read_reply(request, text, by=by)
        except InputAnswerError as error:
            raise RequestError(422, str(error), code="no_answer") from None
        if problem := request.refusal(answer, now=datetime.now(UTC)):
            raise RequestError(422, problem, code="no_answer")
        return replace(self, answers=(*self.answers, answer))

    def again(self) -> "Wait":
        """Return it as it is asked from the beginning."""
        return Wait(ask_again(self.paused))


def nothing_waits(request_id: str) -> RequestError:
    """Return the error of an answer to what nobody asks any more."""
    return RequestError(
        409,
        f"nothing waits for an answer to '{request_id[:100]}': somebody has answered it already",
        code="other_request",
    )


def wait_of(db: sqlite3.Connection, session_id: str) -> Wait | None:
    """Return what a session waits for."""
    row = db.execute(
        "SELECT paused, answers, run_id FROM waits WHERE session_id = ?", (session_id,)
    ).fetchone()
    return None if row is None else Wait(row[0], _answers.validate_json(row[1]), row[2])


def keep_wait(db: sqlite3.Connection, session_id: str, wait: Wait | None) -> None:
    """Write down what a session waits for; None: for nothing."""
    db.execute("DELETE FROM waits WHERE session_id = ?", (session_id,))
    if wait is not None:
        answers = _answers.dump_json(wait.answers).decode()
        db.execute(
            "INSERT INTO waits (session_id, paused, answers, run_id) VALUES (?, ?, ?, ?)",
            (session_id, wait.paused, answers, wait.run_id),
        )
