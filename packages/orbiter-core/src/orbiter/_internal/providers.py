"""Finds the provider of a model string and keeps it for as long as its event loop lives.

A provider holds network connections, which belong to the event loop they were opened in; a loop
that is gone takes its providers with it.
"""

import asyncio
import importlib
from typing import Any
from weakref import WeakKeyDictionary

from orbiter.protocols import Provider
from orbiter.types import OrbiterError

_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Provider]] = WeakKeyDictionary()


def provider_for(model: str) -> Provider:
    """Return the provider of a model string for the running event loop.

    Raises:
        OrbiterError: orbiter-models is not installed, or does not know the provider.
    """
    providers = _by_loop.setdefault(asyncio.get_running_loop(), {})
    if model not in providers:
        providers[model] = _load(model)
    return providers[model]


async def close_providers() -> None:
    """Close the connections of the running event loop's providers."""
    for provider in _by_loop.pop(asyncio.get_running_loop(), {}).values():
        close: Any = getattr(provider, "aclose", None)
        if close is not None:
            await close()


def _load(model: str) -> Provider:
    # by name: core knows the seam, not the package behind it
    try:
        models: Any = importlib.import_module("orbiter.models")
    except ModuleNotFoundError as error:
        if error.name != "orbiter.models":
            raise
        raise OrbiterError(
            f"'{model}' needs orbiter-models: install it, or give run(provider=...)"
        ) from error
    provider: Provider = models.get_provider(model)
    return provider
