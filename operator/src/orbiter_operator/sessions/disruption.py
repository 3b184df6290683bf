"""How often the cluster has taken a session's pod away, and what it did last. Pure.

Only what the pods show is a disruption: the condition DisruptionTarget, a node that is gone, or a
pod that somebody deleted and its ReplicaSet has replaced. One that ended because its session sleeps
or has another pod template is none, and neither is one that vanishes at once (`--force`), which no
pod shows. The conversation goes on in the next pod whether it is counted or not.
"""

from datetime import datetime

from orbiter_contracts.bounds import one_line
from orbiter_operator.kube.models import Event
from orbiter_operator.pods.reasons import Explanation, node_lost, pod_taken, says_node_lost
from orbiter_operator.pods.state import PodState
from orbiter_operator.sessions.models import Disruption, ObservedSession, SessionStatus

_SHOWN = 400


def counted(observed: ObservedSession, now: datetime) -> dict[str, object]:
    """What changes in the status: nothing, or the count and the last disruption.

    A pod counts once, in whatever order things are seen: those that are older than the last one
    counted are behind it.
    """
    last = observed.status.last_disruption
    if not observed.replicas:
        return {}
    found = [
        (pod, why)
        for pod in sorted(observed.pods, key=lambda pod: pod.created)
        if (last is None or pod.created > last.pod_creation_time)
        and (why := _why(observed, pod, now))
    ]
    if not found:
        return {}
    pod, why = found[-1]
    latest = Disruption(
        time=now.replace(microsecond=now.microsecond // 1000 * 1000),
        reason=why.reason,
        message=one_line(why.message, _SHOWN),
        pod_name=pod.name,
        pod_creation_time=pod.created,
    )
    return {
        "disruptions": (observed.status.disruptions or 0) + len(found),
        "last_disruption": latest,
    }


def _why(observed: ObservedSession, pod: PodState, now: datetime) -> Explanation | None:
    if not pod.began:
        return None
    if pod.lost(now):
        return node_lost(pod)
    if pod.disruption or says_node_lost(pod):
        # The condition alone is an intention: who preempts may find another place.
        return pod_taken(pod) if pod.deleted_at or pod.over else None
    replaced = any(
        other.replica_set == pod.replica_set and other.created > pod.created
        for other in observed.pods
    )
    return pod_taken(pod) if pod.deleted_at and replaced else None


def disrupted(observed: ObservedSession, status: SessionStatus) -> tuple[Event, ...]:
    """The Event that tells a disruption which was counted."""
    count, last = status.disruptions or 0, status.last_disruption
    if last is None or count <= (observed.status.disruptions or 0):
        return ()
    goes_on = "the conversation goes on in the next pod"
    if observed.spec.persistence.type == "None":
        goes_on = "the next pod has forgotten the conversation (spec.persistence.type is None)"
    message = f"disruption {count}: {last.message}; {goes_on}"
    return (Event(kind="Normal", reason=last.reason, message=message, attempt=count),)
