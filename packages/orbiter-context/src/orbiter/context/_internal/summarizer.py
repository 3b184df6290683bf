"""What stands for rounds that have left the window.

A model writes the summary when there is one. What it has not read yet, and everything without a
model, is represented by the conversation's own sentences: those that state something stay long,
the gist of each message stays as long as there is room.
"""

import logging
import re
from collections.abc import Iterable

from orbiter.context._internal.seams import Summarizing
from orbiter.memory.extraction import heuristic_facts, transcript
from orbiter.memory.text import sentences
from orbiter.types import (
    AssistantMessage,
    Message,
    OrbiterError,
    SystemMessage,
    Usage,
    UserMessage,
)

log = logging.getLogger(__name__)

MAX_MODEL_CHARS = 4_000
MAX_STATEMENT_CHARS = 2_000
MAX_GIST_CHARS = 1_200
GIST_CHARS = 140
# Long conversations that arrive at once are summarised in parts a model can read.
PART_CHARS = 40_000
PROMPT = """\
You keep the summary of a long conversation between a user and an assistant. Write the summary so
far and the new part into one summary of at most 250 words: what the user wants, what was decided
and done, names, numbers and other facts that may be asked for later. Answer with the summary only.
"""
_STATES = re.compile(r"\b(?:is|are|was|were|has|have|=|means|equals|called|named)\b|:\s")
_SPECIFIC = re.compile(r"\d|\b[A-Z]{2,}\b|(?<=[\w,;] )[A-Z]\w+|[\"'`]\w")


class Lines:
    """Lines up to a number of characters; the oldest give way, a repeated one becomes newest."""

    def __init__(self, limit: int, lines: Iterable[str] = ()) -> None:
        self._limit = limit
        self._lines: dict[str, None] = {}
        self._chars = 0
        for line in lines:
            self.add(line)

    def add(self, line: str) -> None:
        """Add a line at the end."""
        if line in self._lines:
            del self._lines[line]
        else:
            self._chars += len(line) + 1
        self._lines[line] = None
        while self._chars > self._limit and len(self._lines) > 1:
            oldest = next(iter(self._lines))
            del self._lines[oldest]
            self._chars -= len(oldest) + 1

    def clear(self) -> None:
        """Remove all lines."""
        self._lines.clear()
        self._chars = 0

    def all(self) -> list[str]:
        """Return the lines, oldest first."""
        return list(self._lines)


def statements(messages: Iterable[Message]) -> list[str]:
    """Return the user's sentences that state something specific."""
    said = [message for message in messages if isinstance(message, UserMessage)]
    found = dict.fromkeys(heuristic_facts(said))
    for message in said:
        for sentence in sentences(message.content):
            if (
                len(sentence) <= 300
                and not sentence.endswith("?")
                and _STATES.search(sentence)
                and _SPECIFIC.search(sentence)
            ):
                found[sentence] = None
    return list(found)


def gist(messages: Iterable[Message]) -> list[str]:
    """Return one short line for each message that says something."""
    return [
        f"{message.role}: {sentences(message.content)[0][:GIST_CHARS]}"
        for message in messages
        if isinstance(message, (UserMessage, AssistantMessage)) and message.content.strip()
    ]


async def summarized(
    summary: str, messages: Iterable[Message], provider: Summarizing
) -> tuple[str, list[Usage]] | None:
    """Let a model go on with a summary.

    Args:
        summary: The summary so far.
        messages: What was said since.
        provider: The model.

    Returns:
        The new summary and what each call took; None when the model failed, which is logged.
    """
    text, taken = transcript(messages), []
    for start in range(0, len(text), PART_CHARS):
        new = text[start : start + PART_CHARS]
        asked = f"Summary so far:\n{summary or '(none)'}\n\nNew part:\n{new}"
        try:
            reply = await provider.complete(
                [SystemMessage(content=PROMPT), UserMessage(content=asked)]
            )
        except (OrbiterError, OSError) as error:
            log.warning("The model wrote no summary, its sentences are used instead: %s", error)
            return None
        if not reply.content.strip():
            log.warning("The model's summary is empty, its sentences are used instead")
            return None
        summary = reply.content.strip()[:MAX_MODEL_CHARS]
        taken.append(reply.usage)
    return summary, taken
