"""Why a worker does not start, and why it ended without an answer: the state of its pod, explained.

Pure. `plan` calls it; the reasons are the ones the README lists. A reason is one CamelCase word for
programs, the message one line for people that names the thing and the next step.
"""

from datetime import datetime, timedelta

from orbiter_contracts.bounds import one_line
from orbiter_contracts.exit_codes import UNUSABLE, says_name_in_use
from orbiter_operator.kube.models import KubeModel
from orbiter_operator.pods import git_skills
from orbiter_operator.pods.state import JobState, PodState
from orbiter_operator.streams.pending_outputs import AttemptRecord

IMAGE_NEVER_COMES = frozenset({"InvalidImageName", "ErrImageNeverPull"})
IMAGE_PROBLEMS = IMAGE_NEVER_COMES | {
    *("ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"),
    "SignatureValidationFailed",
}
CONFIG_PROBLEMS = frozenset({"CreateContainerConfigError", "CreateContainerError"})
NO_POD_AFTER = timedelta(seconds=10)
STARTS_WITHIN = timedelta(seconds=60)  # a kubelet tells in Events alone that a volume is missing
CRASHES_BEFORE_FAILED = 3
"""Restarts after which a worker that waits to be restarted again counts as failed."""
_SIGKILL = 137
_MEMORY = "the worker used more memory than its limit; raise it in spec.podTemplate"
_NODE_SAYS = ("NodeLost", "NodeShutdown", "Shutdown", "Terminated")
"""Reasons of a pod whose node has gone or is shutting down."""


class Explanation(KubeModel):
    """Reason and message; `detail` may have several lines (the end of a log)."""

    reason: str
    message: str
    detail: str = ""


class Problem(Explanation):
    """Why a session's worker does not run.

    A `lasting` one makes the session Failed; it recovers by itself when the cause goes away.
    """

    lasting: bool = False


def why_not_running(
    job: JobState, pods: tuple[PodState, ...], now: datetime, kueue: str = ""
) -> Explanation | None:
    """Explain an attempt whose worker has not started; None when all is as usual.

    Args:
        job: Its Job.
        pods: The Job's pods.
        now: The time.
        kueue: What Kueue says of a Job that waits for it, as far as that is known.
    """
    if job.state == "suspended" and job.queue:
        said = kueue or f"it has not let Job {job.name} in yet"
        text = one_line(f"waits for Kueue, LocalQueue {job.queue}: {said}")
        return Explanation(reason="Suspended", message=text)
    if job.state == "suspended":
        text = f"Job {job.name} is suspended and in no queue of Kueue: who suspended it resumes it"
        return Explanation(reason="Suspended", message=text)
    pod = pods[-1] if pods else None
    if pod is None:
        if now - job.created < NO_POD_AFTER:
            return None
        return Explanation(
            reason="PodNotCreated",
            message=f"Job {job.name} has no pod yet; kubectl describe job {job.name} says why",
        )
    return _why_waiting(pod, now)


def why_not_ready(pod: PodState, now: datetime, patience: timedelta) -> Problem | None:
    """Explain a session's pod whose worker does not run; None when all is as usual.

    Args:
        pod: The pod.
        now: The time.
        patience: How long an image may fail to be pulled before that is a lasting problem.
    """
    if pod.waiting_reason == "CrashLoopBackOff":
        return _crash_loop(pod)
    why = _why_waiting(pod, now)
    if why is None:
        return None
    lasting = pod.waiting_reason in IMAGE_NEVER_COMES
    if pod.waiting_reason in IMAGE_PROBLEMS:
        lasting = lasting or now - pod.created >= patience
    return Problem(reason=why.reason, message=why.message, lasting=lasting)


def _why_waiting(pod: PodState, now: datetime) -> Explanation | None:
    """What keeps a container from being started."""
    if pod.waiting_reason in IMAGE_PROBLEMS:
        return Explanation(
            reason="ImagePullFailed",
            message=one_line(f"image {pod.image} cannot be pulled: {pod.waiting_message}"),
            detail=pod.waiting_message,
        )
    if pod.waiting_reason in CONFIG_PROBLEMS:
        missing = "secret" in pod.waiting_message.lower()
        return Explanation(
            reason="SecretMissing" if missing else "ConfigError",
            message=one_line(f"pod {pod.name} cannot start: {pod.waiting_message}"),
            detail=pod.waiting_message,
        )
    if pod.waiting_reason:
        return Explanation(
            reason=pod.waiting_reason,
            message=one_line(pod.waiting_message or f"pod {pod.name} waits"),
            detail=pod.waiting_message,
        )
    if pod.unschedulable is not None:
        return Explanation(
            reason="Unschedulable",
            message=one_line(pod.unschedulable or "no node takes the pod"),
            detail=pod.unschedulable,
        )
    if pod.starting_since is not None and now - pod.starting_since >= STARTS_WITHIN:
        return Explanation(
            reason="ContainerCreating",
            message=f"pod {pod.name} is not begun yet: a large image, or a volume, Secret or "
            f"ConfigMap that is not there; kubectl describe pod {pod.name} says which",
        )
    return None


def image_is_hopeless(pods: tuple[PodState, ...], now: datetime, patience: timedelta) -> bool:
    """Whether the image will not come: a name that cannot work, or too long a wait."""
    pod = pods[-1] if pods else None
    if pod is None or pod.waiting_reason not in IMAGE_PROBLEMS:
        return False
    if pod.waiting_reason in IMAGE_NEVER_COMES:
        return True
    return pod.waiting_since is not None and now - pod.waiting_since >= patience


def why_ended_silently(
    job: JobState | None, pods: tuple[PodState, ...], record: AttemptRecord
) -> Explanation:
    """Explain an attempt that is over without having published an output."""
    pod = pods[-1] if pods else None
    late = next((it for it in (job, pod) if it and it.reason == "DeadlineExceeded"), None)
    if late is not None:
        return Explanation(
            reason="DeadlineExceeded",
            message="the worker did not end in time and Kubernetes stopped it",
            detail=late.message,
        )
    if pod is not None and (found := _from_pod(pod)):
        return found
    if record.entry is None:
        return Explanation(
            reason="QueueUnavailable",
            message="Redis lost the attempt's entry, and its worker ended without an output",
        )
    if job is None:
        return Explanation(
            reason="WorkerCrashed", message="the attempt's Job was deleted while the worker ran"
        )
    if job.state == "complete":
        return Explanation(
            reason="WorkerCrashed",
            message="the worker ended without publishing an output; so it does when somebody took"
            " its entry off the queue (XDEL, XTRIM)",
        )
    text = job.message or "its pod is gone, nothing says why"
    return Explanation(reason="WorkerCrashed", message=one_line(text), detail=text)


def why_taken(
    job: JobState | None, pods: tuple[PodState, ...], record: AttemptRecord
) -> Explanation | None:
    """Explain an attempt over without an output whose worker the cluster took; None: it did not.

    Pod, Job and Redis say so, and never the worker: an agent can make it say and do anything.
    """
    pod = pods[-1] if pods else None
    if any(it is not None and it.reason == "DeadlineExceeded" for it in (job, pod)):
        return None
    if pod is not None and (pod.taken or pod.over):
        if pod.taken or pod.reason in _NODE_SAYS:
            return None if _out_of_memory(pod) else pod_taken(pod)
        if pod.exit_code != 0:
            return None
    if record.entry is None:
        return Explanation(reason="QueueLost", message="Redis lost the attempt's entry")
    if job is None:
        return Explanation(reason="JobDeleted", message="the attempt's Job was deleted")
    # Job and Kubernetes keep the pod of a worker that ended by itself, however that was.
    if pod is None and (job.state == "complete" or job.reason == "BackoffLimitExceeded"):
        return Explanation(reason="PodDeleted", message=f"the pod of Job {job.name} was deleted")
    return None


def why_replaced(job: JobState, pod: PodState | None, name: str) -> Explanation | None:
    """Explain why a Job that is not over has no longer the pod that worked; None: it has.

    Args:
        job: The Job.
        pod: The pod that worked, as far as it is still there.
        name: Its name.
    """
    if pod is not None:
        return why_leaving(job, pod) if pod.taken else None
    if job.deleting:
        return Explanation(reason="JobDeleted", message=f"Job {job.name} was deleted")
    if job.state == "suspended":
        return _suspended(job)
    # A Job outlives only pods that it ignores (`podFailurePolicy`), all others end it.
    return Explanation(reason="Evicted", message=f"pod {name} was evicted")


def why_leaving(job: JobState, pod: PodState) -> Explanation:
    """Explain a pod that has to leave, or has left, although its worker did not want that."""
    return _suspended(job) if job.state == "suspended" and not pod.disruption else pod_taken(pod)


def _suspended(job: JobState) -> Explanation:
    return Explanation(reason="Suspended", message=f"Job {job.name} was suspended")


def says_node_lost(pod: PodState) -> bool:
    """Whether a pod says that its node has gone or is shutting down."""
    return pod.reason in _NODE_SAYS


def pod_taken(pod: PodState) -> Explanation:
    """Explain a pod that has ended although its worker did not want that."""
    if pod.disruption.startswith("DeletionBy") or pod.reason in _NODE_SAYS:
        where = f"node {pod.node}" if pod.node else "its node"
        return Explanation(reason="NodeLost", message=f"pod {pod.name} was lost with {where}")
    if pod.disruption:
        why = one_line(pod.message or pod.disruption)
        return Explanation(reason="Evicted", message=f"pod {pod.name} was evicted: {why}")
    return Explanation(reason="PodDeleted", message=f"pod {pod.name} was deleted")


def _out_of_memory(pod: PodState) -> bool:
    return pod.exit_reason == "OOMKilled" and not pod.disruption


def _from_pod(pod: PodState) -> Explanation | None:
    detail = pod.exit_message
    if pod.exit_reason == "OOMKilled":
        return Explanation(reason="OOMKilled", message=_MEMORY, detail=detail)
    if pod.reason == "Evicted" or pod.disruption:
        why = pod.message or pod.disruption
        return Explanation(
            reason="Evicted", message=one_line(f"pod {pod.name} was evicted: {why}"), detail=why
        )
    if pod.reason in _NODE_SAYS:
        return node_lost(pod)
    if pod.exit_code is not None and pod.exit_code != 0:
        killed = " (SIGKILL)" if pod.exit_code == _SIGKILL else ""
        last = detail.strip().splitlines()[-1] if detail.strip() else pod.exit_reason
        if own := _own_word(pod):
            return Explanation(reason=own, message=one_line(last), detail=detail)
        return Explanation(
            reason="WorkerCrashed",
            message=one_line(f"the worker ended with exit code {pod.exit_code}{killed}: {last}"),
            detail=detail,
        )
    return None


def _own_word(pod: PodState) -> str | None:
    """The reason that a container's own last words give, where they do."""
    if pod.exit_of == git_skills.CONTAINER:
        return "SkillsError"
    if says_name_in_use(pod.exit_code, pod.exit_message):
        return "WorkerNameInUse"
    return "WorkerMisconfigured" if pod.exit_code == UNUSABLE else None


def node_lost(pod: PodState) -> Explanation:
    """Explain a pod whose node no longer answers."""
    where = f"node {pod.node}" if pod.node else "its node"
    return Explanation(
        reason="NodeLost", message=one_line(f"pod {pod.name} is lost: {where} does not answer")
    )


def _crash_loop(pod: PodState) -> Problem:
    last = [pod.exit_reason or "nothing says why", *pod.exit_message.strip().splitlines()][-1]
    lasting = pod.restarts >= CRASHES_BEFORE_FAILED
    if own := _own_word(pod):
        # Another process may end, a repository answer: the container is started again until then.
        lasting = own == "WorkerMisconfigured" or (own == "WorkerNameInUse" and lasting)
        return Problem(reason=own, message=one_line(last), lasting=lasting)
    if pod.exit_reason == "OOMKilled":
        return Problem(reason="OOMKilled", message=_MEMORY, lasting=lasting)
    text = f"the worker has crashed {pod.restarts + 1} times, last with exit code {pod.exit_code}"
    return Problem(reason="WorkerCrashed", message=one_line(f"{text}: {last}"), lasting=lasting)
