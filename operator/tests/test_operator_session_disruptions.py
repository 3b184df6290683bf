"""What counts as a disruption of a session, that it counts once, and what is told of it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter_operator.pods.state import PodState
from orbiter_operator.sessions.disruption import counted
from orbiter_operator.sessions.models import (
    DeploymentState,
    ObservedSession,
    QueueState,
    SessionSpec,
    SessionStatus,
    pod_of_session,
)
from orbiter_operator.sessions.plan import plan_session

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UID = "9f1c"


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def pod(name, age, **fields):
    base = {"name": name, "owner": UID, "created": ago(age), "node": "n", "phase": "Running"}
    return PodState(**base | {"running_since": ago(age - 1), "replica_set": "alice-1"} | fields)


def evicted(name="alice-a", age=100, **fields):
    taken = {"disruption": "EvictionByEvictionAPI", "deleted_at": NOW + timedelta(seconds=30)}
    return pod(name, age, **taken | fields)


def session(*pods, replicas=1, status=None, **spec):
    return ObservedSession(
        namespace="team",
        name="alice",
        uid=UID,
        generation=1,
        created=ago(86400),
        worker_id="team.alice",
        spec=SessionSpec.model_validate({"userId": 7, **spec}),
        status=status or SessionStatus(),
        template="t",
        deployment=DeploymentState(
            name="alice", uid="d", owner=UID, replicas=replicas, template="t"
        ),
        pods=pods,
        queue=QueueState(message_at=ago(10)),
    )


def decide(observed, now=NOW):
    return plan_session(observed, now, image_patience=timedelta(minutes=5))


def test_an_evicted_pod_is_counted_once_and_told_by_an_event():
    observed = session(evicted(), pod("alice-b", 5))
    plan = decide(observed)
    assert plan.status.disruptions == 1
    last = plan.status.last_disruption
    assert (last.reason, last.pod_name, last.time) == ("Evicted", "alice-a", NOW)
    [event] = plan.events
    assert (event.kind, event.reason, event.attempt) == ("Normal", "Evicted", 1)
    assert event.message == (
        "disruption 1: pod alice-a was evicted: EvictionByEvictionAPI; "
        "the conversation goes on in the next pod"
    )
    for left in (observed.pods, observed.pods[1:]):
        again = decide(session(*left, status=plan.status))
        assert again.events == ()
        assert again.status.disruptions == 1


def test_the_status_survives_the_api_server():
    status = decide(session(evicted())).status
    written = status.model_dump(by_alias=True, mode="json", exclude_none=True)
    assert written["lastDisruption"]["podCreationTime"] == "2026-03-01T11:58:20.000Z"
    assert SessionStatus.model_validate(written) == status


def test_a_conversation_that_nobody_keeps_is_said_to_be_forgotten():
    [event] = decide(session(evicted(), persistence={"type": "None"})).events
    assert event.message.endswith(
        "the next pod has forgotten the conversation (spec.persistence.type is None)"
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"disruption": "DeletionByTaintManager"}, "NodeLost"),
        ({"disruption": "PreemptionByScheduler"}, "Evicted"),
        ({"deleted_at": ago(60), "disruption": ""}, "NodeLost"),
        (
            {"disruption": "", "deleted_at": None, "phase": "Failed", "reason": "Shutdown"},
            "NodeLost",
        ),
    ],
)
def test_what_pod_and_node_say_is_the_reason(fields, reason):
    assert counted(session(evicted(**fields)), NOW)["last_disruption"].reason == reason


@pytest.mark.parametrize(
    "taken",
    [
        evicted(running_since=None),  # its worker had not begun
        evicted(deleted_at=None),  # preemption found another place
        pod("alice-a", 100, deleted_at=NOW),  # a new template, perhaps
        pod("alice-a", 100, phase="Failed", exit_code=137, exit_reason="OOMKilled"),
    ],
)
def test_what_is_no_disruption_is_not_counted(taken):
    assert counted(session(taken), NOW) == {}


def test_a_deleted_pod_counts_when_its_own_replica_set_has_replaced_it():
    deleted = pod("alice-a", 100, deleted_at=NOW)
    found = counted(session(deleted, pod("alice-b", 1)), NOW)
    assert found["last_disruption"].reason == "PodDeleted"
    assert counted(session(deleted, pod("alice-b", 1, replica_set="alice-2")), NOW) == {}


def test_a_pod_that_ends_because_its_session_sleeps_is_no_disruption():
    assert counted(session(evicted(), replicas=0), NOW) == {}


def test_a_worker_that_ends_by_itself_buys_nothing():
    crashed = pod("alice-a", 100, phase="Failed", exit_code=143)
    assert counted(session(crashed, pod("alice-b", 1)), NOW) == {}


@given(st.lists(st.sets(st.integers(0, 5)), max_size=12))
def test_whatever_is_seen_when_each_pod_counts_at_most_once(seen):
    """Pods of lost nodes stay for minutes, and those behind them may go before."""
    pods = [evicted(f"alice-{n}", 100 - n) for n in range(6)]
    status = SessionStatus()
    for shown in seen:
        found = counted(session(*(pods[n] for n in sorted(shown)), status=status), NOW)
        status = status.model_copy(update=found)
    most = len(set().union(*seen)) if seen else 0
    assert (status.disruptions or 0) <= most
    if any(seen):
        assert status.last_disruption.pod_name == f"alice-{max(set().union(*seen))}"


def test_a_pod_knows_its_replica_set():
    owner = {"kind": "ReplicaSet", "name": "alice-1", "uid": "r", "controller": True}
    labels = {"orbiter.dev/posession": "alice", "orbiter.dev/posession-uid": UID}
    meta = {
        "name": "alice-1-x",
        "labels": labels,
        "ownerReferences": [{"apiVersion": "apps/v1", **owner}],
        "creationTimestamp": "2026-03-01T12:00:00Z",
    }
    assert pod_of_session({"metadata": meta}).replica_set == "alice-1"
