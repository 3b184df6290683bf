"""The queue entry of an attempt: what its worker is told. Pure."""

from orbiter_contracts import DeveloperWorkerInput, GitWorkspace
from orbiter_contracts.attempts import Attempt
from orbiter_operator.tasks.observed import Observed
from orbiter_operator.tasks.plan.naming import message_id


def build_message(observed: Observed, attempt: int, prompt: str) -> DeveloperWorkerInput:
    """The message of an attempt, with what its agent is told."""
    spec = observed.spec
    git = spec.workspace.git
    repository = None
    if git is not None:
        repository = GitWorkspace(url=git.url, ref=git.ref, branch=git.branch, push=git.push)
    return Attempt(f"{observed.namespace}/{observed.name}", observed.uid, attempt).message(
        prompt,
        spec.timeout_seconds,
        request=message_id(observed, attempt),
        task_id=spec.task_id,
        project_id=spec.project_id,
        git=repository,
    )
