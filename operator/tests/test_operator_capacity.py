"""Slots: never more than the limit, the oldest first, and a position in line that is true."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.eventually import eventually
from support.observed import job

from orbiter_operator.kube.client import ApiError
from orbiter_operator.kube.names import Key
from orbiter_operator.tasks.capacity import Capacity, Kueue


@pytest.fixture
def capacity() -> Capacity:
    return Capacity(lambda namespace: 2)


def test_there_are_free_slots_until_the_limit_is_reached(capacity):
    assert capacity.slots("team", "a", 1.0).free
    capacity.take("team", "a")
    capacity.take("team", "b")
    slots = capacity.slots("team", "c", 3.0)
    assert (slots.free, slots.position, slots.waiting, slots.running, slots.limit) == (
        False,
        1,
        1,
        2,
        2,
    )


def test_who_has_a_slot_keeps_it(capacity):
    capacity.take("team", "a")
    capacity.take("team", "b")
    assert capacity.slots("team", "a", 1.0).free


def test_other_namespaces_have_slots_of_their_own(capacity):
    capacity.take("team", "a")
    capacity.take("team", "b")
    assert capacity.slots("other", "c", 3.0).free


def test_the_oldest_is_next_whoever_came_first(capacity):
    capacity.take("team", "a")
    capacity.take("team", "b")
    capacity.wait("team", "late", 9.0)
    capacity.wait("team", "early", 5.0)
    assert capacity.slots("team", "late", 9.0).position == 2
    capacity.leave("team", "a")
    assert capacity.next_up("team") == ["early"]
    assert not capacity.slots("team", "late", 9.0).free
    assert capacity.slots("team", "early", 5.0).free


def test_a_newcomer_does_not_overtake_those_in_line(capacity):
    capacity.take("team", "a")
    capacity.wait("team", "early", 5.0)
    assert not capacity.slots("team", "newcomer", 6.0).free


def test_what_waits_is_not_free_slots(capacity):
    assert capacity.free_slots("team") == 2
    capacity.take("team", "a")
    capacity.wait("team", "b", 1.0)
    assert capacity.free_slots("team") == 0


def test_the_totals_count_all_namespaces(capacity):
    capacity.take("team", "a")
    capacity.take("other", "b")
    capacity.wait("team", "c", 1.0)
    assert capacity.totals() == (2, 1)


@given(st.lists(st.tuples(st.sampled_from(["take", "leave"]), st.integers(0, 8)), max_size=60))
def test_whoever_asks_before_taking_never_exceeds_the_limit(moves):
    capacity = Capacity(lambda namespace: 2)
    for move, number in moves:
        name = f"t{number}"
        if move == "leave":
            capacity.leave("team", name)
        elif capacity.slots("team", name, float(number)).free:
            capacity.take("team", name)
        else:
            capacity.wait("team", name, float(number))
        running, _ = capacity.totals()
        assert running <= 2


@pytest.mark.integration
async def test_a_deleted_task_that_a_finalizer_keeps_is_stopped_before_its_slot_is_free(world):
    await world.start_operator(max_concurrent_jobs=1)
    world.apply("kept", "hang")
    await world.until("kept", "Running")
    deleted = {"finalizers": ["example.com/keep"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    world.api.patch("agenttasks", "team", "kept", {"metadata": deleted})
    world.apply("next")
    await world.until("next", "Completed")
    assert world.node.most_at_once == 1
    assert world.api.get("jobs", "team", "kept-1") is None


@pytest.mark.integration
async def test_a_task_has_one_pod_at_a_time_whatever_its_status_says_of_attempts(world):
    await world.start_operator(max_concurrent_jobs=1)
    world.apply("fix", "hang")
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    started = {"type": "Started", "status": "False", "reason": "X", "message": "", **since}
    between = {"phase": "Pending", "result": {"status": "failed"}, "conditions": [started]}
    for attempt in (1, 8, 18):
        await eventually(lambda attempt=attempt: world.status("fix").get("attempts") == attempt)
        await world.until("fix", "Running")
        forged = between | {"attempts": attempt + (6 if attempt == 1 else 9)}
        world.api.patch("agenttasks", "team", "fix", {"status": forged})
    await eventually(lambda: world.status("fix").get("attempts") == 28)
    assert world.node.most_at_once == 1


def test_the_highest_priority_is_next_and_of_equal_ones_the_oldest(capacity):
    capacity.take("team", "a")
    capacity.take("team", "b")
    capacity.wait("team", "old", 1.0)
    capacity.wait("team", "urgent", 9.0, 5)
    capacity.wait("team", "urgent too", 7.0, 5)
    capacity.wait("team", "whenever", 0.0, -1)
    capacity.leave("team", "a")
    assert capacity.next_up("team") == ["urgent too"]
    assert capacity.slots("team", "old", 1.0).position == 3
    capacity.wait("team", "old", 1.0, 6)
    assert capacity.next_up("team") == ["old"]


HELD = job(state="suspended", queue="team")
FIX = Key("team", "fix")


class Workloads:
    """An API server that is asked for Kueue's Workloads: objects, or the status it refuses with."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.selectors: list[str] = []
        self.now = 100.0

    async def list(self, resource: Any, namespace: str, *, selector: str) -> Any:
        self.selectors.append(selector)
        answer = self.answers[resource.prefix.rpartition("/")[2]]
        if isinstance(answer, int):
            raise ApiError(answer, "Refused", "no")
        if isinstance(answer, Exception):
            raise answer
        return answer, "1"

    def kueue(self) -> Kueue:
        api: Any = self
        return Kueue(api, lambda: self.now)


def workload(status: str = "False", message: Any = "no quota", **more: Any) -> dict[str, Any]:
    reserved = {"type": "QuotaReserved", "status": status, "message": message}
    return {"status": {"conditions": [reserved]}} | more


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (workload(), "no quota"),
        (workload(message="a\n" * 900), ("a " * 150)[:299] + "…"),
        (workload("True"), "quota is reserved, an admission check is not ready yet"),
        (workload(spec={"active": False}), "its Workload is not active: "),
        ({}, ""),
        ({"status": {"conditions": [7, {"type": "QuotaReserved"}]}, "spec": 7}, ""),
        ({"status": {"conditions": 7}}, ""),
        (workload(message=None), ""),
        (workload(message={"a": 1}), "{'a': 1}"),
    ],
)
async def test_what_kueue_says_of_a_job_is_its_workloads_condition(found, said):
    api = Workloads(v1beta2=[found])
    assert await api.kueue().said_of(FIX, (HELD,)) == said
    assert api.selectors == ["kueue.x-k8s.io/job-uid=job-1"]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"v1beta2": 404, "v1beta1": [workload()]}, "no quota"),
        ({"v1beta2": []}, ""),
        ({"v1beta2": 403}, ""),
        ({"v1beta2": 500}, ""),
        ({"v1beta2": OSError("away")}, ""),
        (
            {"v1beta2": 404, "v1beta1": 404},
            "there is no Kueue in this cluster; install it, or leave queueName out",
        ),
    ],
)
async def test_a_kueue_that_cannot_be_asked_holds_nothing_up(answers, said):
    assert await Workloads(**answers).kueue().said_of(FIX, (HELD,)) == said


@pytest.mark.parametrize("jobs", [(), (job(),), (job(state="suspended"),)])
async def test_kueue_is_not_asked_of_a_job_that_it_does_not_hold(jobs):
    api = Workloads()
    assert await api.kueue().said_of(FIX, jobs) == ""
    assert api.selectors == []


async def test_kueue_is_asked_again_after_a_while_and_at_once_of_another_job():
    api = Workloads(v1beta2=[workload()])
    kueue = api.kueue()
    for passed, asked in ((0, 1), (7.9, 1), (0.2, 2)):
        api.now += passed
        await kueue.said_of(FIX, (HELD,))
        assert len(api.selectors) == asked
    await kueue.said_of(FIX, (HELD.model_copy(update={"uid": "job-2"}),))
    assert len(api.selectors) == 3
    kueue.forget(FIX)
    await kueue.said_of(FIX, (HELD,))
    assert len(api.selectors) == 4


async def test_a_long_queue_costs_kueue_ten_requests_a_second():
    api = Workloads(v1beta2=[workload()])
    kueue = api.kueue()
    keys = [Key("team", str(number)) for number in range(1000)]
    for _ in range(11):
        for key in keys:
            await kueue.said_of(key, (HELD,))
        api.now += 10
    assert len(api.selectors) == 2000
