"""TaskClient: everything that can be done with the tasks of a cluster, as one somebody."""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Self

from orbiter.client._records import MOST_BYTES, kept_files, read_kept, read_transcript
from orbiter.client._submission import submit
from orbiter.client.changes import answer_patch, cancel_patch, retry_manifest
from orbiter.client.contract import RedisApi, TaskApi
from orbiter.client.errors import ClientError
from orbiter.client.following import followed
from orbiter.client.models import KeptFiles, NewTask, Submitted, Task, TaskPage, TaskQuery
from orbiter.client.objects import FINAL, Object, manager_of, open_question, part_of, read_task

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

if TYPE_CHECKING:
    from orbiter_contracts.transcript import AnyEvent


class TaskClient:
    """Submits, follows, answers, cancels and repeats tasks, and reads what is kept of them.

    It has no right of its own: each request is one of whoever `api` speaks for.
    """

    def __init__(self, api: TaskApi, redis: RedisApi | None = None) -> None:
        """Make a client; `connect` makes one of a kubeconfig or a token.

        Args:
            api: Reads and writes tasks.
            redis: Where transcripts and artifacts are; None does without them.
        """
        self._api = api
        self._redis = redis

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        close = getattr(self._api, "close", None)
        if close is not None:
            await close()

    async def submit(self, new: NewTask, *, namespace: str, key: str | None = None) -> Submitted:
        """Make a task.

        Args:
            new: What is wanted.
            namespace: Where.
            key: Names the task, so that the same request made again makes no other one; up to 255
                characters of ASCII. One that could be a task's name is its name.

        Raises:
            ClientError: `exists`, `other_task` where the key has named another request's task, or
                the API server has refused it.
        """
        _require_names(namespace)
        return await submit(self._api, new, namespace, key)

    async def get(self, namespace: str, name: str) -> Task:
        """Return a task.

        Raises:
            ClientError: There is none, or it may not be read.
        """
        return read_task(await self.object(namespace, name))

    async def object(self, namespace: str, name: str) -> Object:
        """Return a task as the API server has it; see `get`."""
        _require_names(namespace, name)
        found = await self._api.get(namespace, name)
        if found is None:
            raise ClientError("not_found", f"there is no task '{namespace}/{name}'")
        return found

    async def list(self, query: TaskQuery) -> TaskPage:
        """Return a page of tasks.

        Raises:
            ClientError: They may not be listed, or `after` is no cursor, or one from too long ago.
        """
        return await self._api.page(query)

    async def watch(
        self, namespace: str, name: str, *, seconds: float | None = None
    ) -> AsyncGenerator[Task, None]:
        """Yield a task as it is and after each change, until it stands still: it is over, or asks.

        Args:
            namespace: Where it is.
            name: The task.
            seconds: After so many no more is waited for; None waits for as long as it takes.

        Raises:
            ClientError: There is no such task any more, or it may not be read.
        """
        _require_names(namespace, name)
        async with aclosing(followed(self._api, namespace, name, seconds)) as states:
            async for task in states:
                yield task

    async def answer(
        self, namespace: str, name: str, text: str, *, question_id: str | None = None
    ) -> None:
        """Answer what a task asks: an approval with `approve`, or `deny` and a reason.

        Args:
            namespace: Where it is.
            name: The task.
            text: The answer.
            question_id: Of the question that was seen; None answers whatever waits.

        Raises:
            ClientError: It does not wait for this answer, or that is none.
        """
        task = _require_ours(await self.object(namespace, name), namespace, name)
        waits = open_question(task)
        if waits is None or question_id not in (None, waits):
            to = "an answer" if question_id is None else f"an answer to {question_id[:80]}"
            raise ClientError(
                "other_request", f"task {namespace}/{name} does not wait for {to}: look at it again"
            )
        by = await self._api.user()
        await self._api.patch(namespace, name, answer_patch(task, text, by))

    async def cancel(self, namespace: str, name: str) -> None:
        """Have a task cancelled; one that is being cancelled already stays as it is.

        Raises:
            ClientError: It is over.
        """
        task = _require_ours(await self.object(namespace, name), namespace, name)
        phase = part_of(task, "status").get("phase")
        if phase in FINAL:
            raise ClientError(
                "wrong_phase",
                f"task {namespace}/{name} is {phase} already: there is nothing to cancel",
            )
        if task["spec"].get("desiredState") != "Cancelled":
            by = await self._api.user()
            await self._api.patch(namespace, name, cancel_patch(by))

    async def retry(
        self,
        namespace: str,
        name: str,
        *,
        new_name: str | None = None,
        resume: bool = False,
        max_cost_usd: float | None = None,
    ) -> Task:
        """Make a new task of one that is over; a name makes that happen once.

        Args:
            namespace: Where it is.
            name: The one that is over.
            new_name: What the new one is called; made of the old name when None.
            resume: Whether it goes on with conversation and workspace of the old one.
            max_cost_usd: US dollars that it may spend, where it is another sum.

        Raises:
            ClientError: It is not over, left nothing to go on from, or the name is taken.
        """
        task = _require_ours(await self.object(namespace, name), namespace, name)
        body = retry_manifest(task, name=new_name, resume=resume, max_cost_usd=max_cost_usd)
        return read_task(await self._api.create(namespace, body))

    async def artifacts(
        self, namespace: str, name: str, *, attempt: int | None = None
    ) -> KeptFiles:
        """Return which files were kept of a task's workspace.

        Args:
            namespace: Where it is.
            name: The task.
            attempt: Of which attempt; None for the latest that kept something.

        Raises:
            ClientError: None were, or Redis cannot be read as whoever asks.
        """
        return await kept_files(self._records(), await self.object(namespace, name), attempt)

    async def artifact(
        self,
        namespace: str,
        name: str,
        file: str,
        *,
        attempt: int | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> bytes:
        """Return a file that Redis has kept; its bytes are those that were kept.

        Raises:
            ClientError: There is none of this name, it is larger, or it is in a store.
        """
        task = await self.object(namespace, name)
        return await read_kept(self._records(), task, file, attempt, most_bytes)

    async def transcript(
        self, namespace: str, name: str, *, attempt: int | None = None
    ) -> "Sequence[AnyEvent]":
        """Return what the agent of an attempt has said and done, as far as Redis still has it.

        Raises:
            ClientError: No attempt has begun, or Redis cannot be read as whoever asks.
        """
        task = await self.object(namespace, name)
        return await read_transcript(self._records(), task, attempt)

    def _records(self) -> RedisApi:
        if self._redis is None:
            raise ClientError("no_artifacts", "there is no way to Redis from here")
        return self._redis


def _require_names(*names: str) -> None:
    """See that these may be part of an address at the API server."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise ClientError("invalid", f"{name[:100]!r} is no name of a namespace or a task")


def _require_ours(task: Object, namespace: str, name: str) -> Object:
    """Return a task that the operator runs, and refuse any other."""
    if (manager := manager_of(task)) is not None:
        raise ClientError(
            "managed_elsewhere", f"task {namespace}/{name} is run by {manager[:80]}, which "
            "would not read what is written into it: ask there",
        )  # fmt: skip
    return task
