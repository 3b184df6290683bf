"""Counting tokens without a tokenizer: near enough to decide what is large.

Exact counts come from the provider after each call (token_tracker); before it, a guess has to do.
A program that has its model's tokenizer gives it to the context as `token_counter`.
"""

from collections.abc import Callable

TokenCounter = Callable[[str], int]

ASCII_CHARS_PER_TOKEN = 4
# Outside ASCII a token holds about three bytes: one Chinese character, one and a half Cyrillic.
BYTES_PER_TOKEN = 3


def token_count(text: str) -> int:
    """Estimate how many tokens a text takes; never 0 for a text that is not empty."""
    if text.isascii():
        return (len(text) + ASCII_CHARS_PER_TOKEN - 1) // ASCII_CHARS_PER_TOKEN
    extra = len(text.encode("utf-8", "surrogatepass")) - len(text)
    # Every character beyond ASCII has one to three bytes more than it has characters.
    wide = extra // 2 + 1
    narrow = max(0, len(text) - wide)
    return narrow // ASCII_CHARS_PER_TOKEN + (wide + extra + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN
