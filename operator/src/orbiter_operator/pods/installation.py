"""What a spec may not lay over the templates of the installation and the cluster's profile. Pure.

They may have what no spec may: a privileged container, a directory of the node. `rules` judges a
spec by the pod without them, so here nothing of a spec may get hold of what is in them: not another
image for its container, not its volume in another place, not the variable that says whose part of a
volume this is. What is only a value, a proxy or a node's label, a spec may say anew.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from orbiter_operator.kube.models import Agent
from orbiter_operator.kube.names import WORKER
from orbiter_operator.pods.git_containers import OUR_VOLUMES
from orbiter_operator.pods.overlay import merge

Object = dict[str, Any]
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_MOUNTS = {"volumeMounts": "mountPath", "volumeDevices": "devicePath"}
_SPEC = "spec.podTemplate.spec"
_REFERENCE = re.compile(r"\$\(([^()]+)\)")
_LABEL = re.compile(r"metadata\.(?P<kind>labels|annotations)\['(?P<key>[^']+)'\]")


class Override(NamedTuple):
    """A field by which a spec would get hold of what is the installation's."""

    where: str
    value: object
    why: str


def overrides(
    agent: Agent, overlay: Object, template: Object | None, fixed: Object | None = None
) -> Iterator[Override]:
    """Where a spec gets hold of what is in the installation's template or the cluster's profile.

    Args:
        agent: The spec's agent.
        overlay: The spec's partial pod template, which can be merged.
        template: The installation's.
        fixed: That of the cluster's profile.
    """
    both: Object = merge(template or {}, fixed or {}, nulls=True)
    own, said = both.get("spec") or {}, overlay.get("spec") or {}
    if not own:
        return
    volumes = {item["name"] for item in own.get("volumes") or ()} - OUR_VOLUMES
    yield from _taken(said.get("volumes"), volumes, f"{_SPEC}.volumes", "volume")
    others = {item["name"] for _, item in _containers(own)} - {WORKER}
    for kind, container in _containers(said):
        where = f"{_SPEC}.{kind}"
        yield from _taken([container], others, where, "container")
        where = f"{where}[{container['name']}]"
        same = container["name"] == WORKER and kind == "containers"
        yield from _mounts(container, _worker(own) if same else {}, volumes, where)
    chosen = _choosing(_worker(own))
    yield from _taken(agent.env, chosen, "spec.agent.env", "variable")
    where = f"{_SPEC}.containers[{WORKER}].env"
    yield from _taken(_worker(said).get("env"), chosen, where, "variable")
    yield from _labelled(overlay.get("metadata") or {}, _worker(own), chosen)


def _containers(pod: Object) -> Iterator[tuple[str, Object]]:
    return ((kind, item) for kind in _CONTAINERS for item in pod.get(kind) or ())


def _worker(pod: Object) -> Object:
    found = (item for item in pod.get("containers") or () if item["name"] == WORKER)
    return next(found, {})


def _taken(items: Any, names: set[str], where: str, what: str) -> Iterator[Override]:
    for item in items or ():
        name = item.get("name")
        if isinstance(name, str) and name in names:
            yield Override(f"{where}[{name}].name", name, _why(what))


def _mounts(
    container: Object, beneath: Object, volumes: set[str], where: str
) -> Iterator[Override]:
    for kind, place in _MOUNTS.items():
        places = {item[place] for item in beneath.get(kind) or ()}
        for item in _listed(container.get(kind)):
            path, name = item.get(place), item.get("name")
            if isinstance(name, str) and name in volumes:
                yield Override(f"{where}.{kind}[{path}].name", name, _why("volume"))
            if isinstance(path, str) and path in places:
                yield Override(f"{where}.{kind}[{path}].{place}", path, _why("mount"))


def _listed(items: Any) -> Iterator[Object]:
    """The objects of a list in a container, where nobody has looked at what is in it yet."""
    return (item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict))


def _choosing(worker: Object) -> set[str]:
    """The variables that the worker's mounts of the installation go by."""
    mounts = worker.get("volumeMounts") or ()
    left = _REFERENCE.findall(" ".join(str(item.get("subPathExpr") or "") for item in mounts))
    values = {item["name"]: str(item.get("value") or "") for item in worker.get("env") or ()}
    chosen = set[str]()
    while left:
        name = left.pop()
        if name not in chosen:
            chosen.add(name)
            left += _REFERENCE.findall(values.get(name, ""))
    return chosen


def _labelled(said: Object, worker: Object, chosen: set[str]) -> Iterator[Override]:
    """Labels and annotations that such a variable is made of; a null takes all of them away."""
    for item in worker.get("env") or ():
        source = (item.get("valueFrom") or {}).get("fieldRef") or {}
        found = _LABEL.fullmatch(str(source.get("fieldPath")))
        if found is None or item["name"] not in chosen or found["kind"] not in said:
            continue
        kind, key, named = found["kind"], found["key"], said[found["kind"]]
        if not isinstance(named, dict) or key in named:
            yield Override(f"spec.podTemplate.metadata.{kind}[{key}]", named, _why("variable"))


def _why(what: str) -> str:
    return f"a {what} of the installation's pod template or the cluster's profile; choose another"
