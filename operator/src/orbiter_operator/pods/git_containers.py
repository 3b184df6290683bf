"""The containers of a worker's pod that have a git credential; the agent's has none.

`git-clone` ends before the worker starts, and has the worker's uid because the files become the
agent's. `git-push` runs beside the worker (a restartable init container), with a uid of its own and
without the workspace: what it pushes comes over the one connection it accepts. Both are the
worker's image. A repository without a credential needs neither: the worker clones and pushes.
Before them `git-skills` (`git_skills`) ends. Pure; `template` puts them into the pod.
"""

from collections.abc import Iterator
from typing import Any, Final

from orbiter_contracts import GitWorkspace
from orbiter_contracts.environment import CLONE, GIT_WORKSPACE, HANDOVER_DIR, PUSH, SKILLS
from orbiter_operator.kube.models import Agent, Git, Workspace
from orbiter_operator.pods import git_skills

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
OUR_VOLUMES: Final = git_skills.VOLUMES | {
    *("home", "tmp", "workspace", "agent", "git-credentials", "git-handover", "git-private")
}
_OF_THE_POD: Final = ("emptyDir", "ephemeral")
_OF_SKILLS: Final = frozenset({git_skills.VOLUME, git_skills.PRIVATE})
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


def shared_volumes(
    agent: Agent, workspace: Workspace, pod: Object
) -> Iterator[tuple[str, str, str]]:
    """Volumes of other pods where git works with a credential: field, kind, why that is wrong."""
    git = workspace.git is not None and workspace.git.credentials_secret_ref is not None
    skills = bool(git_skills.fetched_skills(agent.skills))
    for volume in pod["volumes"]:
        kinds = sorted(volume.keys() - {"name", *_OF_THE_POD})
        for used, names, secret in (
            (git, _USED_WITH_CREDENTIAL, "workspace.git.credentialsSecretRef"),
            (skills, _OF_SKILLS, "agent.skills"),
        ):
            if used and kinds and volume["name"] in names:
                why = (
                    f"where other pods can write while git has {secret}; take a volume of this pod "
                    f"alone ({', '.join(_OF_THE_POD)}), or do without the Secret"
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


def git_containers(agent: Agent, workspace: Workspace, worker: Object) -> list[Object]:
    """The init containers of a pod that fetches skills, or whose repository needs a credential.

    Args:
        agent: Who has the skills; without `agent_problems`.
        workspace: Where the agent works.
        worker: The worker's container as it will be: image and network are the same.
    """
    found: list[Object] = []
    beside = {
        "resources": worker.get("resources") or {},
        "securityContext": worker.get("securityContext") or {},
    }
    values, mounts = git_skills.skills_told(agent.skills)
    if values:
        found.append(_container(SKILLS, values, mounts, worker) | beside)
    git = workspace.git
    if git is None or git.credentials_secret_ref is None:
        return found
    values, mounts = _told(git)
    mine = _mounts(worker, frozenset({"workspace"}))
    found.append(_container(CLONE, values, [*mounts, *mine], worker) | beside)
    if git.push != "Always":
        return found
    push = _container(PUSH, values, mounts, worker) | {
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
    return [*found, push]


def _told(git: Git) -> tuple[dict[str, str], list[Object]]:
    """Variables and mounts of those that have the workspace's credential."""
    wanted = GitWorkspace(url=git.url, ref=git.ref, branch=git.branch, push=git.push)
    values = {
        # Kubernetes would replace $(NAME), and a branch may be called so.
        GIT_WORKSPACE: wanted.model_dump_json().replace("$", "$$"),
        "GIT_CREDENTIALS_DIR": _CREDENTIALS,
        HANDOVER_DIR: HANDOVER,
        "TMPDIR": _PRIVATE,
    }
    return values, [
        {"name": "git-credentials", "mountPath": _CREDENTIALS, "readOnly": True},
        {"name": "git-private", "mountPath": _PRIVATE},
        dict(HANDOVER_MOUNT),
    ]


def _container(which: str, values: dict[str, str], own: list[Object], worker: Object) -> Object:
    taken = [item for item in worker.get("env") or () if item["name"] in _TAKEN]
    named = frozenset(item.get("name") for item in worker.get("volumeMounts") or ())
    mounts = [
        # What a podTemplate has added, for instance certificates.
        *({**item, "readOnly": True} for item in _mounts(worker, named - OUR_VOLUMES)),
        *own,
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
