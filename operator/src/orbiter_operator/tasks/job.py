"""The Job of an attempt, as a dict. Pure: the same task always gives the same Job."""

from typing import Any

from orbiter_contracts.attempts import Attempt
from orbiter_operator.kube.names import (
    APP_NAME,
    ATTEMPT,
    KUEUE_QUEUE,
    MANAGED_BY,
    MANAGER,
    TASK,
    TASK_UID,
    WORKER_APP,
    job_name,
    worker_id,
)
from orbiter_operator.pods.template import WorkerDefaults, worker_template
from orbiter_operator.tasks.models import TaskSpec
from orbiter_operator.tasks.observed import Observed
from orbiter_operator.tasks.plan.answers import session_of

Object = dict[str, Any]
_DEADLINE_MARGIN_SECONDS = 600


def build_job(observed: Observed, attempt: int, entry: str, defaults: WorkerDefaults) -> Object:
    """The Job that runs one attempt.

    Args:
        observed: The task.
        attempt: Which attempt, from 1.
        entry: Id of its entry on the developer input stream.
        defaults: What is the same for all workers.

    Returns:
        The object to create.
    """
    spec = observed.spec
    name = job_name(observed.name, attempt)
    labels = {
        MANAGED_BY: MANAGER,
        APP_NAME: WORKER_APP,
        TASK: observed.name,
        TASK_UID: observed.uid,
        ATTEMPT: str(attempt),
    }
    task = f"{observed.namespace}/{observed.name}"
    environment = Attempt(task, observed.uid, attempt).environment(
        worker=worker_id(observed.namespace, name),
        entry=entry,
        session=session_of(observed, attempt),
    )
    template = worker_template(
        spec.agent, spec.workspace, spec.pod_template or {}, labels, environment, defaults
    )
    body: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": observed.namespace,
            "labels": labels | ({KUEUE_QUEUE: spec.queue_name} if spec.queue_name else {}),
            "ownerReferences": [
                {
                    "apiVersion": "orbiter.dev/v1alpha1",
                    "kind": "AgentTask",
                    "name": observed.name,
                    "uid": observed.uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "activeDeadlineSeconds": spec.timeout_seconds + _DEADLINE_MARGIN_SECONDS,
            "ttlSecondsAfterFinished": defaults.job_ttl_seconds,
            "template": template,
        },
    }
    if spec.queue_name:
        body["spec"]["suspend"] = True
    return body


def task_spec_error(spec: TaskSpec, images: dict[str, str]) -> str | None:
    """Why no Job can be made of the spec; None when one can."""
    if spec.agent.type not in images:
        known = ", ".join(sorted(images))
        return (
            f"no worker image for agent type {spec.agent.type!r}; this operator has: {known} "
            "(ORBITER_WORKER_IMAGES)"
        )
    return None
