"""The objects of a task, as dicts: the Job of an attempt, and the AgentTask that an entry becomes.

Pure: the same task always gives the same Job, and the same entry the same task.
"""

from typing import Any

from orbiter_contracts import DeveloperWorkerInput, GitWorkspace
from orbiter_contracts.queues import BARE, Keys
from orbiter_operator.kube.client import CONFIG_MAPS, ApiError, Kube
from orbiter_operator.kube.names import (
    API_VERSION,
    APP_NAME,
    ATTEMPT,
    ENTRY,
    KUEUE_QUEUE,
    MANAGED_BY,
    MANAGER,
    REQUEST,
    TASK,
    TASK_UID,
    WORKER_APP,
    job_name,
    owner_reference,
    task_name,
    worker_id,
)
from orbiter_operator.pods.template import WorkerDefaults, worker_template
from orbiter_operator.tasks.models import TaskSpec
from orbiter_operator.tasks.observed import Observed, attempt_of, message_id, session_of

_REFUSED = (403, 404)

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
    environment = attempt_of(observed, attempt).environment(
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
            "ownerReferences": [owner_reference("AgentTask", observed.name, observed.uid)],
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


def build_message(observed: Observed, attempt: int, prompt: str) -> DeveloperWorkerInput:
    """The message of an attempt, with what its agent is told."""
    spec = observed.spec
    git = spec.workspace.git
    repository = None
    if git is not None:
        repository = GitWorkspace(url=git.url, ref=git.ref, branch=git.branch, push=git.push)
    return attempt_of(observed, attempt).message(
        prompt,
        spec.timeout_seconds,
        request=message_id(observed, attempt),
        task_id=spec.task_id,
        project_id=spec.project_id,
        git=repository,
    )


async def read_prompt(kube: Kube, namespace: str, spec: TaskSpec) -> tuple[str | None, str | None]:
    """The prompt of a task.

    Args:
        kube: The API client.
        namespace: The task's namespace.
        spec: What it says about its prompt.

    Returns:
        The prompt and None, or None and why there is none.

    Raises:
        ApiError: The API server could not answer.
    """
    if spec.prompt_from is None:
        return spec.prompt, None
    reference = spec.prompt_from.config_map_key_ref
    where = f"ConfigMap {reference.name}"
    try:
        found = await kube.get(CONFIG_MAPS, namespace, reference.name)
    except ApiError as error:
        if error.status not in _REFUSED:
            raise
        why = "does not exist" if error.status == 404 else "may not be read by the operator"
        return None, f"{where} with the prompt {why}"
    prompt = (found.get("data") or {}).get(reference.key, "")
    if not prompt.strip():
        return None, f"{where} has no prompt under key {reference.key!r}"
    return prompt, None


def build_task(
    entry: str,
    message: DeveloperWorkerInput,
    namespace: str,
    keys: Keys = BARE,
    *,
    agent: Object,
) -> Object:
    """The AgentTask made of an entry from outside, with that very entry as its first attempt.

    Args:
        entry: The entry's id.
        message: What it says.
        namespace: Where the task is made.
        keys: Whose stream the entry is in.
        agent: `spec.agent`: nobody outside chooses one.

    Returns:
        The object to create.
    """
    spec: Object = {
        "prompt": message.prompt,
        "agent": agent,
        "timeoutSeconds": message.timeout,
        "taskId": message.task_id,
    }
    if message.project_id:
        spec["projectId"] = message.project_id
    if message.workspace and message.workspace.git:
        spec["workspace"] = {"git": message.workspace.git.model_dump(exclude_none=True)}
    return {
        "apiVersion": API_VERSION,
        "kind": "AgentTask",
        "metadata": {
            "name": task_name(entry, keys),
            "namespace": namespace,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {ENTRY: entry, REQUEST: message.request_id},
        },
        "spec": spec,
    }
