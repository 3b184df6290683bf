"""When a conversation has to go on in a new session (seeds/001 §6.4), and what is told there.

Sizes and topics are looked at here; commands, idle time and the record itself in session.py.
"""

from collections.abc import Sequence
from typing import Final

from orbiter_contracts import POTurn, RotationReason
from worker_wrapper.agents.base import Session
from worker_wrapper.embedding import Embedder, long_words, similarities
from worker_wrapper.session_settings import RotationRules

COMPARED_TURNS: Final = 6
"""How many of the last turns a message is compared with."""
_COMPARED_CHARACTERS: Final = 2000
_FEW_WORDS: Final = 3
"""A message of fewer long words ("yes, do that please") goes on with whatever was the topic."""


async def outgrown(
    rules: RotationRules,
    session: Session,
    message: str,
    turns: Sequence[POTurn],
    embedder: Embedder,
) -> RotationReason | None:
    """Say why a message begins a new session although its old one is still fresh.

    Args:
        rules: When that is so.
        session: What is known of the old session.
        message: The message.
        turns: The last turns of the old session; only looked at for the topic.
        embedder: Compares topics.
    """
    if (session.context_tokens or 0) > rules.max_tokens:
        return "Tokens"
    if rules.topic_similarity is None or not turns or len(set(long_words(message))) < _FEW_WORDS:
        return None
    texts = [f"{turn.prompt}\n{turn.text}"[:_COMPARED_CHARACTERS] for turn in turns]
    likeness = await similarities(embedder, message, [*texts, "\n".join(texts)])
    return "Topic" if max(likeness) < rules.topic_similarity else None
