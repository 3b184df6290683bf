"""A tool that asks a person while it runs: the run pauses, and the call is made again.

`orbiter.approval` has `ask_person` and `PersonNeeded` among its words.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Annotated

from pydantic import BaseModel, Field

from orbiter._input_requests import MAX_TEXT, Arguments, Text
from orbiter.types import OrbiterError

MOST_QUESTIONS = 20
"""So many one call may ask; each makes it begin anew."""


class PersonNeeded(OrbiterError):  # noqa: N818 - an instruction, not a failure
    """A tool needs the answer of a person; it lets this through, and is called again with it.

    Attributes:
        question: What is asked.
    """

    def __init__(self, question: str) -> None:
        self.question = question[:MAX_TEXT]
        super().__init__(f"it asks a person, and nobody can answer here: {self.question}")


class Asked(BaseModel):
    """What a call has asked so far.

    Attributes:
        question: What waits for an answer; empty when nothing does.
        replies: What people said, by question; None where they would not answer or were too late.
        edited: Arguments that a person gave in the place of the model's.
    """

    model_config = {"frozen": True, "extra": "forbid", "defer_build": True}

    question: Text = ""
    replies: Annotated[dict[Text, Text | None], Field(max_length=MOST_QUESTIONS)] = {}
    edited: Arguments | None = None

    def answered(self, text: str | None) -> "Asked":
        """Return this with the answer to its question."""
        replies = {**self.replies, self.question: text}
        return self.model_copy(update={"question": "", "replies": replies})


class Person:
    """Who a call can ask: what was said before is known, all else has to be asked."""

    def __init__(self, replies: Mapping[str, str | None]) -> None:
        self._replies = replies

    def ask(self, question: str) -> str | None:
        """Return the answer; None when there will be none.

        Raises:
            PersonNeeded: There is none yet.
        """
        question = question[:MAX_TEXT]
        if question in self._replies:
            return self._replies[question]
        raise PersonNeeded(question)


_NOBODY = Person({})
_person: ContextVar[Person] = ContextVar("orbiter_person", default=_NOBODY)


class person_with:  # noqa: N801 - used like a function; each call of a tool pays for it
    """Have what runs inside know these replies."""

    __slots__ = ("_person", "_token")

    def __init__(self, replies: Mapping[str, str | None] | None) -> None:
        self._person = Person(replies) if replies else _NOBODY

    def __enter__(self) -> None:
        self._token = _person.set(self._person)

    def __exit__(self, *_: object) -> None:
        _person.reset(self._token)


def person() -> Person:
    """Return who the call can ask, for a tool that gets to know its question elsewhere."""
    return _person.get()


def ask_person(question: str) -> str | None:
    """Ask a person from inside a tool.

    The first time this raises: the run ends with the stop reason `input_required` and a request of
    the kind `question`. When the run goes on, the tool is called again from its beginning with the
    same arguments, and this returns. So ask before you do a thing that must not be done twice.

    Args:
        question: The same text for the same question; up to 20 different ones in a call.

    Returns:
        What the person said; None when they would not answer or were too late.

    Raises:
        PersonNeeded: Let it through. A run that cannot wait tells the model that nobody answers.
    """
    return _person.get().ask(question)
