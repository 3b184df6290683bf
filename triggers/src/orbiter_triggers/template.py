"""The AgentTask that a trigger makes: its template, with the event's fields where they may be."""

from collections.abc import Mapping
from typing import Any, Final

from orbiter_contracts.event_references import (
    event_reference_problem,
    filled_branch,
    filled_prompt,
    stray_event_reference,
)
from orbiter_operator.kube.names import API_VERSION, OWN_LABELS, owner_reference
from orbiter_triggers.models import TaskTemplate
from orbiter_triggers.naming import KIND, TRIGGER

Object = dict[str, Any]
_WHERE: Final = "spec.taskTemplate.spec"


def template_problem(template: TaskTemplate) -> str | None:
    """Why no task can be made of a template; None when the API server may take it."""
    spec = template.spec
    prompt, branch = spec.get("prompt"), _branch(spec)
    for text, where in ((prompt, "prompt"), (branch, "workspace.git.branch")):
        if text is not None and not isinstance(text, str):
            return f"{_WHERE}.{where}: is no text"
        if problem := event_reference_problem(text or "", f"{_WHERE}.{where}"):
            return problem
    return stray_event_reference(_rest(spec), _WHERE)


def build_task(
    trigger: Mapping[str, str],
    name: str,
    template: TaskTemplate,
    *,
    own: Mapping[str, str],
    told: Mapping[str, str],
    annotations: Mapping[str, str],
) -> tuple[Object, str | None]:
    """The AgentTask as the API server takes it.

    Args:
        trigger: The `name`, `namespace` and `uid` of the trigger.
        name: The task's name.
        template: A template without a `template_problem`.
        own: Fields of the event that no stranger has written.
        told: The others.
        annotations: The trigger's own.

    Returns:
        The task and None, or an empty one and why there is none.
    """
    spec = dict(template.spec)
    if isinstance(spec.get("prompt"), str):
        spec["prompt"], problem = filled_prompt(spec["prompt"], own, told, name)
        if problem is not None:
            return {}, problem
    if (branch := _branch(spec)) is not None:
        filled = filled_branch(branch, {**told, **own})
        workspace = spec["workspace"]
        spec["workspace"] = workspace | {"git": workspace["git"] | {"branch": filled}}
    meta = template.metadata
    return {
        "apiVersion": API_VERSION,
        "kind": "AgentTask",
        "metadata": {
            "name": name,
            "namespace": trigger["namespace"],
            "labels": _others(meta.labels) | {TRIGGER: trigger["name"]},
            "annotations": {**_others(meta.annotations), **annotations},
            "ownerReferences": [owner_reference(KIND, trigger["name"], trigger["uid"])],
        },
        "spec": spec,
    }, None


def _others(names: Mapping[str, str]) -> dict[str, str]:
    """Without those that mean something to Orbiter, which the CRD refuses."""
    return {name: value for name, value in names.items() if not name.startswith(OWN_LABELS)}


def _branch(spec: Object) -> Any:
    workspace = spec.get("workspace")
    git = workspace.get("git") if isinstance(workspace, dict) else None
    return git.get("branch") if isinstance(git, dict) else None


def _rest(spec: Object) -> Object:
    """All of a spec into which nothing is put."""
    rest = {name: value for name, value in spec.items() if name != "prompt"}
    if _branch(spec) is not None:
        workspace = rest["workspace"]
        git = {name: value for name, value in workspace["git"].items() if name != "branch"}
        rest["workspace"] = workspace | {"git": git}
    return rest
