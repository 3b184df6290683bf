"""What a context asks of others, by shape: a memory, a model, a clock."""

from collections.abc import Callable
from typing import Any, Protocol

from orbiter.types import Message

Clock = Callable[[], float]


class Memory(Protocol):
    """What a context needs of a memory; those of orbiter.memory have it."""

    async def recall(self, query: str, *, agent_name: str) -> str | None:
        """Return what matters for a query, or None."""
        ...

    async def remember(self, messages: list[Message], *, agent_name: str) -> None:
        """Keep what a run added to the conversation."""
        ...


class Summarizing(Protocol):
    """What a context needs of a model provider, to have summaries written."""

    async def complete(self, messages: list[Message]) -> Any:
        """Answer; the reply has its text in `content` and what it took in `usage`."""
        ...
