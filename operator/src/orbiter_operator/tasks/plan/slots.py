"""Whether a task still holds its place in the namespace. Pure; part of `plan`.

A place is memory and CPU of the cluster's, so it is free again when the worker's container has
ended, a moment after the worker has published its output.
"""

from datetime import datetime
from typing import Literal

from orbiter_operator.tasks.observed import Observed


def still_there(observed: Observed, now: datetime) -> bool:
    """Whether a pod of any attempt may still be working."""
    if any(pod.alive(now) for pod in observed.pods):
        return True
    # Pods are heard of late (see `pace`): a quick worker answers before its pod is known.
    return any(
        not job.over and not job.deleting and not observed.pods_of(job.attempt)
        for job in observed.jobs
    )


def place_after(observed: Observed, now: datetime) -> Literal["take", "leave"]:
    """The place of a task whose attempt has been answered."""
    return "take" if still_there(observed, now) else "leave"
