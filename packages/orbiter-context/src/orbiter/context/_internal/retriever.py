"""The way of a text into the index: cut into chunks, each with the lines it came from.

Chunks do not overlap and lose nothing: put together they are the text again, so that the index
is also where documents are kept.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from orbiter.context.tokens import TokenCounter

CHUNK_TOKENS = 200
_HEADING = re.compile(r"#{1,6} ")
# Where a line that is longer than a chunk may be cut.
_PIECE = re.compile(r".{1,800}(?:\s+|(?<=[.!?;,])|$)|.{1,800}", re.DOTALL)


class TextChunk(NamedTuple):
    """A part of a text, and its first line in it, from 0."""

    text: str
    line: int


def chunks_of(text: str, token_counter: TokenCounter, size: int = CHUNK_TOKENS) -> list[TextChunk]:
    """Cut a text into chunks of about `size` tokens, at headings and blank lines where possible.

    Args:
        text: The document.
        token_counter: Measures the chunks.
        size: How many tokens a chunk has at most, unless a piece of one line alone has more.

    Returns:
        One chunk or more, whose texts, put together, are `text`.
    """
    chunks: list[TextChunk] = []
    current: list[str] = []
    start = tokens = 0
    previous_blank = False
    for line, piece in _pieces(text):
        piece_tokens = token_counter(piece)
        at_border = previous_blank or _HEADING.match(piece) is not None
        full = tokens + piece_tokens > size or (at_border and tokens > size // 2)
        if current and full:
            chunks.append(TextChunk("".join(current), start))
            current, tokens = [], 0
        if not current:
            start = line
        current.append(piece)
        tokens += piece_tokens
        previous_blank = not piece.strip()
    if current or not chunks:
        chunks.append(TextChunk("".join(current), start))
    return chunks


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(keepends=True)):
        if len(line) <= 800:
            yield number, line
        else:
            for piece in _PIECE.findall(line):
                yield number, piece
