"""How Flux, Argo CD and kpt judge an object of a kind they do not know.

The rules are those of sigs.k8s.io/cli-utils/pkg/kstatus, status/core.go, `checkGenericProperties`.
"""

from typing import Literal, Protocol


class _Condition(Protocol):
    type: str
    status: str


class _Status(Protocol):
    observed_generation: int | None

    def condition(self, kind: str) -> _Condition | None: ...


def kstatus(status: _Status, generation: int) -> Literal["InProgress", "Failed", "Current"]:
    """What they say of an object of this generation with this status."""
    if status.observed_generation != generation:
        return "InProgress"
    found = {kind: status.condition(kind) for kind in ("Reconciling", "Stalled", "Ready")}
    is_so = {kind: condition.status for kind, condition in found.items() if condition}
    if is_so.get("Reconciling") == "True":
        return "InProgress"
    if is_so.get("Stalled") == "True":
        return "Failed"
    return "Current" if is_so.get("Ready", "True") == "True" else "InProgress"
