"""The two containers of a worker's pod that have its git credential; the agent's has it not.

`git-clone` ends before the worker starts, and has the worker's uid because the files become the
agent's. `git-push` runs beside the worker (a restartable init container), with a uid of its own and
without the workspace: what it pushes comes over the one connection it accepts. Both are the
worker's image. A repository without a credential needs neither: the worker clones and pushes. Pure;
`template` puts them into the pod.
"""

from collections.abc import Iterator
from typing import Any, Final

from orbiter_contracts import GitWorkspace
from orbiter_contracts.environment import CLONE, GIT_WORKSPACE, HANDOVER_DIR, PUSH
from orbiter_operator.kube.models import Git, Workspace

Object = dict[str, Any]

HANDOVER: Final = "/run/git"
HANDOVER_MOUNT: Final = {"name": "git-handover", "mountPath": HANDOVER}
"""Where the clone's report and the push's socket lie. The worker's mount of it is read-only."""
_PUSH_UID: Final = 1001
"""Has a name in the worker's image, without which ssh does not start."""
_SECRET_MODE: Final = 0o440
_CREDENTIALS: Final = "/run/secrets/git"
_PRIVATE: Final = "/run/git-private"
_PUSH_REQUESTS: Final = {"cpu": "10m", "memory": "64Mi"}
_PUSH_MEMORY: Final = "512Mi"
OUR_VOLUMES: Final = frozenset(
    {"home", "tmp", "workspace", "agent", "git-credentials", "git-handover", "git-private"}
)
_OF_THE_POD: Final = ("emptyDir", "ephemeral")
_USED_WITH_CREDENTIAL: Final = frozenset({"workspace", "git-handover", "git-private"})
"""Volumes in which git works while it has the credential: who else writes there could take it."""
_TAKEN: Final = frozenset(
    {
        "WORKSPACE_DIR",
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    }
)
"""Variables of the worker: where it works, and what git needs to reach its host."""


def shared_volumes(workspace: Workspace, pod: Object) -> Iterator[tuple[str, str, str]]:
    """Volumes of other pods where git works with the credential: field, kind, why that is wrong."""
    if workspace.git is None or workspace.git.credentials_secret_ref is None:
        return
    for volume in pod["volumes"]:
        kinds = sorted(volume.keys() - {"name", *_OF_THE_POD})
        if volume["name"] in _USED_WITH_CREDENTIAL and kinds:
            why = (
                "where other pods can write while git has workspace.git.credentialsSecretRef; take "
                f"a volume of this pod alone ({', '.join(_OF_THE_POD)}), or do without the Secret"
            )
            yield f"spec.podTemplate.spec.volumes[{volume['name']}]", kinds[0], why


def git_volumes(workspace: Workspace) -> list[Object]:
    """The credential, what the two have in common, and what they leave for the worker."""
    if workspace.git is None or workspace.git.credentials_secret_ref is None:
        return []
    name = workspace.git.credentials_secret_ref.name
    return [
        {"name": "git-credentials", "secret": {"secretName": name, "defaultMode": _SECRET_MODE}},
        {"name": "git-handover", "emptyDir": {}},
        {"name": "git-private", "emptyDir": {}},
    ]


def git_environment(workspace: Workspace) -> dict[str, str]:
    """What tells the worker that others clone and push."""
    if workspace.git is None or workspace.git.credentials_secret_ref is None:
        return {}
    return {HANDOVER_DIR: HANDOVER}


def git_containers(workspace: Workspace, worker: Object) -> list[Object]:
    """The init containers of a pod whose repository needs a credential.

    Args:
        workspace: Where the agent works.
        worker: The worker's container as it will be: image and network are the same.
    """
    git = workspace.git
    if git is None or git.credentials_secret_ref is None:
        return []
    clone = _container(CLONE, git, worker) | {
        "resources": worker.get("resources") or {},
        "securityContext": worker.get("securityContext") or {},
    }
    clone["volumeMounts"] += _mounts(worker, frozenset({"workspace"}))
    if git.push != "Always":
        return [clone]
    push = _container(PUSH, git, worker) | {
        "restartPolicy": "Always",
        "resources": _push_resources(worker.get("resources") or {}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _PUSH_UID,
            "runAsGroup": _PUSH_UID,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return [clone, push]


def _container(which: str, git: Git, worker: Object) -> Object:
    wanted = GitWorkspace(url=git.url, ref=git.ref, branch=git.branch, push=git.push)
    values = {
        # Kubernetes would replace $(NAME), and a branch may be called so.
        GIT_WORKSPACE: wanted.model_dump_json().replace("$", "$$"),
        "GIT_CREDENTIALS_DIR": _CREDENTIALS,
        HANDOVER_DIR: HANDOVER,
        "TMPDIR": _PRIVATE,
    }
    taken = [item for item in worker.get("env") or () if item["name"] in _TAKEN]
    named = frozenset(item.get("name") for item in worker.get("volumeMounts") or ())
    mounts = [
        # What a podTemplate has added, for instance certificates.
        *({**item, "readOnly": True} for item in _mounts(worker, named - OUR_VOLUMES)),
        {"name": "git-credentials", "mountPath": _CREDENTIALS, "readOnly": True},
        {"name": "git-private", "mountPath": _PRIVATE},
        dict(HANDOVER_MOUNT),
    ]
    container: Object = {
        "name": f"git-{which}",
        "image": worker.get("image"),
        "args": [which],
        "env": [*({"name": name, "value": value} for name, value in values.items()), *taken],
        "volumeMounts": mounts,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if "imagePullPolicy" in worker:
        container["imagePullPolicy"] = worker["imagePullPolicy"]
    return container


def _mounts(worker: Object, names: frozenset[Any]) -> list[Object]:
    return [item for item in worker.get("volumeMounts") or () if item.get("name") in names]


def _push_resources(worker: Object) -> Object:
    """A little, with a limit wherever the worker has one: a quota may ask for it."""
    limits = {**(worker.get("limits") or {}), "memory": _PUSH_MEMORY}
    return {"requests": dict(_PUSH_REQUESTS), "limits": limits}
