"""What somebody does to a task of the cluster: with the token they present, never with ours.

The server has no right to write. A token that was made for it alone is none at the API server, so
whoever wants to act from the page presents one that is good at both, and may there what it may.
What is written a TaskClient writes (`viewer_tasks`), as for `kubectl orbiter`.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from orbiter.server._internal.cluster_api import connected_as, request_error
from orbiter.server._internal.cluster_detail import FINAL, manager_of, open_question
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.viewer import Right, Viewer
from orbiter.server.cluster_models import Action

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer

KIND: Final = "agenttasks"
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
