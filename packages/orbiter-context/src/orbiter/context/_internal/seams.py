"""What a context asks of others: by shape a memory, a model, a clock; services of its parent."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar

from orbiter.context.tokens import TokenCounter
from orbiter.types import Message

if TYPE_CHECKING:
    from orbiter.context._internal.knowledge import KnowledgeStore
    from orbiter.context.checkpoint import CheckpointStore
    from orbiter.context.context import Context
    from orbiter.context.workspace import Workspace

T = TypeVar("T")
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


class Services(TypedDict, total=False):
    """What a context is given to work with; see the constructor of Context."""

    workspace: "Workspace | None"
    knowledge: "KnowledgeStore | None"
    memory: Memory | None
    checkpoints: "CheckpointStore | None"
    token_counter: TokenCounter | None
    clock: Clock | None


def service(given: T | None, parent: "Context | None", name: str, make: Callable[[], T]) -> T:
    """Return the service that was given, else the parent's of that name, else a new one."""
    if given is not None:
        return given
    if parent is not None:
        inherited: T = getattr(parent, name)
        return inherited
    return make()
