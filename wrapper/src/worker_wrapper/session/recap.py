"""What a new session is told of the one it continues: made from the kept turns, without a model.

Used when a conversation has grown too large for its session (rotation.py). The old turns are
shortened rather than retold: whatever stands in a recap was really said.
"""

import re
from collections.abc import Sequence
from typing import Final

from orbiter_contracts import POTurn
from worker_wrapper.session.embedding import Embedder, similarities

SUMMARY_CHARACTERS: Final = 6000
"""How long the summary may be."""
RELEVANT_TURNS: Final = 3
"""How many turns are quoted at length because they may matter to the new message."""
RELEVANT_CHARACTERS: Final = 1500
_ALIKE: Final = 0.08
"""Turns less similar to the message are not worth a quotation."""
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_SHORT: Final = 240
_HEAD = """\
<earlier_conversation>
You have talked with this user before; that conversation became too long, so it goes on here. You do
not remember it, but this is what was said, shortened, the oldest first."""
_RELEVANT = "These parts of it may matter for the message below:"
_TAIL = "</earlier_conversation>\n\n"


def thread_of(turns: Sequence[POTurn], session_id: str) -> str:
    """The conversation a session belongs to: several sessions in turn make a long one."""
    for turn in reversed(turns):
        if turn.session_id == session_id:
            return turn.thread or session_id
    return session_id


async def recap(
    turns: Sequence[POTurn], *, thread: str, user_id: int, message: str, embedder: Embedder
) -> str:
    """Write what precedes the first message of a session that continues another.

    Args:
        turns: All kept turns, the oldest first.
        thread: The conversation that goes on.
        user_id: Whose it is; nothing of another user's gets in.
        message: The new message.
        embedder: Finds what is relevant to it.

    Returns:
        The text to put in front of the message; "" when nothing is known.
    """
    own = [turn for turn in turns if turn.user_id == user_id]
    summary = summarize([turn for turn in own if (turn.thread or turn.session_id) == thread])
    if not summary:
        return ""
    parts = [_HEAD, "", *summary]
    relevant = [_quoted(turn) for turn in await find_relevant(own, message, embedder)]
    new = [quotation for quotation in relevant if quotation not in summary]
    if new:
        parts += ["", _RELEVANT, *new]
    return "\n".join([*parts, _TAIL])


def summarize(turns: Sequence[POTurn], characters: int = SUMMARY_CHARACTERS) -> list[str]:
    """Shorten a conversation: how it began, and as much of its end as fits."""
    lines = [_shortened(turn) for turn in turns]
    if not lines:
        return []
    first, rest = lines[0], lines[1:]
    left, kept = characters - len(first), 0
    while kept < len(rest) and len(rest[-kept - 1]) <= left:
        left -= len(rest[-kept - 1])
        kept += 1
    missing = len(rest) - kept
    gap = [f"[{missing} messages left out]"] if missing else []
    return [first, *gap, *rest[missing:]]


async def find_relevant(turns: Sequence[POTurn], message: str, embedder: Embedder) -> list[POTurn]:
    """The turns most like the message, the oldest first."""
    alike = await similarities(embedder, message, [f"{t.prompt}\n{t.text}" for t in turns])
    best = sorted(range(len(turns)), key=lambda index: (-alike[index], -index))[:RELEVANT_TURNS]
    return [turns[index] for index in sorted(best) if alike[index] >= _ALIKE]


def _shortened(turn: POTurn) -> str:
    return f"User: {_gist(turn.prompt)}\nYou: {_gist(turn.text) or f'({turn.status})'}"


def _gist(text: str) -> str:
    """The first sentence and the last, where people put what matters."""
    flat = " ".join(text.split())
    if len(flat) <= 2 * _SHORT:
        return flat
    sentences = _SENTENCE.split(flat)
    return f"{_cut(sentences[0])} … {_cut(sentences[-1])}"


def _cut(text: str, characters: int = _SHORT) -> str:
    return text if len(text) <= characters else f"{text[:characters]}…"


def _quoted(turn: POTurn) -> str:
    half = RELEVANT_CHARACTERS // 2
    return f"User: {_cut(turn.prompt, half)}\nYou: {_cut(turn.text, half)}"
