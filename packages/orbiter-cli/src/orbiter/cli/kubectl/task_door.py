"""The TaskClient of the plugin: what it asks is asked by running kubectl."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.identity import username
from orbiter.cli.kubectl.references import RESOURCES
from orbiter.cli.ui.outcome import CommandError
from orbiter.client import ClientError, TaskClient, TaskPage, TaskQuery

T = TypeVar("T")
_TASKS = RESOURCES["AgentTask"]
_PROFILES = {False: "agentprofiles.orbiter.dev", True: "clusteragentprofiles.orbiter.dev"}


def do(
    kubectl: Kubectl, act: Callable[[TaskClient], Awaitable[T]], seen: Object | None = None
) -> T:
    """Do something with the tasks of a namespace.

    Args:
        kubectl: The cluster, in that namespace.
        act: What.
        seen: The task as it was shown: an answer is one to the question in it.

    Raises:
        CommandError: It was not done.
    """
    return _done(_Tasks(kubectl, seen), act)


def make(
    kubectl: Kubectl, act: Callable[[TaskClient], Awaitable[object]], seen: Object | None = None
) -> Object:
    """Make a task; return it as the API server keeps it. See `do`."""
    tasks = _Tasks(kubectl, seen)
    _done(tasks, act)
    return tasks.made


def _done(tasks: "_Tasks", act: Callable[[TaskClient], Awaitable[T]]) -> T:
    async def run() -> T:
        return await act(TaskClient(tasks))

    try:
        return asyncio.run(run())
    except ClientError as error:
        raise CommandError(str(error)) from error


class _Tasks:
    """Tasks by kubectl, which blocks: a command does one thing at a time. See TaskApi."""

    def __init__(self, kubectl: Kubectl, seen: Object | None) -> None:
        self._kubectl = kubectl
        self._seen = seen
        self.made: Object = {}

    async def get(self, namespace: str, name: str) -> Object | None:
        return self._seen or next(iter(self._kubectl.find([_TASKS], name)), None)

    async def create(self, namespace: str, manifest: Object) -> Object:
        self.made = self._kubectl.create(manifest)
        return self.made

    async def patch(self, namespace: str, name: str, change: Object | list[Object]) -> Object:
        how = "json" if isinstance(change, list) else "merge"
        self._kubectl.patch(_TASKS, name, change, how=how)
        return {}

    async def user(self) -> str | None:
        return username(self._kubectl)

    async def has_profile(self, namespace: str | None, name: str) -> bool:
        words = ("get", _PROFILES[namespace is None], name, "-o", "name", "--ignore-not-found")
        try:
            return bool(self._kubectl.run(*words).strip())
        except CommandError:
            return False  # an installation without profiles, or no right to read them

    async def page(self, query: TaskQuery) -> TaskPage:
        raise NotImplementedError("kubectl get lists tasks")

    def changes(self, namespace: str, name: str) -> AsyncGenerator[Object, None]:
        raise NotImplementedError("kubectl orbiter watch follows them")
