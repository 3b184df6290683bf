"""People in a run: what it asks them, what they answer, and the tool by which a model asks.

A tool made with `@tool(approval=...)` waits for a person. The run ends with the stop reason
`input_required`; `result.requests` says what it waits for, and `run(agent, "",
resume=result.paused, answers=[...])` goes on, in whichever process.
"""

import json
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from orbiter._approval import Approval, checked
from orbiter._asking import PersonNeeded, ask_person, person
from orbiter._input_requests import Decision, InputAnswer, InputCall, InputRequest, digest
from orbiter._json_bounds import canonical
from orbiter._paused import read_paused
from orbiter._visible import visible
from orbiter.errors import InputAnswerError
from orbiter.tool import Tool
from orbiter.types import OrbiterError

__all__ = [
    "Approvals", "AskUser", "Decision", "InputAnswer", "InputCall", "InputRequest", "PersonNeeded",
    "answered_id", "ask_again", "ask_person", "ask_user", "describe", "digest", "person",
    "read_answer", "read_reply", "requests_of", "require_approval", "visible",
]  # fmt: skip
_MAX_ANSWER_BYTES = 1024 * 1024
_YES, _NO = ("approve", "yes", "y"), ("deny", "no", "n")
Approvals = Approval | Sequence[str]
"""Which of several tools wait for a person: all, none, those of which a function of a call's
arguments says so, or those with these names, in which `*` and `?` stand for any characters."""


class AskUser(Tool):
    """A tool by which the model asks a person; what the person says is its result."""

    name = "ask_user"
    description = "Ask the user a question that only they can answer. Their answer is the result."
    approval = True

    def __init__(self, *, name: str = "", description: str = "") -> None:
        """Make one.

        Args:
            name: What the model calls it, by default `ask_user`.
            description: What it is for, where there is more to say.
        """
        self.name = name or type(self).name
        self.description = description or type(self).description

    async def execute(self, question: str) -> str:
        """Never called: a person answers.

        Args:
            question: What to ask, in full sentences.
        """
        raise OrbiterError(f"'{self.name}' is answered by a person")


ask_user = AskUser()


def require_approval(tools: Iterable[Tool], approval: Approvals, where: str) -> None:
    """Have tools that somebody else has made wait for a person.

    Args:
        tools: All there are; those that it is about are changed.
        approval: Which of them, and when.
        where: The call and its parameter, for errors, such as `sandbox_tools(approval=...)`.

    Raises:
        OrbiterError: A name fits no tool, or it is neither names nor a bool nor a function.
    """
    found = list(tools)
    if isinstance(approval, bool) or callable(approval):
        for tool in found:
            tool.approval = checked(approval, tool.name)
        return
    if isinstance(approval, str) or not isinstance(approval, Iterable):
        raise OrbiterError(f"{where} got {approval!r}: give True, a function or a list of names")
    for pattern in approval:
        fitting = [tool for tool in found if any(fnmatchcase(n, pattern) for n in _names(tool))]
        if not fitting:
            there = ", ".join(tool.name for tool in found) or "none"
            raise OrbiterError(f"{where}: there is no tool '{pattern}'; the tools are: {there}")
        for tool in fitting:
            tool.approval = True


def _names(tool: Tool) -> Iterable[str]:
    # a tool of another program may have its name there besides the one the model uses
    return {tool.name, getattr(tool, "server_name", tool.name)}


def requests_of(paused: str | bytes) -> tuple[InputRequest, ...]:
    """Return what a paused run waits for.

    Args:
        paused: What was `result.paused`.

    Raises:
        OrbiterError: It is something else, or was changed.
    """
    return tuple(read_paused(paused).open.values())


def ask_again(paused: str | bytes) -> str:
    """Return a paused run that waits for the same calls under new ids.

    For who asks once more because what was approved may have run already: an answer to the first
    asking that is sent again is none to this one.

    Args:
        paused: What was `result.paused`.

    Raises:
        OrbiterError: It is something else, or was changed.
    """
    return read_paused(paused).renewed().to_json()


def read_answer(text: str | bytes) -> InputAnswer:
    """Read an answer that somebody has sent as JSON; total, like `requests_of`.

    Raises:
        InputAnswerError: It is none; the text says why in one line.
    """
    if len(text) > _MAX_ANSWER_BYTES:
        raise InputAnswerError(
            f"an answer of {len(text)} bytes; it has at most {_MAX_ANSWER_BYTES}"
        )
    try:
        return InputAnswer.model_validate_json(text)
    except ValidationError as error:
        first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        what = f"{where}: {first['msg']}"
    except ValueError as error:
        what = str(error)
    raise InputAnswerError(f"this is no answer: {ascii(what)[1:-1][:300]}")


def answered_id(request: InputRequest, text: str) -> str | None:
    """Return the id that an answer names itself, as an InputAnswer does; None: it names none.

    What is typed to a question is no InputAnswer, whatever it looks like.
    """
    if request.kind == "question":
        return None
    try:
        return read_answer(text).id
    except InputAnswerError:
        return None


def describe(request: InputRequest) -> str:
    """Say in one text what a person is asked, and what they can type; see `read_reply`."""
    if request.kind == "question":
        return visible(request.text, prose=True)
    calls = ", ".join(
        f"{visible(call.tool)} {visible(canonical(call.arguments))}" for call in request.calls
    )
    return f"May it call {calls} ? Answer `approve`, `deny REASON`, or `approve {{ARGUMENTS}}`."


def read_reply(request: InputRequest, text: str, *, by: str = "") -> InputAnswer:
    """Read what a person typed.

    Args:
        request: What was asked.
        text: To a question anything. To an approval `approve` (`yes`), with arguments in JSON to
            change them; `deny` (`no`), with a reason behind it; or an InputAnswer as JSON,
            which may leave out the id.
        by: Who typed it, where that is known: whatever an InputAnswer says of it.

    Raises:
        InputAnswerError: It is none of these, or answers another request; the text says what to
            type.
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InputAnswerError("this is no answer: it has half a character (a lone surrogate)")
    word, _, rest = text.strip().partition(" ")
    rest, saying = rest.strip(), word.lower().rstrip(".,:;!")
    try:
        if request.kind == "question":
            return request.answer(text, by=by)
        if saying in _NO:
            return request.deny(rest or None, by=by)
        if saying in _YES:
            return request.approve(arguments=_edited(rest), by=by)
    except ValueError as error:
        raise InputAnswerError(f"this is no answer: {_one_line(error)}") from error
    if not word.startswith("{"):
        raise InputAnswerError(
            f"'{visible(word[:40])}' is no answer: type `approve`, `deny REASON`, or `approve` "
            "with the arguments to use in JSON"
        )
    answer = _as_json(request, text)
    if problem := request.refusal(answer):
        raise InputAnswerError(visible(problem))
    # who is known to speak says so for nobody else
    return answer.model_copy(update={"by": by}) if by else answer


def _as_json(request: InputRequest, text: str) -> InputAnswer:
    # who reads one request only need not repeat its id; the digest says what was seen
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        value = None
    if isinstance(value, dict) and "id" not in value:
        text = json.dumps({**value, "id": request.id})
    return read_answer(text)


def _edited(text: str) -> dict[str, Any] | None:
    if not text:
        return None
    value = from_json(text, allow_inf_nan=False)
    if not isinstance(value, dict):
        raise ValueError("behind `approve` stands a JSON object with the arguments, or nothing")
    return value


def _one_line(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        return str(error.errors(include_url=False, include_input=False)[0]["msg"])
    return ascii(str(error))[1:-1][:200]
