"""The queue entry of an attempt: what its worker is told. Pure."""

from orbiter_contracts import DeveloperWorkerInput, GitWorkspace, Workspace
from orbiter_operator.tasks.observed import Observed
from orbiter_operator.tasks.plan.naming import message_id


def build_message(observed: Observed, attempt: int, prompt: str) -> DeveloperWorkerInput:
    """The message of an attempt, with what its agent is told."""
    spec = observed.spec
    git = spec.workspace.git
    workspace = None
    if git is not None:
        workspace = Workspace(
            git=GitWorkspace(url=git.url, ref=git.ref, branch=git.branch, push=git.push)
        )
    return DeveloperWorkerInput(
        request_id=message_id(observed, attempt),
        task_id=spec.task_id or f"{observed.namespace}/{observed.name}",
        project_id=spec.project_id,
        prompt=prompt,
        timeout=spec.timeout_seconds,
        workspace=workspace,
    )
