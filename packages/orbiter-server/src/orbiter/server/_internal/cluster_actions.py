"""What somebody does to a task of the cluster: with the token they present, never with ours.

The server has no right to write. A token that was made for it alone is none at the API server, so
whoever wants to act from the page presents one that is good at both, and may there what it may.
What is written is what `kubectl orbiter cancel`, `answer` and `retry` write; a test compares them.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from orbiter.approval import InputRequest, read_reply
from orbiter.errors import InputAnswerError
from orbiter.server._internal.cluster import Cluster
from orbiter.server._internal.cluster_api import connected_as, request_error
from orbiter.server._internal.cluster_detail import FINAL, manager_of, open_question
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.viewer import Right, Viewer
from orbiter.server.cluster_models import Action, NewAnswer, NewAttempt, TaskReference

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer

KIND: Final = "agenttasks"
_OF_THAT_TASK = ("desiredState", "cancelledBy", "input", "resumeFrom")
"""What was said to a task alone, and not to the one that does it once more."""
_LONGEST_PREFIX = 56
"""The API server adds five characters to a name that it makes, of 63 at most."""
_READS_ONLY = (
    "this token only reads: it is none at the API server. One that acts too has a second "
    "--audience: the issuer that `kubectl get --raw /.well-known/openid-configuration` tells"
)
Object = dict[str, Any]


async def actions_of(task: Object, viewer: Viewer) -> list[Action]:
    """Return what somebody may do with a task as it stands.

    Raises:
        RequestError: Nobody can say now.
    """
    fitting = _fitting(task)
    if not fitting or not await viewer.acts():
        return []
    meta = task["metadata"]
    making = "retry" in fitting
    verb, name = ("create", "") if making else ("patch", meta["name"])
    return fitting if await viewer.may(Right(verb, KIND, meta["namespace"], name)) else []


def _fitting(task: Object) -> list[Action]:
    if manager_of(task) is not None:
        return []
    status = task.get("status") or {}
    phase = status.get("phase")
    if phase in FINAL:
        again: list[Action] = ["retry"]
        return [*again, "resume"] if phase != "Completed" and status.get("checkpoint") else again
    stopping: list[Action] = ["cancel"] if not _stops(task) else []
    return ["answer", *stopping] if open_question(task) else stopping


def _stops(task: Object) -> bool:
    return bool(task["spec"].get("desiredState") == "Cancelled")


class ClusterActions:
    """Cancels, answers and repeats tasks as whoever asks for it."""

    def __init__(self, cluster: Cluster, kubeconfig: Path | None) -> None:
        self._cluster = cluster
        self._kubeconfig = kubeconfig

    async def cancel(self, viewer: Viewer, namespace: str, name: str) -> TaskReference:
        """Have a task cancelled; one that is being cancelled already stays as it is.

        Raises:
            RequestError: It is over, not theirs, or the API server has refused it.
        """
        task = await self._task(viewer, namespace, name)
        phase = (task.get("status") or {}).get("phase")
        if phase in FINAL:
            raise _conflict(f"task {namespace}/{name} is {phase}: there is nothing to cancel")
        if not _stops(task):
            change = cancel_patch(viewer.user)
            await self._patch(viewer, task, change, "application/merge-patch+json")
        return TaskReference(namespace=namespace, name=name)

    async def answer(
        self, viewer: Viewer, namespace: str, name: str, given: NewAnswer
    ) -> TaskReference:
        """Answer a task's question.

        Raises:
            RequestError: It does not wait for this answer, that is none, or see `cancel`.
        """
        task = await self._task(viewer, namespace, name)
        if open_question(task) != given.id:
            raise RequestError(
                409, f"task {namespace}/{name} does not wait for an answer to {given.id[:80]}: "
                "look at it again", code="other_request",
            )  # fmt: skip
        patch = answer_patch(task, given.text, viewer.user)
        await self._patch(viewer, task, patch, "application/json-patch+json")
        return TaskReference(namespace=namespace, name=name)

    async def retry(
        self, viewer: Viewer, namespace: str, name: str, wanted: NewAttempt
    ) -> TaskReference:
        """Make a new task of one that is over.

        Raises:
            RequestError: It is not over, left nothing to go on from, or see `cancel`.
        """
        task = await self._task(viewer, namespace, name)
        body = retry_manifest(task, wanted)

        async def create(api: "ApiServer") -> Object | None:
            return await api.call("create_namespaced_custom_object", KIND, namespace, body=body)

        made = await self._as(viewer, create)
        return TaskReference(namespace=namespace, name=str(made["metadata"]["name"]))

    async def _task(self, viewer: Viewer, namespace: str, name: str) -> Object:
        task = (await self._cluster.get(KIND, viewer, namespace, name))[1]
        if (manager := manager_of(task)) is not None:
            raise RequestError(
                409, f"task {namespace}/{name} is run by {manager[:80]}, which would not read "
                "what is written into it: ask there", code="managed_elsewhere",
            )  # fmt: skip
        return task

    async def _patch(self, viewer: Viewer, task: Object, change: Any, how: str) -> None:
        meta = task["metadata"]

        async def patch(api: "ApiServer") -> Object | None:
            return await api.call(
                "patch_namespaced_custom_object", KIND, meta["namespace"], name=meta["name"],
                body=change, _content_type=how,
            )  # fmt: skip

        await self._as(viewer, patch)

    async def _as(
        self, viewer: Viewer, write: Callable[["ApiServer"], Awaitable[Object | None]]
    ) -> Object:
        done = await call_as(self._kubeconfig, viewer, write)
        if done is None:
            raise RequestError(404, "there is no such task, or no such namespace, any more")
        return done


async def call_as(
    kubeconfig: Path | None,
    viewer: Viewer,
    act: Callable[["ApiServer"], Awaitable[Object | None]],
) -> Object | None:
    """Do something at the API server with the token of whoever asks, and nothing of ours.

    Raises:
        RequestError: Theirs only reads, or the API server has refused it.
    """
    if viewer.token is None:
        raise RequestError(
            403, "whoever has the server's shared token only reads: act with kubectl orbiter, "
            "or have the server ask the cluster who may (--auth kubernetes)", code="reads_only",
        )  # fmt: skip
    if not await viewer.acts():
        raise RequestError(403, _READS_ONLY, code="reads_only")
    api = await connected_as(kubeconfig, viewer.token)
    try:
        return await act(api)
    except Exception as error:
        raise request_error(error) from error
    finally:
        await api.close()


def cancel_patch(by: str | None) -> Object:
    """Return the merge patch that has a task cancelled."""
    return {"spec": {"desiredState": "Cancelled", **({"cancelledBy": by} if by else {})}}


def answer_patch(task: Object, text: str, by: str | None) -> list[Object]:
    """Return the JSON patch that answers the open question of a task.

    Appending is one step for the API server, so two answers at once are no lost update.

    Raises:
        RequestError: The words are no answer to an approval.
    """
    asked = task["status"]["inputRequest"]
    given = {"id": asked["id"], "text": _decided(asked, text), **({"by": by} if by else {})}
    if "input" in task["spec"]:
        return [{"op": "add", "path": "/spec/input/-", "value": given}]
    return [{"op": "add", "path": "/spec/input", "value": [given]}]


def _decided(asked: Object, text: str) -> str:
    """Return the answer, with the digest of the call that was shown where a tool waits."""
    if asked.get("kind") != "approval":
        return text
    try:
        answer = read_reply(InputRequest.model_validate(asked), text)
    except InputAnswerError as error:
        raise RequestError(422, str(error), code="no_answer", param="text") from None
    except ValueError:
        return text  # it was shortened, or is another operator's: the agent reads the words
    return answer.model_dump_json(exclude={"id"}, exclude_defaults=True)


def retry_manifest(task: Object, wanted: NewAttempt) -> Object:
    """Return the task that does another one once more.

    Raises:
        RequestError: That is not over, or left nothing to go on from.
    """
    meta, status = task["metadata"], task.get("status") or {}
    phase = status.get("phase")
    if phase not in FINAL:
        raise _conflict(f"task {meta['name']} is {phase or 'Pending'}: only one that is over can be"
                        " done once more")  # fmt: skip
    spec = {key: value for key, value in task["spec"].items() if key not in _OF_THAT_TASK}
    if wanted.resume:
        if not status.get("checkpoint") or phase == "Completed":
            raise _conflict(f"task {meta['name']} has no checkpoint to go on from")
        spec["resumeFrom"] = meta["name"]
    prefix = meta["name"][:_LONGEST_PREFIX].rstrip("-.")
    named = {"name": wanted.name} if wanted.name else {"generateName": f"{prefix}-"}
    return {
        "apiVersion": "orbiter.dev/v1alpha1", "kind": "AgentTask", "metadata": named, "spec": spec,
    }  # fmt: skip


def _conflict(words: str) -> RequestError:
    return RequestError(409, words, code="wrong_phase")
