"""What model calls cost, by the table of the package `genai-prices`, if that is installed."""

import importlib
from functools import cache, lru_cache
from typing import Any

from orbiter.types import Usage

# providers that the table calls by another name
_ITS_NAMES = {
    "moonshot": "moonshotai",
    "xai": "x-ai",
    "bedrock": "aws",
    "vertex": "google",
    # one vendor, asked by either of its APIs
    **dict.fromkeys(("openai-chat", "openai-responses"), "openai"),
    **dict.fromkeys(("azure-chat", "azure-responses"), "azure"),
}


def price(provider: str, model: str, usage: Usage) -> float | None:
    """Return what tokens cost.

    Args:
        provider: For example "openai".
        model: The name the provider knows the model by.
        usage: The tokens; those read from a cache or written to one are among the input
                and cost what they cost.

    Returns:
        US dollars; None without the table, for a model it does not know, and for no tokens.
    """
    if not (usage.input_tokens or usage.output_tokens):
        return None
    tokens = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    return _price(provider, model, *tokens, usage.cache_write_tokens)


@lru_cache(maxsize=1024)
def _price(
    provider: str, model: str, sent: int, received: int, cached: int, written: int
) -> float | None:
    table = _table()
    if table is None:
        return None
    usage = table.Usage(
        input_tokens=sent,
        output_tokens=received,
        cache_read_tokens=cached,
        cache_write_tokens=written,
    )
    try:
        found = table.calc_price(usage, model, provider_id=_ITS_NAMES.get(provider, provider))
        return float(found.total_price)
    except (LookupError, ValueError):
        return None


@cache
def _table() -> Any:
    # the table comes with the package; nothing is fetched unless a program asks that of it
    try:
        return importlib.import_module("genai_prices")
    except ModuleNotFoundError:
        return None
