"""Which of a cluster's installations serves the namespace that is looked at, and its Lease.

Each program of an installation that may have several replicas has a Lease: operator, triggers and
courier. Only the operator's says who is the active operator.
"""

from typing import Final

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.ui.outcome import CommandError

LABELS: Final = "--selector=app.kubernetes.io/name=orbiter"
_OF_OPERATORS: Final = f"{LABELS},app.kubernetes.io/component=operator"
_INSTANCE: Final = "app.kubernetes.io/instance"
_RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"
_OPERATOR: Final = "orbiter.dev/operator"
_OPERATOR_NAMESPACE: Final = "orbiter.dev/operator-namespace"


def operators_leases(kubectl: Kubectl) -> list[Object]:
    """The operator's Lease; of each installation, where it is not known which one is meant.

    Raises:
        CommandError: They may not be listed.
    """
    leases = kubectl.list_all("leases", _OF_OPERATORS, everywhere=True)
    if len(leases) < 2:
        return leases
    try:
        accounts = kubectl.list_all("serviceaccounts")
    except CommandError:  # who may not see them looks at all installations
        return leases
    return [each for each in leases if any(serves(each, one) for one in accounts)] or leases


def serves(lease: Object, account: Object) -> bool:
    """Whether the operator of this Lease, or its chart, has made a namespace's ServiceAccount."""
    meta, own = account["metadata"], lease["metadata"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    if _OPERATOR in labels:  # of a namespace with the label
        made_by = labels[_OPERATOR], labels.get(_OPERATOR_NAMESPACE)
        return made_by == (own["name"], own["namespace"])
    # of one that the chart lists
    made_by = labels.get(_INSTANCE), notes.get(_RELEASE_NAMESPACE)
    return made_by == ((own.get("labels") or {}).get(_INSTANCE), own["namespace"])


def of_installations(programs: list[Object], leases: list[Object]) -> list[Object]:
    """The programs of these Leases' installations; all when there is no Lease."""
    chosen = {_installation(each) for each in leases}
    return [each for each in programs if _installation(each) in chosen] if leases else programs


def _installation(found: Object) -> tuple[str, str | None]:
    meta = found["metadata"]
    return meta["namespace"], (meta.get("labels") or {}).get(_INSTANCE)
