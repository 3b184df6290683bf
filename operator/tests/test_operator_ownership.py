"""Objects that carry the operator's labels and are not its own: they count for nothing."""

from datetime import UTC, datetime
from typing import Any

import pytest
from support.eventually import eventually
from support.observed import observed, spec
from support.running_sessions import running_sessions
from support.talks import Talks

from orbiter_contracts.queues import BARE, Keys
from orbiter_operator.kube.cache import Children
from orbiter_operator.kube.names import Key, task_name
from orbiter_operator.sessions.models import deployment_of_session, pod_of_session
from orbiter_operator.streams.pending_outputs import AttemptRecord, PendingOutputs
from orbiter_operator.tasks import observed as observed_module
from orbiter_operator.tasks.cache import job_of_attempt, pod_of_attempt

MANAGED = {"app.kubernetes.io/managed-by": "orbiter"}
TASK = Key("team", "fix")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def child(owner: dict[str, Any], name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": f"uid-of-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {},
        "status": {},
    }


def of_task(attempt: str = "2") -> dict[str, str]:
    name = {"orbiter.dev/agenttask": "fix", "orbiter.dev/agenttask-uid": "u"}
    return name | {"orbiter.dev/attempt": attempt}


def owned(kind: str, name: str, **reference: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "uid": "o", "controller": True, **reference}


OF_SESSION = {"orbiter.dev/posession": "alice", "orbiter.dev/posession-uid": "s"}
OURS = {
    "job": (job_of_attempt, child(owned("AgentTask", "fix"), "fix-2", of_task())),
    "pod": (pod_of_attempt, child(owned("Job", "fix-2"), "fix-2-abcde", of_task())),
    "deployment": (deployment_of_session, child(owned("POSession", "alice"), "alice", OF_SESSION)),
    "session pod": (
        pod_of_session,
        child(owned("ReplicaSet", "alice-5d4f8c7b9"), "alice-5d4f8c7b9-x", OF_SESSION),
    ),
}


@pytest.mark.parametrize("kind", OURS)
def test_what_we_made_is_ours(kind):
    read, obj = OURS[kind]
    assert read(obj) is not None


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize(
    "reference",
    [{"controller": False}, {"controller": None}, {"kind": "Deployment"}, {"name": "another-2"}],
    ids=str,
)
def test_what_our_own_object_does_not_control_is_not_ours(kind, reference):
    read, obj = OURS[kind]
    meta = obj["metadata"] | {
        "ownerReferences": [obj["metadata"]["ownerReferences"][0] | reference]
    }
    assert read(obj | {"metadata": meta}) is None
    assert read(obj | {"metadata": obj["metadata"] | {"ownerReferences": []}}) is None


@pytest.mark.parametrize("kind", OURS)
def test_what_does_not_name_its_object_is_not_ours(kind):
    read, obj = OURS[kind]
    for labels in ({}, None, {"orbiter.dev/attempt": "2"}):
        assert read(obj | {"metadata": obj["metadata"] | {"labels": labels}}) is None


@pytest.mark.parametrize(
    "attempt", ["0", "02", "-1", "1000000", "30000000", "2147483647", "9" * 5000, "²", "٢", "", "x"]
)
def test_an_attempt_is_a_number_from_1_to_999999(attempt):
    job = child(owned("AgentTask", "fix"), f"fix-{attempt}", of_task(attempt))
    assert job_of_attempt(job) is None
    pod = child(owned("Job", f"fix-{attempt}"), "p", of_task(attempt))
    assert pod_of_attempt(pod) is None


def test_an_object_without_the_label_that_names_its_task_is_no_child():
    enqueued: list[Key] = []
    children = Children(lambda obj: pod_of_attempt(OURS["pod"][1]), enqueued.append)
    children.put(child(owned("Job", "fix-2"), "fix-2-abcde", {"orbiter.dev/attempt": "2"}))
    assert enqueued == []


def test_what_is_known_of_a_task_at_its_end_is_forgotten_however_many_attempts_it_had():
    pending = PendingOutputs()
    for attempt in (1, 2, 999_999):
        pending.learn("u", attempt, AttemptRecord(entry="1-0"))
        pending.busy(TASK, attempt, NOW)
    pending.forget(TASK, "u")
    assert [pending.record("u", attempt) for attempt in (1, 2, 999_999)] == [None] * 3
    assert pending.busy_since(TASK, 2, NOW) is None


def test_of_few_attempts_is_kept_that_their_workers_are_busy():
    pending = PendingOutputs()
    for attempt in range(1, 101):
        pending.busy(TASK, attempt, NOW)
    assert [n for n in range(1, 101) if pending.busy_since(TASK, n, NOW)] == list(range(93, 101))


def test_what_is_said_of_a_task_that_does_not_exist_is_not_kept():
    pending = PendingOutputs()
    pending.busy(TASK, 1, NOW)
    pending.nobody(TASK)
    assert pending.busy_since(TASK, 1, NOW) is None


@pytest.mark.integration
async def test_a_job_and_a_pod_that_claim_attempt_30000000_count_for_nothing(world):
    uid = world.apply("fix")["metadata"]["uid"]
    labels = {
        **MANAGED,
        "orbiter.dev/agenttask": "fix",
        "orbiter.dev/agenttask-uid": uid,
        "orbiter.dev/attempt": "30000000",
    }
    for kind in ("jobs", "pods"):
        meta = {"namespace": "team", "name": "fix-30000000", "labels": labels}
        owner = {"apiVersion": "orbiter.dev/v1alpha1", "kind": "AgentTask", "name": "fix"}
        meta["ownerReferences"] = [owner | {"uid": uid, "controller": True}]
        world.api.put(kind, {"metadata": meta, "spec": {}, "status": {"phase": "Running"}})
    await world.start_operator()
    status = await world.until("fix", "Completed")
    assert status["attempts"] == 1


@pytest.mark.integration
async def test_a_job_of_our_name_that_does_not_say_which_task_it_is_of_is_a_name_conflict(world):
    uid = world.apply("evil-j")["metadata"]["uid"]
    owner = {"apiVersion": "orbiter.dev/v1alpha1", "kind": "AgentTask", "name": "evil-j"}
    meta = {
        "namespace": "team",
        "name": "evil-j-1",
        "labels": {**MANAGED, "orbiter.dev/attempt": "1"},
        "ownerReferences": [owner | {"uid": uid, "controller": True}],
    }
    world.api.put("jobs", {"metadata": meta, "spec": {}, "status": {}})
    await world.start_operator()
    status = await world.until_reason("evil-j", "NameConflict")
    assert "Job evil-j-1 exists and is not ours" in status["message"]


@pytest.mark.integration
async def test_a_pod_with_a_sessions_labels_does_not_hold_it_up(world):
    talks = Talks(world.api, world.redis)
    uid = talks.apply("alice")["metadata"]["uid"]
    labels = {**MANAGED, "orbiter.dev/posession": "alice", "orbiter.dev/posession-uid": uid}
    meta = {"namespace": "team", "name": "loose", "labels": labels}
    world.api.put("pods", {"metadata": meta, "spec": {}, "status": {"phase": "Running"}})
    async with running_sessions(world.api, world.server):
        await talks.send("alice")
        assert await talks.answered("alice") == ["re: hello"]


@pytest.mark.integration
@pytest.mark.parametrize("label", ["orbiter.dev/posession-uid", "app.kubernetes.io/managed-by"])
async def test_a_template_with_a_label_of_ours_is_refused(world, label):
    await world.start_operator()
    world.apply("thief", podTemplate={"metadata": {"labels": {label: "s"}}})
    status = await world.until("thief", "Failed")
    assert status["reason"] == "InvalidSpec"
    assert f"spec.podTemplate.metadata.labels[{label}] is 's'" in status["message"]
    await eventually(lambda: not world.api.objects["jobs"])


@pytest.mark.integration
@pytest.mark.parametrize(
    "forged",
    [
        {"inputRequest": {}, "result": {}},
        {"attempts": 2**31 - 1, "phase": "Pending", "result": {"status": "failed"}},
        {"attempts": -5, "startTime": "9999-12-31T23:59:59-14:00"},
    ],
    ids=str,
)
async def test_a_task_is_done_and_deleted_whatever_its_status_said_before(world, forged):
    """What cannot be read kept a deleted task, with its spec, in memory for good."""
    operator = await world.start_operator()
    for name, more in (("fix", {}), ("waits", {"dependsOn": ["nobody"]})):
        meta = {"name": name, "namespace": "team"}
        whole = {"prompt": "ok", "agent": {"type": "claude"}, **more}
        world.api.put("agenttasks", {"metadata": meta, "spec": whole, "status": dict(forged)})
    assert (await world.until("fix", "Completed"))["attempts"] == 1
    await world.until_reason("waits", "DependencyMissing")
    for name in ("fix", "waits"):
        world.api.remove("agenttasks", "team", name)
    world.apply("fix", "ok again")
    await world.until("fix", "Completed")
    assert "reconcile failed" not in operator.log.read_text()


async def entry_of_another(world, keys, **status):
    """An entry of a task elsewhere, and a task that has it to its name. Returns both names."""
    spec = {"prompt": "ok", "agent": {"type": "claude"}}
    meta = {"namespace": "other", "name": "legacy"}
    waits = spec | {"dependsOn": ["nobody"]}
    legacy = world.api.put("agenttasks", {"metadata": meta, "spec": waits})
    routing = {"agenttask": "other/legacy", "attempt": "1"}
    theirs = await world.redis.xadd(BARE.developer_input, {"data": "{}", **routing})
    await world.redis.hset(BARE.attempt_record(legacy["metadata"]["uid"], 1), "entry", theirs)
    name = task_name(theirs, keys)
    entry = {"orbiter.dev/entry": theirs, "orbiter.dev/request-id": "request-of-another"}
    meta = {"namespace": "team", "name": name, "annotations": entry}
    began = {"phase": "Running", "attempts": 1, **status}
    world.api.put("agenttasks", {"metadata": meta, "spec": spec, "status": began})
    return theirs, name


@pytest.mark.integration
async def test_a_status_that_names_streams_of_all_speaks_in_its_own_namespace_alone(world):
    await world.start_operator(key_prefixes=True)
    own = Keys.of_namespace("team")
    theirs, name = await entry_of_another(world, own, inputStream=BARE.developer_input)
    await world.until(name, "Failed")
    assert await world.redis.xlen(own.developer_output) == 1
    assert not await world.redis.xlen(BARE.developer_output)
    assert [held for held, _ in await world.redis.xrange(BARE.developer_input)] == [theirs]


@pytest.mark.integration
async def test_an_entry_of_another_task_stays_whatever_a_status_says_of_attempts(world):
    await world.start_operator(adopt_namespace="team")
    theirs, name = await entry_of_another(world, BARE)
    await world.until(name, "Failed")
    assert [held for held, _ in await world.redis.xrange(BARE.developer_input)] == [theirs]


def test_answers_are_looked_for_among_the_attempts_there_can_be_whatever_the_number(monkeypatch):
    asked = []

    def message_id(seen, number):
        asked.append(number)
        return "no"

    monkeypatch.setattr(observed_module, "message_id", message_id)
    seen = observed(spec=spec(input=[{"id": "x", "text": "main"}], retry={"limit": 2}))
    assert observed_module.failures_before(seen, 999_999) == 999_998
    assert asked == [1, 2, 3, 4]
