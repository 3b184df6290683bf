"""What is worth keeping of a conversation: facts, and a summary.

A model does it well; without one, patterns find what people say about themselves and what they
ask to be remembered, and the summary is made of the conversation's own sentences.
"""

import re
from collections.abc import Iterable, Sequence

from orbiter.memory.reading import Extraction, TextModel, read_conversation
from orbiter.memory.text import sentences
from orbiter.memory.types import MemoryRecord
from orbiter.types import AssistantMessage, Message, UserMessage

MAX_FACT_CHARS = 300
MAX_SUMMARY_CHARS = 1_500
MAX_GIST_CHARS = 160
MAX_READ_CHARS = 20_000
_FACT = re.compile(
    r"\b(?:i am|i['\u2019]m|i was born|i live|i work|i have|i own|i use|i like|i love|i hate"
    r"|i prefer|i need|i always|i never|(?:my|our) \w+(?: \w+){0,3} (?:is|are|was|were)|call me"
    r"|we use|we are|remember|note that|keep in mind|don't forget|for the record)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"^(?:please |could you |can you |would you )?(?:remember|note|keep in mind|don't forget)"
    r"(?: that)?[:,]? ",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"(?:pass(?:word|phrase|code)|secret|api[ _-]?key|token|pin)\s*(?:is\b|=|:)", re.IGNORECASE
)


async def extract(
    messages: Sequence[Message],
    *,
    provider: TextModel | None = None,
    summary_so_far: str = "",
    known: Sequence[MemoryRecord] = (),
) -> Extraction:
    """Find the facts in messages and summarise them.

    Args:
        messages: What was said since the last extraction.
        provider: The model that reads; without one, or when its answer is of no use, patterns do.
        summary_so_far: The summary to go on from.
        known: Facts that the model may update or delete, because of what was said.

    Returns:
        Facts, possibly none, what becomes of known ones, and the summary that takes the place of
        the one so far.
    """
    if provider is not None:
        said = transcript(messages, MAX_READ_CHARS)
        found = await read_conversation(said, provider, summary_so_far=summary_so_far, known=known)
        if found is not None:
            return found
    return Extraction(
        facts=heuristic_facts(messages), summary=heuristic_summary(messages, summary_so_far)
    )


def heuristic_facts(messages: Iterable[Message]) -> list[str]:
    """Return the user's own sentences that state something lasting; questions state nothing."""
    facts: dict[str, None] = {}
    for message in messages:
        if not isinstance(message, UserMessage) or not _FACT.search(message.content):
            continue
        for sentence in sentences(message.content):
            if sentence.endswith(("?", "\uff1f")) or _SECRET.search(sentence):
                continue
            if _FACT.search(sentence):
                fact = _REQUEST.sub("", sentence)[:MAX_FACT_CHARS]
                facts[fact[:1].upper() + fact[1:]] = None
    return list(facts)


def heuristic_summary(messages: Iterable[Message], summary_so_far: str = "") -> str:
    """Return the summary so far and the gist of each message; the oldest lines give way."""
    lines = summary_so_far.splitlines()
    for message in messages:
        if isinstance(message, (UserMessage, AssistantMessage)) and message.content.strip():
            gist = sentences(message.content)[0][:MAX_GIST_CHARS]
            lines.append(f"{message.role}: {gist}")
    too_long = sum(len(line) + 1 for line in lines) - MAX_SUMMARY_CHARS
    while too_long > 0:
        too_long -= len(lines.pop(0)) + 1
    return "\n".join(lines)


def transcript(messages: Iterable[Message], most_chars: int | None = None) -> str:
    """Return what user and assistant said as lines of `role: text`.

    Args:
        messages: The conversation.
        most_chars: How much of each text is kept; all of it when absent.
    """
    said = [
        f"{message.role}: {message.content[:most_chars]}"
        for message in messages
        if isinstance(message, (UserMessage, AssistantMessage)) and message.content
    ]
    return "\n".join(said)
