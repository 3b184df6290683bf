"""Counting tokens without a tokenizer: near enough to decide what is large.

Exact counts come from the provider after each call (token_tracker); before it, a guess has to do.
A program that has its model's tokenizer gives it to the context as `token_counter`.
"""

import json
from collections.abc import Callable

from orbiter.parts import DocumentPart, ImagePart, OpaquePart, Part, ReplyPart, ThinkingPart
from orbiter.types import AssistantMessage, Message, SystemMessage, ToolResult

TokenCounter = Callable[[str], int]

ASCII_CHARS_PER_TOKEN = 4
# Outside ASCII a token holds about three bytes: one Chinese character, one and a half Cyrillic.
BYTES_PER_TOKEN = 3


# What vendors charge for an image of the largest size they do not scale down.
IMAGE_TOKENS = 1_600
# Documents of bytes: a page of a PDF has some 50 KB and 2,500 tokens; of a URL nothing is known.
DOCUMENT_BYTES_PER_TOKEN = 20
DOCUMENT_TOKENS = 3_000
# Role, ids, punctuation.
MESSAGE_TOKENS = 8


def token_count(text: str) -> int:
    """Estimate how many tokens a text takes; never 0 for a text that is not empty."""
    if text.isascii():
        return (len(text) + ASCII_CHARS_PER_TOKEN - 1) // ASCII_CHARS_PER_TOKEN
    extra = len(text.encode("utf-8", "surrogatepass")) - len(text)
    # Every character beyond ASCII has one to three bytes more than it has characters.
    wide = extra // 2 + 1
    narrow = max(0, len(text) - wide)
    return narrow // ASCII_CHARS_PER_TOKEN + (wide + extra + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN


def message_tokens(message: Message, count: TokenCounter = token_count) -> int:
    """Estimate how many tokens a message takes: words, arguments, thoughts, images, documents.

    Args:
        message: Any message.
        count: Counts the tokens of a text.
    """
    tokens = MESSAGE_TOKENS
    if message.content:
        tokens += count(message.content)
    if isinstance(message, SystemMessage):
        return tokens
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            tokens += MESSAGE_TOKENS + count(call.name) + count(call.arguments)
        for said in message.parts:
            tokens += _reply_part_tokens(said, count)
        return tokens
    if isinstance(message, ToolResult) and message.error:
        tokens += count(message.error)
    for part in message.parts:
        tokens += _file_tokens(part, count)
    return tokens


def _reply_part_tokens(part: ReplyPart, count: TokenCounter) -> int:
    # text and calls are in the message's fields too
    if isinstance(part, ThinkingPart):
        return count(part.text) + count(part.signature or "")
    return count(json.dumps(part.data)) if isinstance(part, OpaquePart) else 0


def _file_tokens(part: Part, count: TokenCounter) -> int:
    if isinstance(part, ImagePart):
        return IMAGE_TOKENS
    if not isinstance(part, DocumentPart):
        return 0
    if part.data is None:
        return DOCUMENT_TOKENS
    if part.media_type is not None and part.media_type.startswith("text/"):
        return count(part.data.decode(errors="replace"))
    return max(DOCUMENT_TOKENS, len(part.data) // DOCUMENT_BYTES_PER_TOKEN)
