"""What a context is given to work with, by itself or by its parent."""

from collections.abc import Callable
from typing import TypedDict, TypeVar

from orbiter.context._internal.knowledge import KnowledgeStore
from orbiter.context._internal.saved import CheckpointStore
from orbiter.context._internal.seams import Clock, Memory
from orbiter.context.tokens import TokenCounter
from orbiter.context.workspace import Workspace

T = TypeVar("T")


class Services(TypedDict, total=False):
    """The services; see the constructor of Context."""

    workspace: Workspace | None
    knowledge: KnowledgeStore | None
    memory: Memory | None
    checkpoints: CheckpointStore | None
    token_counter: TokenCounter | None
    clock: Clock | None


def service(given: T | None, parent: object | None, name: str, make: Callable[[], T]) -> T:
    """Return the service that was given, else the parent's of that name, else a new one."""
    if given is not None:
        return given
    if parent is not None:
        inherited: T = getattr(parent, name)
        return inherited
    return make()
