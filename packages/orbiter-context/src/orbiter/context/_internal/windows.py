"""How many tokens the windows of known models hold.

By the beginning of the model's name, the longest that fits; `ContextConfig.window_tokens` goes
before. Larger windows that a vendor sells only on request are not assumed.
"""

import re
from functools import lru_cache

from orbiter.context.config import ContextConfig

DEFAULT_WINDOW = 128_000
LEAST_BUDGET = 600
WINDOWS = {
    "claude": 200_000,
    "gpt-3.5": 16_385,
    "gpt-4": 8_192,
    "gpt-4-32k": 32_768,
    "gpt-4-turbo": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-4o": 128_000,
    "gpt-5": 400_000,
    "gpt-5-chat": 128_000,
    "o1": 200_000,
    "o1-mini": 128_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    "gemini": 1_048_576,
}

# Bedrock's `v1:0` and `v1:0:200k`: what stands behind that colon is no name
_REVISION = re.compile(r":\d+(?::\w+)?$")
# Bedrock's regions and vendors: `us.anthropic.`, `global.anthropic.`; `gpt-4.1` is no such
_VENDOR = re.compile(r"^(?:[a-z]{2,6}(?:-gov)?\.)?(?:anthropic|openai)\.")


@lru_cache(maxsize=100)
def window_of(model: str) -> int:
    """Return the window of a model in tokens.

    Args:
        model: Its name, with or without the provider's before a colon or slash; a cloud's name for
            it, such as `us.anthropic.claude-opus-4-1-v1:0`, its ARN, or `claude-opus-4-1@20250805`.
    """
    name = _REVISION.sub("", model).rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    name = _VENDOR.sub("", name)
    known = [start for start in WINDOWS if name.startswith(start)]
    return WINDOWS[max(known, key=len)] if known else DEFAULT_WINDOW


def budget_of(config: ContextConfig, provider: object | None) -> int:
    """Return how many tokens prompt and conversation may take.

    Args:
        config: The share, and perhaps the window.
        provider: The model; those of orbiter.models have its name in `model`.
    """
    window = config.window_tokens or window_of(str(getattr(provider, "model", "")))
    return max(LEAST_BUDGET, int(window * config.budget_share))
