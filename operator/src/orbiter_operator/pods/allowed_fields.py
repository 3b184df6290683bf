"""What a podTemplate may say: one table of fields, for the operator and for the API server.

`allowlist` holds templates against it; the chart makes a ValidatingAdmissionPolicy of it
(`helm/orbiter/files/pod-template.json`, which `make chart-pod-template` writes). Pure.
"""

import json
import re
from functools import lru_cache
from typing import Any

from orbiter_operator.kube.names import MANAGED_BY, OWN_LABELS, WORKER
from orbiter_operator.pods.overlay import MERGE_KEYS
from orbiter_operator.pods.template import IDENTITY

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
_VARIABLES: Node = {NONE_OF: list(IDENTITY), WHY: "set by Orbiter; choose another name"}
_SECRETS: Node = {NONE_OF: OUR_SECRETS, WHY: "a Secret of Orbiter itself; name one of your own"}
TABLE: Node = {
    "metadata": {
        "annotations": ANYTHING,
        "labels": {
            NONE_OF: [MANAGED_BY, f"{OWN_LABELS}*"],
            WHY: "a label by which Orbiter finds its pods; leave it out",
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
