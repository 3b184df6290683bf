"""What a TaskClient asks of the door behind it: the API server, kubectl, or a server of ours."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from orbiter.client.models import TaskPage, TaskQuery
from orbiter.client.objects import Object

Ask = Callable[..., Awaitable[Any]]
"""Says one command to Redis; texts of the reply are bytes."""
UserKey = tuple[str, str]
"""The Secret of one of Redis' users, and the key of its URL in there."""


class TaskApi(Protocol):
    """Reads and writes AgentTasks as one somebody, whose rights are all there are.

    Each method raises ClientError where it cannot do what it is for.
    """

    async def get(self, namespace: str, name: str) -> Object | None:
        """Return a task as the API server has it; None when there is none."""
        ...

    async def page(self, query: TaskQuery) -> TaskPage:
        """Return a page of tasks."""
        ...

    async def create(self, namespace: str, manifest: Object) -> Object:
        """Create a task; the error has the code `exists` where its name is taken."""
        ...

    async def patch(self, namespace: str, name: str, change: Object | list[Object]) -> Object:
        """Change a task: a list is a JSON patch, anything else a merge patch."""
        ...

    def changes(self, namespace: str, name: str) -> AsyncGenerator[Object, None]:
        """Yield a task as it is, and again after each change; ends with an error only."""
        ...

    async def user(self) -> str | None:
        """Return by which name the API server knows who asks; None where it does not tell."""
        ...

    async def has_profile(self, namespace: str | None, name: str) -> bool:
        """Say whether there is a profile of this name: of a namespace, or None the cluster's.

        False too where that cannot be asked.
        """
        ...


class RedisApi(Protocol):
    """Opens the Redis of a namespace as one of the users whose Secret the caller may read."""

    def open(self, namespace: str, users: Sequence[UserKey]) -> AbstractAsyncContextManager[Ask]:
        """Connect as the first of these users whose Secret is there.

        Raises:
            ClientError: There is none, or it may not be read, or Redis does not answer.
        """
        ...


SecretData = Mapping[str, Any]
"""The `data` of a Secret, as it is encoded."""
