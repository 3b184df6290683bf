"""What a remote agent is told: it knows nothing of the conversation but what we send it."""

import hashlib
from collections.abc import Sequence

from orbiter.types import AssistantMessage, Message, SystemMessage, ToolResult, UserMessage


def asked(messages: Sequence[Message]) -> str:
    """Return the text to send: the user's last words, with what was said before them if anything.

    Calls of tools and their results are left out: they are the other agents' own matter.
    """
    said = [m for m in messages if isinstance(m, UserMessage | AssistantMessage) and m.content]
    if len(said) == 1:
        return said[0].content
    lines = [f"{'User' if isinstance(m, UserMessage) else 'Agent'}: {m.content}" for m in said]
    return "The conversation so far:\n\n" + "\n\n".join(lines)


def last_words(messages: Sequence[Message]) -> str:
    """Return what the user said last."""
    return next((m.content for m in reversed(messages) if isinstance(m, UserMessage)), "")


def fingerprint(messages: Sequence[Message]) -> str:
    """Return what tells a conversation from others; instructions and tools do not count."""
    digest = hashlib.sha256()
    for message in messages:
        if not isinstance(message, SystemMessage | ToolResult) and message.content:
            digest.update(f"{message.role}\0{message.content}\0".encode())
    return digest.hexdigest()
