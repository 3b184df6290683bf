"""What an agent remembers between two turns: one JSON file a session, replaced as a whole."""

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ValidationError

from orbiter.approval import InputAnswer
from orbiter.cli.ui.outcome import UsageError
from orbiter.types import Message, ToolResult

DIRECTORY = Path(".orbiter/sessions")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class _Kept(BaseModel):
    messages: list[Message] = []
    open_call: str | None = None
    paused: str | None = None
    answers: list[InputAnswer] = []
    asked_in: int | None = None


@dataclass
class Session:
    """One conversation.

    Attributes:
        id: Whatever its form.
        path: Its file.
        messages: What was said, tool calls and all.
        open_call: The call of `ask_user` that waits for its answer.
        paused: The run whose tools wait for a person.
        answers: What the person has said to it so far.
        asked_in: The worker's attempt in which it was asked last, if it has said so.
    """

    id: str
    path: Path
    messages: list[Message] = field(default_factory=list)
    open_call: str | None = None
    paused: str | None = None
    answers: list[InputAnswer] = field(default_factory=list)
    asked_in: int | None = None

    def continuation(self, prompt: str) -> tuple[list[Message], str]:
        """The conversation before the turn and what is said in it.

        When a question is open, the prompt is its answer: the result of the call that asked.
        """
        if self.open_call is None:
            return self.messages, prompt
        answered = [
            item.model_copy(update={"content": prompt})
            if isinstance(item, ToolResult) and item.tool_call_id == self.open_call
            else item
            for item in self.messages
        ]
        self.open_call = None
        return answered, ""

    def save(self) -> None:
        """Write the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(f".{os.getpid()}.partial")
        kept = _Kept(
            messages=self.messages,
            open_call=self.open_call,
            paused=self.paused,
            answers=self.answers,
            asked_in=self.asked_in,
        )
        partial.write_text(kept.model_dump_json(), encoding="utf-8")
        partial.replace(self.path)


def load_session(home: Path, session_id: str) -> Session:
    """Return a session as it was stored; an empty one when there is none.

    Raises:
        UsageError: Its file cannot be read.
    """
    name = session_id
    if not _PLAIN.fullmatch(name):
        name = hashlib.sha256(session_id.encode()).hexdigest()
    path = home / DIRECTORY / f"{name}.json"
    try:
        kept = _Kept.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Session(session_id, path)
    except (OSError, ValidationError) as error:
        raise UsageError(f"the session {path} cannot be read: {error}") from error
    return Session(session_id, path, **dict(kept))
