"""What a podTemplate may say: one table of fields, and the sentence when it says more.

The table is the operator's and the API server's: the chart makes a ValidatingAdmissionPolicy of it
(`helm/orbiter/files/pod-template.json`, which `make chart-pod-template` writes), so that most
templates that come here are good; those from before it, or where it is not installed, are refused
here. `rules` adds what no template may have, whatever the chart allows. Pure, and total: a template
is followed only as far as the table goes.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from orbiter_contracts.bounds import one_line
from orbiter_contracts.environment import OF_AGENT_FIELDS
from orbiter_operator.kube.names import RESERVED_LABELS, RESERVED_WHY, WORKER, is_one_of
from orbiter_operator.pods.overlay import MERGE_KEYS
from orbiter_operator.pods.template import IDENTITY, Object, WorkerDefaults

Node = Any
"""What a field may hold: ANYTHING, or a dict, see TABLE."""
ANYTHING = True
ITEMS, WORKERS, ONE_OF, NONE_OF, NEVER = "[]", f"[{WORKER}]", "one of", "none of", "never"
WHY = "why"
MAX_ITEMS = 64
"""Items of a list that the table goes into, as of `agent.env`: CEL takes a second for 4,000."""
PRIORITY_CLASSES = "workers.podTemplate.priorityClassNames"
RUNTIME_CLASSES = "workers.podTemplate.runtimeClassNames"
TOLERATIONS = "workers.podTemplate.tolerations"
OUR_SECRETS = "our secrets"
SERVICE_ACCOUNTS = "workers.allowedServiceAccountNames"
_SEGMENT = re.compile(r"\[\w*\]|[^.\[\]]+")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_LABELS: Node = {"matchLabels": ANYTHING, "matchExpressions": ANYTHING}
_NODES: Node = {"matchExpressions": ANYTHING, "matchFields": ANYTHING}
# Not namespaces or namespaceSelector: a pod that wants nobody else's beside it keeps them away.
_PODS: Node = {
    "labelSelector": _LABELS,
    **dict.fromkeys(("topologyKey", "matchLabelKeys", "mismatchLabelKeys"), ANYTHING),
}
_BY_PODS: Node = {
    _REQUIRED: {ITEMS: _PODS},
    _PREFERRED: {ITEMS: {"weight": ANYTHING, "podAffinityTerm": _PODS}},
}
_AFFINITY: Node = {
    "nodeAffinity": {
        _REQUIRED: {"nodeSelectorTerms": {ITEMS: _NODES}},
        _PREFERRED: {ITEMS: {"weight": ANYTHING, "preference": _NODES}},
    },
    "podAffinity": _BY_PODS,
    "podAntiAffinity": _BY_PODS,
}
_SPREAD: Node = {
    "labelSelector": _LABELS,
    **dict.fromkeys(("maxSkew", "topologyKey", "whenUnsatisfiable", "minDomains"), ANYTHING),
    **dict.fromkeys(("nodeAffinityPolicy", "nodeTaintsPolicy", "matchLabelKeys"), ANYTHING),
}
_COMMANDS: Node = {NEVER: "what the worker's container runs is not the spec's to choose"}
_PROCESSES: Node = {NEVER: "other containers would see the worker's processes"}
_VARIABLES: Node = {
    NONE_OF: [*IDENTITY, *OF_AGENT_FIELDS],
    WHY: "set by Orbiter; choose another name",
}
_SECRETS: Node = {NONE_OF: OUR_SECRETS, WHY: "a Secret of Orbiter itself; name one of your own"}
TABLE: Node = {
    "metadata": {
        "annotations": ANYTHING,
        "labels": {
            NONE_OF: list(RESERVED_LABELS),
            WHY: RESERVED_WHY,
        },
    },
    "spec": {
        "affinity": _AFFINITY,
        # Of a service account of the chart's list only, which `rules` sees to.
        "automountServiceAccountToken": ANYTHING,
        "containers": {
            WORKERS: {
                **dict.fromkeys(("command", "args", "lifecycle"), _COMMANDS),
                **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), _COMMANDS),
                "env": {ITEMS: {"name": _VARIABLES, "value": ANYTHING}},
                "image": ANYTHING,
                "name": ANYTHING,
                "resources": {"limits": ANYTHING, "requests": ANYTHING},
            }
        },
        "hostPID": _PROCESSES,
        "imagePullSecrets": {ITEMS: {"name": _SECRETS}},
        "nodeSelector": ANYTHING,
        "priorityClassName": {ONE_OF: PRIORITY_CLASSES},
        "runtimeClassName": {ONE_OF: RUNTIME_CLASSES},
        "serviceAccount": {ONE_OF: SERVICE_ACCOUNTS},
        "serviceAccountName": {ONE_OF: SERVICE_ACCOUNTS},
        "shareProcessNamespace": _PROCESSES,
        "terminationGracePeriodSeconds": ANYTHING,
        "tolerations": {ITEMS: {ONE_OF: TOLERATIONS}},
        "topologySpreadConstraints": {ITEMS: _SPREAD},
    },
}
"""What a podTemplate may say by default: field to what it may hold.

`[]` are a list's items, `[worker]` the one of that name, `one of` the chart's list of values, `none
of` the names that a text or the keys of a map may not be (`NAME*`: may not begin with), `never` why
a field may not be there, whatever the chart allows.
"""


@lru_cache(maxsize=4)
def allowed(more: tuple[str, ...]) -> Node:
    """The table with the chart's further fields in it."""
    table: Node = json.loads(json.dumps(TABLE))  # a copy in which no part is shared
    for path in more:
        _allow(table, _SEGMENT.findall(path))
    return table


def _allow(node: Node, segments: list[str]) -> None:
    """Let a node have the field; a field whose parent may be anything is there already."""
    for position, segment in enumerate(segments):
        if position == len(segments) - 1:
            node[segment] = ANYTHING
            return
        inner = node.get(segment)
        if inner is ANYTHING:
            return
        if inner is None or inner.keys() & {ONE_OF, NONE_OF, NEVER}:
            node[segment] = {}
        if segment in (ITEMS, WORKERS) and (key := MERGE_KEYS.get(segments[position - 1])):
            node[segment].setdefault(key, ANYTHING)  # without it no item can be told from another
        node = node[segment]


_ALLOW = "workers.podTemplate.allow"
_ROOT = "spec.podTemplate"
_SHOWN = 200
_SHORTEST = 4

_Values = dict[str, tuple[Any, ...]]


class _Problem(NamedTuple):
    """A field that may not be, and why, beginning with a space."""

    path: str
    why: str


def template_error(overlay: Object, defaults: WorkerDefaults) -> str | None:
    """Why a podTemplate says more than it may: the field and what to do; None when it does not.

    Args:
        overlay: The spec's podTemplate.
        defaults: What the installation says, more fields and values among it.
    """
    values: _Values = {
        PRIORITY_CLASSES: defaults.priority_classes,
        RUNTIME_CLASSES: defaults.runtime_classes,
        TOLERATIONS: defaults.tolerations,
        OUR_SECRETS: defaults.own_secrets,
        SERVICE_ACCOUNTS: (defaults.service_account, *defaults.allowed_service_accounts),
    }
    table = allowed(defaults.template_fields)
    found = next(_problems(table, overlay, "", "", values), None)
    return f"{_ROOT}.{one_line(found.path, _SHOWN)}{found.why}" if found else None


def class_error(chosen: str | None, defaults: WorkerDefaults) -> str | None:
    """Why a task may not have this `queuePriorityClass`; None when it may: it preempts others."""
    if chosen is None or chosen in defaults.queue_priority_classes:
        return None
    return (
        f"spec.queuePriorityClass is {one_line(repr(chosen), _SHOWN)}, not one of the chart's "
        "workers.queuePriorityClassNames; leave it out, or have the administrator add it there"
    )


def _problems(node: Node, value: Any, path: str, level: str, values: _Values) -> Iterator[_Problem]:
    if node is ANYTHING:
        return
    if NEVER in node:
        yield _Problem(path, f": {node[NEVER]}; leave it out")
    elif ONE_OF in node:
        if value not in values.get(node[ONE_OF], ()):
            yield _Problem(path, _foreign(value, node[ONE_OF]))
    elif NONE_OF in node:
        yield from _reserved(node, value, path, values)
    elif ITEMS in node or WORKERS in node:
        yield from _in_list(node, value, path, level, values)
    else:
        yield from _in_object(node, value, path, level, values)


def _reserved(node: Node, value: Any, path: str, values: _Values) -> Iterator[_Problem]:
    """Names that are Orbiter's own, in a text or among the keys of a map."""
    names = value.items() if isinstance(value, dict) else ((value, value),)
    patterns = node[NONE_OF]
    own = values[OUR_SECRETS] if patterns == OUR_SECRETS else patterns
    for name, shown in ((name, shown) for name, shown in names if is_one_of(name, own)):
        where = f"{path}[{name}]" if isinstance(value, dict) else path
        yield _Problem(where, f" is {one_line(repr(shown), _SHOWN)}, {node[WHY]}")


def _in_object(
    node: Node, value: Any, path: str, level: str, values: _Values
) -> Iterator[_Problem]:
    if not isinstance(value, dict):
        if value is not None:
            yield _Problem(path, " is not an object; write fields")
        return
    for key in (key for key in value if key not in node):
        yield _Problem(_join(path, key), _unknown(str(key), level, node))
    for key in sorted(node.keys() & value.keys()):
        yield from _problems(node[key], value[key], _join(path, key), _join(level, key), values)


def _in_list(node: Node, value: Any, path: str, level: str, values: _Values) -> Iterator[_Problem]:
    if not isinstance(value, list):
        if value is not None:
            yield _Problem(path, " is not a list; write items")
        return
    if len(value) > MAX_ITEMS:
        yield _Problem(path, f" has more than {MAX_ITEMS} items; write fewer")
        return
    items = node.get(ITEMS)
    named = WORKERS in node or (isinstance(items, dict) and "name" in items)
    for item in value:
        name = item.get("name") if isinstance(item, dict) else None
        place = WORKERS if name == WORKER and WORKERS in node else ITEMS
        where = f"{path}[{name if named and isinstance(name, str) else ''}]"
        if place in node:
            yield from _problems(node[place], item, where, f"{level}{place}", values)
        else:
            yield _Problem(where, _not_allowed("", level))


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else str(key)


def _foreign(value: Any, where: str) -> str:
    plain = isinstance(value, str | None)
    is_what = f" is {one_line(repr(value), _SHOWN)}," if plain else " is"
    return (
        f"{is_what} not one of the chart's {where}; leave it out, or have the administrator "
        "add it there"
    )


def _unknown(key: str, level: str, known: Iterable[str]) -> str:
    near = nearest(key, known)
    return _not_allowed(f"; did you mean {near}?" if near else "", _join(level, key))


def _not_allowed(hint: str, path: str) -> str:
    said = f" is not for a podTemplate to say{hint}{' Else' if hint else ';'} leave it out"
    if not path.startswith("spec."):
        return said  # the resource definition has no other
    return f"{said}, or have the administrator add {one_line(path, _SHOWN)} to the chart's {_ALLOW}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name from which this one is a slip of the pen, in whatever case.

    A slip is a letter more, less or other, or two exchanged. The chart's policy has it in CEL.
    """
    typed = name.lower()
    for other in sorted(known) if len(typed) >= _SHORTEST else ():
        meant = other.lower()
        if abs(len(meant) - len(typed)) <= 1 and any(
            meant.startswith(typed[:place]) and meant.endswith(typed[place + 2 :])
            for place in range(len(typed))
        ):
            return other
    return None
