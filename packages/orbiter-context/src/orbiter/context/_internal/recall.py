"""Passages of an earlier conversation that the new input asks for.

Only words that are rare in the conversation count: a passage is shown because it is about the
question, not because both say "please".
"""

from orbiter.context._internal.knowledge import KnowledgeStore
from orbiter.memory.text import words

MOST_WORDS = 30
MOST_PASSAGES = 3
PASSAGE_CHARS = 600


async def passages(
    knowledge: KnowledgeStore, document: str, rounds: int, question: str
) -> list[str]:
    """Return the passages of a document that share rare words with a question.

    Args:
        knowledge: Where the document is.
        document: The document's name.
        rounds: How many rounds it holds.
        question: The new input.

    Returns:
        At most three passages, best first; none when no word of the question is rare.
    """
    at_most = max(2, rounds // 20)
    rare = [
        word
        for word in list(dict.fromkeys(words(question)))[:MOST_WORDS]
        if 0 < await knowledge.count(word, document, limit=at_most + 1) <= at_most
    ]
    if not rare:
        return []
    found = await knowledge.search(" ".join(rare), MOST_PASSAGES, sources=[document])
    return [chunk.content[:PASSAGE_CHARS] for chunk in found]
