"""What is written to make a task, or to change one. Pure: dicts in and out."""

import hashlib
import re
from typing import Any, Final

from orbiter.approval import InputRequest, read_reply
from orbiter.client.errors import ClientError
from orbiter.client.models import LONGEST_KEY, TASK_NAME, GitSource, NewTask
from orbiter.client.objects import FINAL, Object, part_of
from orbiter.errors import InputAnswerError

REQUEST: Final = "orbiter.dev/request-digest"
"""Annotation: of which request a task was made, where a key has named it."""
DEFAULT_PROFILE: Final = "default"
_OF_THAT_TASK: Final = ("desiredState", "cancelledBy", "input", "resumeFrom")
"""What was said to a task alone, and not to the one that does it once more."""
_LONGEST_PREFIX: Final = 56
"""The API server adds five characters to a name that it makes, of 63 at most."""
_LONGEST_SLUG: Final = 40


def task_manifest(new: NewTask, *, name: str | None = None, digest: str | None = None) -> Object:
    """Return the manifest of a task.

    Args:
        new: What is wanted.
        name: What it is called; by default what `new` says, else made of the prompt.
        digest: Of the request, where a key has named the task.

    Raises:
        ClientError: What is wanted contradicts itself.
    """
    name = name or new.name
    identity: Object = {"name": name} if name else {"generateName": f"{slug(new.prompt)}-"}
    if digest is not None:
        identity["annotations"] = {REQUEST: digest}
    spec = {
        "prompt": new.prompt,
        "profileRef": _profile(new),
        "agent": _agent(new),
        "workspace": None if new.git is None else {"git": _git(new.git)},
        "timeoutSeconds": new.timeout_seconds,
        "retry": None if new.retries is None else {"limit": new.retries},
        "ttlSecondsAfterFinished": new.ttl_seconds,
        "artifacts": list(new.artifacts),
        "dependsOn": list(new.depends_on),
        "concurrencyKey": new.concurrency_key,
        "projectId": new.project_id,
    }
    return _task(identity, _given(spec))


def names_no_agent(new: NewTask) -> bool:
    """Say whether the profile `default` is asked about, which then says what the agent is."""
    return new.agent is None and new.profile is None and new.cluster_profile is None


def request_digest(new: NewTask) -> str:
    """Return what tells a request from another one: its SHA-256."""
    return hashlib.sha256(new.model_dump_json().encode(errors="surrogatepass")).hexdigest()


def name_of_key(key: str) -> str:
    """Return the name that an idempotency key gives its task.

    >>> name_of_key("nightly-2026-11-29")
    'nightly-2026-11-29'
    >>> name_of_key("Order 66/a")
    'task-3148d37f8ceb2492ee5db69345c0a614'

    Raises:
        ClientError: It is none.
    """
    if not 0 < len(key) <= LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise ClientError(
            "invalid", f"an idempotency key has 1 to {LONGEST_KEY} printable characters of ASCII",
            field="Idempotency-Key",
        )  # fmt: skip
    if re.fullmatch(TASK_NAME, key):
        return key
    return f"task-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def slug(prompt: str) -> str:
    """Make the beginning of a name from the beginning of a prompt.

    >>> slug("Fix the login page, please: it is blank")
    'fix-the-login-page-please-it-is-blank'
    >>> slug("修理")
    'task'
    """
    name = ""
    for word in re.findall(r"[a-z0-9]+", prompt.lower()):
        longer = f"{name}-{word}" if name else word[:_LONGEST_SLUG]
        if len(longer) > _LONGEST_SLUG:
            break
        name = longer
    return name or "task"


def cancel_patch(by: str | None) -> Object:
    """Return the merge patch that has a task cancelled."""
    return {"spec": {"desiredState": "Cancelled", **({"cancelledBy": by} if by else {})}}


def answer_patch(task: Object, text: str, by: str | None) -> list[Object]:
    """Return the JSON patch that answers the open question of a task.

    Appending is one step for the API server, so two answers at once are no lost update.

    Raises:
        ClientError: The words are no answer to an approval.
    """
    asked = task["status"]["inputRequest"]
    try:
        said = _decided(asked, text)
    except InputAnswerError as error:
        words = f"task {task['metadata']['name']}: {error}"
        raise ClientError("no_answer", words, field="text") from error
    given = {"id": asked["id"], "text": said, **({"by": by} if by else {})}
    if "input" in task["spec"]:
        return [{"op": "add", "path": "/spec/input/-", "value": given}]
    return [{"op": "add", "path": "/spec/input", "value": [given]}]


def retry_manifest(
    task: Object, *, name: str | None, resume: bool, max_cost_usd: float | None = None
) -> Object:
    """Return the manifest of the task that does another one once more.

    Args:
        task: The one that is over.
        name: What the new one is called; made of the old name when None.
        resume: Whether it goes on with the old one's conversation and workspace.
        max_cost_usd: US dollars that it may spend, where it is another sum.

    Raises:
        ClientError: That is not over, or left nothing to go on from.
    """
    old, status = str(task["metadata"]["name"]), part_of(task, "status")
    phase = status.get("phase")
    if phase not in FINAL:
        raise ClientError(
            "wrong_phase", f"task {old} is {phase or 'Pending'}: only one that has ended can be "
            "tried again; cancelling ends it",
        )  # fmt: skip
    if resume and phase == "Completed":
        raise ClientError(
            "wrong_phase",
            f"task {old} is Completed: only one that failed or was cancelled can be gone on with; "
            "without resume it is done once more, from the beginning",
        )
    if resume and not status.get("checkpoint"):
        raise ClientError(
            "wrong_phase",
            f"task {old} has no checkpoint to go on from; without resume it begins anew",
        )
    spec = {key: value for key, value in task["spec"].items() if key not in _OF_THAT_TASK}
    if max_cost_usd is not None:
        spec["agent"] = {**spec.get("agent", {}), "maxCostUSD": max_cost_usd}
    if resume:
        spec["resumeFrom"] = old
    prefix = old[:_LONGEST_PREFIX].rstrip("-.")
    return _task({"name": name} if name else {"generateName": f"{prefix}-"}, spec)


def _task(metadata: Object, spec: Object) -> Object:
    version = "orbiter.dev/v1alpha1"
    return {"apiVersion": version, "kind": "AgentTask", "metadata": metadata, "spec": spec}


def _decided(asked: Object, text: str) -> str:
    """Return the answer, with the digest of the call that was shown where a tool waits."""
    if asked.get("kind") != "approval":
        return text
    try:
        answer = read_reply(InputRequest.model_validate(asked), text)
    except ValueError:
        return text  # it was shortened, or is another operator's: the agent reads the words
    return answer.model_dump_json(exclude={"id"}, exclude_defaults=True)


def _profile(new: NewTask) -> Object | None:
    if new.cluster_profile is not None:
        return {"kind": "ClusterAgentProfile", "name": new.cluster_profile}
    return None if new.profile is None else {"name": new.profile}


def _agent(new: NewTask) -> Object:
    kind = new.agent or ("claude" if names_no_agent(new) else None)
    secret = new.credentials
    if secret is None and kind is not None:
        secret = f"{kind}-credentials"
    return _given(
        {
            "type": kind,
            "model": new.model,
            "maxTurns": new.max_turns,
            "maxCostUSD": new.max_cost_usd,
            "systemPrompt": new.system_prompt,
            "credentialsSecretRef": {"name": secret} if secret else None,
        }
    )


def _git(git: GitSource) -> Object:
    return _given(
        {
            "url": git.url,
            "ref": git.ref,
            "branch": git.branch,
            "push": "Always" if git.push else None,
            "credentialsSecretRef": {"name": git.credentials} if git.credentials else None,
        }
    )


def _given(fields: dict[str, Any]) -> Object:
    """Leave out what was not given."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}
