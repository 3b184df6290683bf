"""What a context does by itself: the seam between it and its processors.

Processors read the context, so they stand above it. Each mode's are entered here when the package
is loaded, and a context asks for its mode's.
"""

from collections.abc import Callable
from typing import Any, Protocol

from orbiter.context.config import ContextConfig
from orbiter.registry import Registry


class Processor(Protocol):
    """What `Context.add_processor` takes; ContextProcessor is the base of real ones."""

    @property
    def event(self) -> str:
        """When it is asked."""
        ...

    async def process(self, ctx: Any, payload: dict[str, Any]) -> None:
        """Read the payload and replace what is to be changed."""
        ...


class Pipeline(Protocol):
    """The processors of one context."""

    def add(self, processor: Processor) -> None:
        """Add a processor behind those of the same event."""
        ...

    async def run(self, ctx: Any, event: str, payload: dict[str, Any]) -> None:
        """Run the processors of an event one after the other."""
        ...


mode_registry: Registry[Callable[[ContextConfig], Pipeline]] = Registry("context mode")
