"""Token counts of an answer, so that the agents' cost and usage are never zero."""

import json

from .conversation import Conversation
from .script import Reply, ToolCall

CHARACTERS_PER_TOKEN = 4


def tokens(conversation: Conversation, reply: Reply) -> tuple[int, int]:
    """Return (input, output) tokens: as scripted, or estimated from the sizes; at least 1 each."""
    if reply.usage:
        return reply.usage.input, reply.usage.output
    spoken = len(reply.text) + sum(
        len(json.dumps(part.arguments)) for part in reply.parts if isinstance(part, ToolCall)
    )
    return (
        max(conversation.size // CHARACTERS_PER_TOKEN, 1),
        max(spoken // CHARACTERS_PER_TOKEN, 1),
    )
