"""Why a session's worker does not start, from the facts of its pod. Pure.

The reasons are those of AgentTasks where the cause is the same. `lasting` problems make the session
Failed; it recovers by itself when the cause goes away.
"""

from datetime import datetime, timedelta

from orbiter_contracts.endings import UNUSABLE, says_name_in_use
from orbiter_operator.kube.models import KubeModel
from orbiter_operator.pods.reasons import (
    CONFIG_PROBLEMS,
    IMAGE_NEVER_COMES,
    IMAGE_PROBLEMS,
    one_line,
)
from orbiter_operator.sessions.observed import SessionPodFacts

CRASHES_BEFORE_FAILED = 3
"""Restarts after which a worker that waits to be restarted again counts as failed."""


class Problem(KubeModel):
    """Reason and one line for people."""

    reason: str
    message: str
    lasting: bool = False


def why_not_ready(pod: SessionPodFacts, now: datetime, patience: timedelta) -> Problem | None:
    """Explain a pod whose worker does not run; None when all is as usual.

    Args:
        pod: The pod.
        now: The time.
        patience: How long an image may fail to be pulled before that is a lasting problem.
    """
    if pod.waiting_reason in IMAGE_PROBLEMS:
        never = pod.waiting_reason in IMAGE_NEVER_COMES
        return Problem(
            reason="ImagePullFailed",
            message=one_line(f"image {pod.image} cannot be pulled: {pod.waiting_message}"),
            lasting=never or now - pod.created >= patience,
        )
    if pod.waiting_reason in CONFIG_PROBLEMS:
        missing = "secret" in pod.waiting_message.lower()
        return Problem(
            reason="SecretMissing" if missing else "ConfigError",
            message=one_line(f"pod {pod.name} cannot start: {pod.waiting_message}"),
        )
    if pod.waiting_reason == "CrashLoopBackOff":
        return _crashed(pod)
    if pod.waiting_reason:
        said = pod.waiting_message or f"pod {pod.name} waits"
        return Problem(reason=pod.waiting_reason, message=one_line(said))
    if pod.unschedulable is not None:
        said = pod.unschedulable or "no node takes the pod"
        return Problem(reason="Unschedulable", message=one_line(said))
    return None


def _crashed(pod: SessionPodFacts) -> Problem:
    lines = pod.exit_message.strip().splitlines()
    last = lines[-1] if lines else pod.exit_reason or "nothing says why"
    lasting = pod.restarts >= CRASHES_BEFORE_FAILED
    if says_name_in_use(pod.exit_code, pod.exit_message):
        # The other process may end at any moment, and the container is started again until then.
        return Problem(reason="WorkerNameInUse", message=one_line(last), lasting=lasting)
    if pod.exit_code == UNUSABLE:
        return Problem(reason="WorkerMisconfigured", message=one_line(last), lasting=True)
    if pod.exit_reason == "OOMKilled":
        text = "the worker used more memory than its limit; raise it in spec.podTemplate"
        return Problem(reason="OOMKilled", message=text, lasting=lasting)
    text = (
        f"the worker has crashed {pod.restarts + 1} times, last with exit code "
        f"{pod.exit_code}: {last}"
    )
    return Problem(reason="WorkerCrashed", message=one_line(text), lasting=lasting)
