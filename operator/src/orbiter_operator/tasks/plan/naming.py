"""Which attempt of a task is meant, and the names that follow from it. Pure; part of `plan`."""

from typing import Any

from orbiter_contracts.attempts import request_id
from orbiter_operator.kube.names import job_name, worker_id
from orbiter_operator.tasks.observed import Observed


def current_attempt(observed: Observed) -> int:
    """The latest attempt that has begun; 0 before the first.

    An attempt begins with its Job. The status learns of it a moment later, so Jobs and Pods count
    too, and an output counts when they are gone.
    """
    jobs = [job.attempt for job in observed.jobs]
    pods = [pod.attempt for pod in observed.pods]
    latest = max(observed.status.attempts, *jobs, *pods, 0)
    record = observed.record_of(latest + 1)
    return latest + 1 if record and record.output else latest


def message_id(observed: Observed, attempt: int) -> str:
    """request_id of an attempt: ours, or that of the entry the task was made of."""
    if observed.adopted and attempt == 1:
        return observed.adopted.request_id
    return request_id(observed.uid, attempt)


def identity(observed: Observed, attempt: int) -> dict[str, Any]:
    """The fields of the status that say which attempt it speaks of."""
    pods = observed.pods_of(attempt)
    job = job_name(observed.name, attempt)
    same = observed.status.attempts == attempt
    return {
        "attempts": attempt,
        "request_id": message_id(observed, attempt),
        "job_name": job,
        "worker_id": worker_id(observed.namespace, job),
        "pod_name": pods[-1].name if pods else observed.status.pod_name if same else None,
        "result": None,
        "input_request": None,
    }
