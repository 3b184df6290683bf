"""What holds for every session, whatever its pods, its streams and its spec are like."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from orbiter_contracts import POState
from orbiter_operator.pods.state import PodState
from orbiter_operator.sessions.models import (
    DeploymentState,
    ObservedSession,
    QueueState,
    Rival,
    SessionSpec,
    SessionStatus,
)
from orbiter_operator.sessions.plan import Apply, SetReplicas, is_busy, plan_session
from orbiter_operator.sessions.status import last_activity

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PATIENCE = timedelta(minutes=5)
times = st.integers(0, 2000).map(lambda seconds: NOW - timedelta(seconds=seconds))
maybe = st.one_of(st.none(), times)

states = st.builds(
    POState,
    state=st.sampled_from(["starting", "ready", "busy", "stopped"]),
    ready_at=maybe,
    last_activity=maybe,
    turns=st.integers(0, 5),
    rotations=st.integers(0, 2),
)
queues = st.builds(
    QueueState,
    undelivered=st.integers(0, 2),
    pending=st.integers(0, 1),
    message_at=maybe,
    answered_at=maybe,
    dead_letters=st.integers(0, 1),
    state=st.one_of(st.none(), states),
)
pods = st.builds(
    PodState,
    name=st.just("alice-x"),
    owner=st.just("uid"),
    created=times,
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
    deleted_at=maybe,
    running_since=maybe,
    waiting_reason=st.sampled_from(["", "ImagePullBackOff", "CrashLoopBackOff"]),
    restarts=st.integers(0, 4),
    unschedulable=st.one_of(st.none(), st.just("0/1 nodes")),
)
deployments = st.builds(
    DeploymentState,
    name=st.just("alice"),
    uid=st.just("d"),
    owner=st.just("uid"),
    replicas=st.integers(0, 1),
    template=st.sampled_from(["t", "old"]),
)
specs = st.builds(
    SessionSpec,
    user_id=st.just(1),
    operating_mode=st.sampled_from(["Running", "Suspended"]),
)
rivals = st.builds(
    Rival, name=st.just("team/bob"), reason=st.just("DuplicateUser"), shared=st.just("user 1")
)
sessions = st.builds(
    ObservedSession,
    namespace=st.just("team"),
    name=st.just("alice"),
    uid=st.just("uid"),
    generation=st.just(1),
    created=times,
    worker_id=st.just("team.alice"),
    spec=specs,
    spec_error=st.one_of(st.none(), st.just("spec.x: wrong")),
    status=st.just(SessionStatus()),
    template=st.just("t"),
    deployment=st.one_of(st.none(), deployments),
    pods=st.lists(pods, max_size=2).map(tuple),
    queue=st.one_of(st.none(), queues),
    queue_error=st.none(),
    heard=st.sampled_from(["", "ready", "busy"]),
    rival=st.one_of(st.none(), rivals),
    refusal=st.none(),
)


def decide(observed, now=NOW):
    return plan_session(observed, now, image_patience=PATIENCE)


def blocked(observed):
    suspended = observed.spec.operating_mode == "Suspended"
    return suspended or observed.rival or observed.spec_error


def only_action(plan):
    """What is done with the Deployment: one thing at most."""
    assert len(plan.actions) <= 1
    return next(iter(plan.actions), None)


def carried_out(observed):
    """The session after its plan's step, as the cluster would show it."""
    step = only_action(decide(observed))
    if step is None:
        return observed
    old = observed.deployment or DeploymentState(name="alice", uid="d", owner="uid", replicas=0)
    template = observed.template if isinstance(step, Apply) else old.template
    new = old.model_copy(update={"replicas": step.replicas, "template": template})
    return observed.model_copy(update={"deployment": new})


@given(sessions)
def test_no_session_with_work_or_recent_activity_is_put_to_sleep(observed):
    step = only_action(decide(observed))
    if blocked(observed) or not observed.replicas or step is None or step.replicas:
        return
    assert observed.queue is not None, "put to sleep without knowing its streams"
    assert not observed.queue.waiting
    assert not is_busy(observed)
    quiet = NOW - (last_activity(observed, NOW) or observed.created)
    assert quiet >= timedelta(seconds=observed.spec.idle.scale_to_zero_after_seconds)


@given(sessions)
def test_every_message_leads_to_a_worker_or_to_a_reason_why_not(observed):
    plan = decide(observed)
    if observed.queue is None or not observed.queue.waiting or observed.replicas:
        return
    action = only_action(plan)
    if action is not None and action.replicas == 1:
        return
    assert blocked(observed) or any(pod.alive(NOW) for pod in observed.pods)
    if not blocked(observed):
        assert plan.requeue_after is not None


@given(sessions)
def test_no_worker_is_started_beside_one_that_still_ends(observed):
    step = only_action(decide(observed))
    if step is not None and step.replicas and not observed.replicas:
        assert not any(pod.alive(NOW) for pod in observed.pods)


@given(sessions)
def test_a_turn_is_left_to_end(observed):
    step = only_action(decide(observed))
    if observed.replicas and is_busy(observed):
        assert step is None


@given(sessions)
def test_a_sleeping_session_is_watched_and_an_awake_one_has_a_pod(observed):
    plan = decide(observed)
    if plan.status is None:
        assert plan.reobserve or plan.requeue
        return
    assert (plan.watch == "input") == (plan.status.replicas == 0)


@given(sessions)
def test_a_plan_carried_out_leads_to_rest(observed):
    for _ in range(4):
        observed = carried_out(observed)
    assert decide(observed).actions == ()


@given(sessions)
def test_the_same_facts_give_the_same_status_again(observed):
    plan = decide(observed)
    if plan.status is None:
        return
    again = decide(observed.model_copy(update={"status": plan.status}))
    assert again.events == ()
    if again.status is None:
        assert again.requeue  # whoever else has a message comes first
    elif observed.queue is not None:
        assert again.status == plan.status


@given(sessions)
def test_all_conditions_are_always_there_with_a_reason(observed):
    plan = decide(observed)
    if plan.status is None:
        return
    kinds = [condition.type for condition in plan.status.conditions]
    assert kinds[:5] == ["Available", "Awake", "Persisted", "DeadLetters", "Ready"]
    ready = plan.status.condition("Ready").status == "True"
    assert kinds[5:] in ([[]] if ready else [["Reconciling"], ["Stalled"]])
    assert all(condition.reason for condition in plan.status.conditions)


@given(sessions)
def test_replicas_are_never_anything_but_0_and_1(observed):
    step = only_action(decide(observed))
    if isinstance(step, SetReplicas | Apply):
        assert step.replicas in (0, 1)
