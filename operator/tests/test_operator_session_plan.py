"""What is decided about a session: when it wakes, when it may sleep, and what it says of itself."""

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry
from support.kstatus import kstatus

from orbiter_contracts import POState
from orbiter_contracts.exit_codes import name_in_use
from orbiter_contracts.skills import FetchedSkill
from orbiter_operator.kube.models import Refusal
from orbiter_operator.kube.names import Key
from orbiter_operator.pods.state import PodState
from orbiter_operator.sessions.metrics import SessionMetrics
from orbiter_operator.sessions.models import (
    DeploymentState,
    ObservedSession,
    QueueState,
    Rival,
    SessionSpec,
    SessionStatus,
)
from orbiter_operator.sessions.plan import Apply, Dismiss, SetReplicas, plan_session

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UID = "9f1c"
KEY = Key("team", "alice")
PATIENCE = timedelta(minutes=5)
IDLE = 900
IN_USE = f"worker-wrapper: {name_in_use('at.alice', 'node-1')}"


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def queue(**fields):
    return QueueState(**{"message_at": ago(10), **fields})


def pod(**fields):
    base = {"name": "alice-x", "owner": UID, "created": ago(60), "node": "n", "phase": "Running"}
    return PodState(**base | fields)


def deployment(replicas):
    return DeploymentState(name="alice", uid="d", owner=UID, replicas=replicas, template="t")


def session(replicas=0, *pods, spec=None, status=None, **fields):
    return ObservedSession(
        **{
            "namespace": "team",
            "name": "alice",
            "uid": UID,
            "generation": 1,
            "created": ago(86400),
            "worker_id": "team.alice",
            "spec": SessionSpec.model_validate({"userId": 7, **(spec or {})}),
            "status": SessionStatus.model_validate(status or {}),
            "template": "t",
            "deployment": deployment(replicas),
            "pods": pods,
            "queue": queue(),
            **fields,
        }
    )


def decide(observed, now=NOW):
    return plan_session(observed, now, image_patience=PATIENCE)


def running(**fields):
    return pod(running_since=ago(50), **fields)


def said(state="ready", **fields):
    return POState(state=state, ready_at=ago(49), **fields)


def available(plan):
    condition = plan.status.condition("Available")
    return condition.status, condition.reason


def test_a_new_session_gets_a_deployment_without_a_pod():
    plan = decide(session(deployment=None, queue=QueueState()))
    assert plan.actions == (Apply(replicas=0, create=True),)
    assert plan.status.phase == "Asleep"
    assert plan.watch == "input"
    assert plan.status.input_stream == "worker:po:team.alice:input"


def test_a_new_session_for_which_a_message_waits_begins_awake():
    plan = decide(session(deployment=None, queue=queue(undelivered=1)))
    assert plan.actions == (Apply(replicas=1, create=True),)
    assert plan.status.phase == "Waking"


@pytest.mark.parametrize(
    "waiting",
    [{"undelivered": 1}, {"pending": 1}, {"undelivered": 3, "pending": 1}],
    ids=["never handed out", "held by a worker that is gone", "both"],
)
def test_a_sleeping_session_wakes_for_any_message_that_is_not_answered(waiting):
    plan = decide(session(queue=queue(**waiting)))
    assert plan.actions == (SetReplicas(replicas=1),)
    assert plan.status.phase == "Waking"
    assert plan.watch == "nothing"


def test_it_is_scaled_at_once_and_its_status_is_written_after_others_have_been_woken_too():
    plan = decide(session(status={"phase": "Asleep"}, queue=queue(undelivered=1)))
    assert plan.actions == (SetReplicas(replicas=1),)
    assert plan.status is None
    assert plan.requeue


def test_it_is_not_woken_while_the_last_pod_still_ends():
    leaving = running(deleted_at=ago(1))
    plan = decide(session(0, leaving, queue=queue(undelivered=1)))
    assert plan.actions == ()
    assert plan.status.phase == "Waking"
    assert plan.requeue_after is not None


def test_it_is_woken_beside_a_pod_whose_node_is_lost():
    plan = decide(session(0, running(deleted_at=ago(600)), queue=queue(undelivered=1)))
    assert plan.actions == (SetReplicas(replicas=1),)


QUIET = {"message_at": ago(IDLE + 1), "answered_at": ago(IDLE + 1)}


def test_it_sleeps_when_it_was_idle_for_long_enough_and_is_observed_once_more():
    plan = decide(session(1, running(), queue=QueueState(**QUIET, state=said())))
    assert plan.actions == (SetReplicas(replicas=0),)
    assert plan.reobserve
    assert plan.status is None


@pytest.mark.parametrize(
    "still",
    [
        {"undelivered": 1},
        {"pending": 1},
        {"state": said("busy")},
        {"message_at": ago(IDLE - 1)},
        {"answered_at": ago(IDLE - 1)},
        {"state": said(last_activity=ago(IDLE - 1))},
    ],
    ids=["undelivered", "pending", "busy", "message", "answer", "activity"],
)
def test_each_of_the_four_conditions_keeps_it_awake(still):
    plan = decide(session(1, running(), queue=QueueState(**QUIET | {"state": said()} | still)))
    assert plan.actions == ()
    assert plan.status.phase in ("Ready", "Busy")


@pytest.mark.parametrize(
    "future",
    [
        {"queue": QueueState(message_at=datetime(2286, 11, 20, tzinfo=UTC))},
        {"queue": QueueState(answered_at=datetime(2286, 11, 20, tzinfo=UTC))},
        {"queue": queue(message_at=ago(4000), state=said(last_activity=ago(-9000)))},
        {"queue": queue(message_at=ago(4000)), "status": {"lastActivityTime": ago(-9000)}},
    ],
    ids=["a message", "an answer", "the worker's word", "the status of before"],
)
def test_a_time_that_is_still_to_come_keeps_no_session_awake(future):
    observed = session(1, running(), **future)
    assert decide(observed).actions == (SetReplicas(replicas=0),)
    known = decide(observed.model_copy(update={"deployment": deployment(0), "pods": ()})).status
    assert known.last_activity_time is None or known.last_activity_time <= NOW


def test_the_last_event_keeps_a_worker_awake_that_keeps_no_state():
    asleep = session(1, running(), queue=QueueState(**QUIET), heard="ready")
    assert decide(asleep).actions == (SetReplicas(replicas=0),)
    assert decide(asleep.model_copy(update={"heard": "busy"})).actions == ()


def test_it_is_requeued_when_it_may_sleep():
    plan = decide(session(1, running(), queue=queue(state=said(), message_at=ago(100))))
    assert plan.requeue_after == pytest.approx(IDLE - 100)


@pytest.mark.parametrize(
    ("observed", "phase"),
    [
        (session(1), "Waking"),
        (session(1, pod(phase="Pending")), "Waking"),
        (session(1, running(), queue=queue(state=POState(state="starting"))), "Ready"),
        (session(1, running(), queue=queue(state=said("starting"))), "Waking"),
        (session(1, running(), queue=queue(state=said().model_copy(update={"ready_at": ago(99)}))),
         "Waking"),
        (session(1, running(), queue=queue(state=said())), "Ready"),
        (session(1, running(), queue=queue(state=said("busy"), pending=1)), "Busy"),
        (session(1, running(), queue=queue(state=said(), undelivered=2)), "Busy"),
        (session(1, running(), queue=queue()), "Ready"),
        (session(0), "Asleep"),
    ],
    ids=[
        "no pod yet", "pod starts", "a worker that keeps no state", "worker starts",
        "the state is the last pod's", "ready", "busy", "busy with the next", "no state", "asleep",
    ],
)  # fmt: skip
def test_the_phase_says_what_it_does(observed, phase):
    assert decide(observed).status.phase == phase


SUSPENDED = {"operatingMode": "Suspended"}


def test_a_suspended_session_ends_its_turn_first():
    busy = queue(pending=1, state=said("busy"))
    plan = decide(session(1, running(), spec=SUSPENDED, queue=busy))
    assert plan.actions == ()
    assert plan.status.phase == "Busy"
    assert available(plan) == ("False", "Suspended")


def test_a_suspended_session_ends_its_turn_however_many_messages_wait():
    busy = queue(pending=1, undelivered=1, state=said("busy"))
    plan = decide(session(1, running(), spec=SUSPENDED, queue=busy))
    assert plan.actions == ()


def test_a_suspended_session_sleeps_after_its_turn_though_messages_wait():
    plan = decide(session(1, running(), spec=SUSPENDED, queue=queue(undelivered=1, state=said())))
    assert plan.actions == (SetReplicas(replicas=0),)


def test_a_suspended_session_keeps_its_messages():
    plan = decide(session(0, spec=SUSPENDED, queue=queue(undelivered=3)))
    assert plan.actions == ()
    assert plan.status.phase == "Suspended"
    assert plan.status.pending_messages == 3
    assert plan.watch == "input"


def test_a_suspended_session_is_busy_until_its_pod_has_ended_its_turn():
    leaving = running(deleted_at=ago(1))
    plan = decide(session(0, leaving, spec=SUSPENDED, queue=queue(pending=1, undelivered=1)))
    assert plan.status.phase == "Busy"


def test_the_newer_session_of_a_user_stays_asleep_and_says_whose_it_is():
    rival = Rival(name="team/older", reason="DuplicateUser", shared="user 7")
    plan = decide(session(queue=queue(undelivered=1), rival=rival))
    assert plan.actions == ()
    assert plan.status.phase == "Asleep"
    assert available(plan) == ("False", "DuplicateUser")
    assert "team/older" in plan.status.condition("Available").message
    assert [event.reason for event in plan.events] == ["DuplicateUser"]


SHARED = Rival(name="team/older", reason="DuplicateUser", shared="user 7")
PULLING = pod(waiting_reason="ImagePullBackOff", waiting_message="no such image")


@pytest.mark.parametrize(
    ("observed", "verdict"),
    [
        (session(0, queue=queue()), "Current"),
        (session(0, queue=queue(undelivered=1)), "Current"),
        (session(0, spec=SUSPENDED, queue=queue()), "Current"),
        (session(0, queue=None, queue_error="Redis is away"), "InProgress"),
        (session(1, PULLING, queue=queue(undelivered=1)), "InProgress"),
        (session(queue=queue(), rival=SHARED), "Failed"),
        (session(deployment=None, spec_error="no worker image for 'x'"), "Failed"),
    ],
)
def test_what_judges_objects_of_any_kind_judges_a_session_rightly(observed, verdict):
    status = decide(observed).status
    assert kstatus(status, observed.generation) == verdict


def test_without_redis_nothing_is_changed():
    for replicas in (0, 1):
        plan = decide(
            session(
                replicas,
                status={"phase": "Ready" if replicas else "Asleep"},
                queue=None,
                queue_error="Redis at redis://x cannot be used: refused",
            )
        )
        assert plan.actions == ()
        assert available(plan) == ("False", "QueueUnavailable")
        assert plan.status.phase == ("Ready" if replicas else "Asleep")


def test_a_spec_that_cannot_be_run_is_failed():
    plan = decide(session(deployment=None, spec_error="no worker image for 'x'"))
    assert plan.actions == ()
    assert plan.status.phase == "Failed"
    assert available(plan) == ("False", "InvalidSpec")


def test_a_refused_deployment_is_failed():
    refusal = Refusal(status=409, reason="NameConflict", message="Deployment alice exists")
    plan = decide(session(deployment=None, queue=queue(undelivered=1), refusal=refusal))
    assert plan.status.phase == "Failed"
    assert available(plan) == ("False", "NameConflict")


@pytest.mark.parametrize(
    ("fields", "phase", "reason"),
    [
        ({"waiting_reason": "ImagePullBackOff", "image": "x"}, "Waking", "ImagePullFailed"),
        (
            {"waiting_reason": "ErrImagePull", "image": "x", "created": ago(600)},
            "Failed",
            "ImagePullFailed",
        ),
        ({"waiting_reason": "InvalidImageName"}, "Failed", "ImagePullFailed"),
        ({"phase": "Pending", "scheduled_at": ago(61)}, "Waking", "ContainerCreating"),
        ({"unschedulable": "0/1 nodes"}, "Waking", "Unschedulable"),
        (
            {
                "waiting_reason": "CreateContainerConfigError",
                "waiting_message": 'secret "x" not found',
            },
            "Waking",
            "SecretMissing",
        ),
        ({"waiting_reason": "CrashLoopBackOff", "restarts": 1}, "Waking", "WorkerCrashed"),
        ({"waiting_reason": "CrashLoopBackOff", "restarts": 3}, "Failed", "WorkerCrashed"),
        (
            {"waiting_reason": "CrashLoopBackOff", "restarts": 3, "exit_reason": "OOMKilled"},
            "Failed",
            "OOMKilled",
        ),
        (
            {"waiting_reason": "CrashLoopBackOff", "exit_code": 2, "exit_message": "K is missing"},
            "Failed",
            "WorkerMisconfigured",
        ),
        (
            {"waiting_reason": "CrashLoopBackOff", "exit_code": 2, "exit_message": IN_USE},
            "Waking",
            "WorkerNameInUse",
        ),
        (
            {
                "waiting_reason": "CrashLoopBackOff",
                "restarts": 3,
                "exit_code": 2,
                "exit_message": IN_USE,
            },
            "Failed",
            "WorkerNameInUse",
        ),
        (
            {
                "waiting_reason": "CrashLoopBackOff",
                "restarts": 9,
                "exit_code": 1,
                "exit_of": "git-skills",
                "exit_message": "no such branch",
            },
            "Waking",
            "SkillsError",
        ),
        (
            {"waiting_reason": "CrashLoopBackOff", "exit_code": 4, "exit_message": "was lost"},
            "Waking",
            "WorkerCrashed",
        ),
    ],
)
def test_a_pod_that_cannot_start_is_explained(fields, phase, reason):
    plan = decide(session(1, pod(**fields), queue=queue(undelivered=1)))
    assert plan.status.phase == phase
    assert available(plan) == ("False", reason)
    assert [event.reason for event in plan.events] == [reason]
    assert plan.actions == ()


def test_the_commits_of_its_skills_are_in_its_status_and_stay_there_while_it_sleeps():
    fetched = (FetchedSkill(name="notes", commit="a" * 40),)
    awake = decide(session(1, running(skills=fetched), queue=queue(undelivered=1)))
    assert awake.status.to_api()["skills"] == [{"name": "notes", "commit": "a" * 40}]
    told = awake.status.to_api()
    assert decide(session(0, status=told)).status.skills == fetched
    assert decide(session(1, pod(), status=told, queue=queue(undelivered=1))).status.skills
    without = decide(session(1, running(), status=told, queue=queue(undelivered=1)))
    assert without.status.skills is None


def test_a_new_template_is_applied_when_the_turn_is_over():
    stale = {"template": "other"}
    busy = session(1, running(), queue=queue(pending=1), **stale)
    assert decide(busy).actions == ()
    ready = session(1, running(), queue=queue(state=said()), **stale)
    assert decide(ready).actions == (Apply(replicas=1, create=False),)
    assert decide(session(0, **stale)).actions == (Apply(replicas=0, create=False),)


def test_a_session_that_leaves_the_keys_of_before_is_put_to_sleep_between_two_turns():
    """Its next worker has other keys, and they are moved while there is none."""
    leaving = {"template": "other", "leaving": True}
    busy = session(1, running(), queue=queue(pending=1), **leaving)
    assert decide(busy).actions == ()
    asked = session(1, running(), queue=queue(state=said(), undelivered=1), **leaving)
    assert decide(asked).actions == ()
    ready = session(1, running(), queue=queue(state=said()), **leaving)
    assert decide(ready).actions == (SetReplicas(replicas=0),)
    broken = session(
        1, pod(waiting_reason="CrashLoopBackOff"), queue=queue(undelivered=1), **leaving
    )
    assert decide(broken).actions == (SetReplicas(replicas=0),)


def test_while_redis_cannot_say_whether_a_turn_goes_on_no_pod_is_replaced():
    """An upgrade restarts Redis, and has a new template for every session, at the same time."""
    away = {"queue": None, "queue_error": "Redis cannot be used: refused", "template": "other"}
    assert decide(session(1, running(), **away)).actions == ()
    assert decide(session(0, **away)).actions == (Apply(replicas=0, create=False),)


def test_a_rotation_is_an_event_once_with_its_reason():
    rotation = {"reason": "Idle", "from": "one", "to": "two", "at": NOW}
    state = said(session_id="two", rotations=1, rotation=rotation)
    plan = decide(session(1, running(), queue=queue(state=state)))
    [event] = plan.events
    assert (event.reason, event.attempt) == ("SessionRotated", 1)
    assert event.message.startswith("Idle: session two follows one; ")
    assert plan.status.session_id == "two"
    known = plan.status.model_dump(by_alias=True)
    assert decide(session(1, running(), status=known, queue=queue(state=state))).events == ()


def test_reasons_that_a_worker_makes_up_make_no_more_series():
    registry = CollectorRegistry()
    metrics = SessionMetrics(registry)
    reasons = ["Idle", *(f"made-up-{number}" for number in range(500))]
    for number, reason in enumerate(reasons):
        rotation = {"reason": reason, "to": "two", "at": NOW}
        state = said(session_id="two", rotations=number + 1, rotation=rotation)
        observed = session(1, status={"rotations": number}, queue=queue(state=state))
        metrics.changed(KEY, observed, SessionStatus(rotations=number + 1))
    shown = {
        labels["reason"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name.endswith("_total") and "reason" in (labels := sample.labels)
    }
    assert shown == {"Idle": 1, "Other": 500}


def test_a_message_that_was_given_up_is_an_event():
    plan = decide(session(queue=queue(dead_letters=1)))
    condition = plan.status.condition("DeadLetters")
    assert (condition.status, condition.reason) == ("True", "MessagesGivenUp")
    assert "worker:po:team.alice:input:dead" in condition.message
    assert [event.reason for event in plan.events] == ["MessageGivenUp"]


@pytest.mark.parametrize(
    ("spec", "snapshot", "expected"),
    [
        ({}, None, ("Unknown", "NothingYet")),
        ({}, {"stored": True, "bytes": 1000}, ("True", "SnapshotStored")),
        (
            {},
            {"stored": False, "reason": "TooLarge", "bytes": 9, "limit": 8},
            ("False", "SnapshotTooLarge"),
        ),
        ({"persistence": {"type": "None"}}, None, ("False", "Disabled")),
        (
            {
                "persistence": {
                    "type": "PersistentVolumeClaim",
                    "persistentVolumeClaim": {"claimName": "memory"},
                }
            },
            None,
            ("True", "VolumeMounted"),
        ),
    ],
)
def test_whether_the_conversation_is_kept_is_a_condition(spec, snapshot, expected):
    plan = decide(session(spec=spec, queue=queue(state=said(snapshot=snapshot))))
    condition = plan.status.condition("Persisted")
    assert (condition.status, condition.reason) == expected


def test_what_it_has_cost_never_goes_back():
    state = said(turns=2, input_tokens=20, cost_usd=0.5)
    first = decide(session(1, running(), queue=queue(state=state))).status
    emptied = session(
        1, running(), status=first.model_dump(by_alias=True), queue=queue(state=said(turns=1))
    )
    status = decide(emptied).status
    assert (status.turns, status.usage.input_tokens, status.usage.cost_usd) == (2, 20, 0.5)


def test_a_second_observation_changes_nothing():
    observed = session(1, running(), queue=queue(state=said(turns=3)))
    status = decide(observed).status
    again = observed.model_copy(update={"status": status})
    later = decide(again, NOW + timedelta(seconds=5))
    assert later.status == status
    assert later.events == ()


@pytest.mark.parametrize(
    ("observed", "phase"),
    [
        (session(), "Asleep"),
        (session(1, running(), queue=queue(state=said())), "Ready"),
        (session(queue=queue(undelivered=1), deployment=None), "Waking"),
    ],
)
def test_a_session_to_which_nobody_may_send_is_not_available_and_answers_what_is_there(
    observed, phase
):
    without = decide(observed)
    plan = decide(observed.model_copy(update={"over_quota": "too many bytes"}))
    assert (plan.status.phase, plan.actions) == (phase, without.actions)
    assert available(without) == ("True", "AsExpected")
    assert available(plan) == ("False", "RedisQuotaExceeded")
    assert plan.status.condition("Available").message == "too many bytes"
    assert "RedisQuotaExceeded" in [event.reason for event in plan.events]


NOT_SERVED = "workers need a label: kubectl label namespace team tenant=yes"


def test_where_no_worker_may_run_no_deployment_is_made_and_the_condition_says_why():
    decision = decide(session(deployment=None, queue=queue(undelivered=1), not_served=NOT_SERVED))
    assert decision.actions == ()
    assert available(decision) == ("False", "NamespaceNotServed")
    assert decision.status.condition("Available").message == NOT_SERVED


def test_a_session_asleep_where_no_worker_may_run_any_more_leaves_nothing_there():
    assert decide(session(not_served=NOT_SERVED)).actions == (Dismiss(),)
    ends = session(0, running(), not_served=NOT_SERVED)
    assert decide(ends).actions == ()


def test_a_turn_under_way_where_no_worker_may_run_any_more_ends_first():
    busy = session(1, running(), queue=queue(pending=1, state=said("busy")), not_served=NOT_SERVED)
    assert decide(busy).actions == ()
    assert decide(busy).status.phase == "Busy"
    idle = session(1, running(), queue=queue(state=said()), not_served=NOT_SERVED)
    assert decide(idle).actions == (SetReplicas(replicas=0),)
