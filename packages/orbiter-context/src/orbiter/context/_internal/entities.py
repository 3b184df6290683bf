"""Names in a text, found by their shape: capitalised words that do not merely begin a sentence."""

import re

_NAME = re.compile(r"(?<=[\w,;:)] )(?:[A-Z][\w&'-]+|[A-Z]{2,})(?: (?:[A-Z][\w&'-]+|[A-Z]{2,}))*")
_MOST_CHARS = 20_000


def entities_in(text: str) -> list[str]:
    """Return the names in a text, each once, in order."""
    return list(dict.fromkeys(_NAME.findall(text[:_MOST_CHARS])))
