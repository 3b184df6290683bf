"""concurrencyKey: one at a time, the oldest first, nobody waits for ever, whatever else happens."""

from datetime import timedelta
from itertools import pairwise

import pytest
from conftest import NAMESPACE
from hypothesis import given, settings
from hypothesis import strategies as st
from support.eventually import eventually
from support.observed import NOW, decide, job, observed, output, pod, record, running, spec

from orbiter_contracts.queues import BARE
from orbiter_operator.kube.names import Key
from orbiter_operator.tasks.capacity import Capacity
from orbiter_operator.tasks.concurrency_keys import ConcurrencyKeys, Place
from orbiter_operator.tasks.models import FINAL, Slots, TaskStatus
from orbiter_operator.tasks.observed import Dependencies
from orbiter_operator.tasks.plan.actions import StartAttempt
from orbiter_operator.tasks.plan.waiting import resolve

KEYED = spec(concurrencyKey="main")


@pytest.fixture
def lines() -> ConcurrencyKeys:
    return ConcurrencyKeys()


def place(name: str, created: float = 1.0) -> Place:
    return Place(created, name, f"uid of {name}")


A, B, C = place("a", 1.0), place("b", 2.0), place("c", 3.0)


def test_the_first_one_has_its_turn_and_the_others_wait_in_the_order_of_their_ages(lines):
    assert lines.before("team", "main", A) == ""
    lines.take("team", "main", A)
    assert lines.before("team", "main", C) == "a"
    lines.wait("team", "main", C)
    assert lines.wait("team", "main", B) == "c"
    assert lines.before("team", "main", C) == "b"
    assert lines.before("team", "main", B) == "a"
    assert lines.leave("team", "a", A.uid) == "b"
    assert lines.before("team", "main", B) == ""
    assert lines.before("team", "main", C) == "b"
    assert lines.leave("team", "b", B.uid) == "c"


def test_other_keys_and_other_namespaces_are_lines_of_their_own(lines):
    lines.take("team", "main", A)
    assert lines.before("team", "other", B) == ""
    assert lines.before("other", "main", B) == ""


def test_a_task_of_the_same_age_goes_by_its_name(lines):
    lines.wait("team", "main", place("a"))
    assert lines.before("team", "main", place("b")) == "a"
    assert lines.before("team", "main", place("a")) == ""


def test_what_is_said_again_changes_nothing(lines):
    lines.take("team", "main", A)
    lines.wait("team", "main", B)
    lines.wait("team", "main", C)
    assert lines.take("team", "main", A) == ""
    assert lines.wait("team", "main", B) == ""
    assert lines.leave("team", "nobody", "") == ""
    assert lines.leave("team", "a", "another uid") == ""


def test_a_new_task_of_the_same_name_waits_for_the_one_before_it(lines):
    lines.take("team", "main", A)
    again = Place(9.0, "a", "uid of another a")
    assert lines.before("team", "main", again) == "a"
    lines.wait("team", "main", again)
    assert lines.of("team", "a") == {A.uid, again.uid}
    assert lines.leave("team", "a", A.uid) == "a"
    assert lines.before("team", "main", again) == ""


def test_a_task_behind_another_says_behind_whom_and_takes_no_slot():
    decision = decide(observed(spec=KEYED, behind="fix-1", slots=Slots(free=False, limit=1)))
    assert (decision.actions, decision.slot, decision.in_line) == ((), "leave", True)
    assert (decision.status.phase, decision.status.reason) == (
        "Pending",
        "WaitingForConcurrencyKey",
    )
    assert (
        decision.status.message
        == "waits for fix-1, which is before it under the same concurrencyKey"
    )
    assert decision.events == ()


def test_a_task_that_stood_in_line_needs_its_dependencies_no_more():
    waited = observed(spec=KEYED, behind="a")
    waited = waited.model_copy(update={"status": decide(waited).status, "behind": ""})
    gone = waited.model_copy(update={"dependencies": Dependencies(missing=("b",))})
    assert isinstance(decide(gone).actions[0], StartAttempt)


ASKED = running(spec=KEYED, **record(output("input_required")))
FAILED = running(spec=spec(concurrencyKey="main", retry={"limit": 1}))


@pytest.mark.parametrize(
    ("task", "has"),
    [
        (observed(spec=KEYED), True),  # it begins now
        (observed(spec=KEYED, jobs=(job(),), pods=(pod(),)), True),
        (running(spec=KEYED), True),
        (ASKED, True),
        (ASKED.model_copy(update={"status": decide(ASKED).status, "jobs": (), "pods": ()}), True),
        (FAILED.model_copy(update=record(output("failed")) | {"jobs": (), "pods": ()}), True),
        # its pod has not left yet
        (running(spec=KEYED, **record(output())), True),
        (
            running(spec=KEYED, **record(output())).model_copy(update={"jobs": (), "pods": ()}),
            False,
        ),
        (observed(spec=KEYED, status=TaskStatus(phase="Completed", attempts=1)), False),
        (observed(spec=KEYED, behind="a"), False),
        (observed(spec=KEYED, slots=Slots(free=False)), False),
        (observed(spec=KEYED, dependencies=Dependencies(waiting=("a",))), False),
        (observed(spec=KEYED, queue_error="away"), False),
        (observed(spec=spec()), False),
        (running(spec=KEYED, deleting=True), True),
        (running(spec=KEYED, deleting=True, jobs=(), pods=()), False),
        (
            observed(
                spec=spec(concurrencyKey="main", managedBy="example.com/x"),
                status=TaskStatus(phase="Running", attempts=1),
            ),
            False,
        ),
    ],
)
def test_a_task_has_its_key_from_its_first_attempt_to_its_end(lines, task, has):
    lines.follow(task, decide(task))
    older = place("older", NOW.timestamp() - 1)
    assert (lines.before("team", "main", older) == "fix") is has


@pytest.mark.parametrize(
    ("task", "stands"),
    [
        (observed(spec=KEYED, behind="a"), True),
        (observed(spec=KEYED, slots=Slots(free=False)), True),
        (observed(spec=KEYED, dependencies=Dependencies(waiting=("a",))), False),
        (observed(spec=KEYED, prompt=None), False),
        (observed(spec=KEYED, over_quota="too much"), False),
        (observed(spec=KEYED, queue_error="away"), False),
        (observed(spec=KEYED.model_copy(update={"desired_state": "Cancelled"})), False),
    ],
)
def test_only_who_could_begin_stands_in_line(lines, task, stands):
    lines.follow(task, decide(task))
    younger = place("next", NOW.timestamp() + 1)
    assert lines.before("team", "main", younger) == ("fix" if stands else "")


class Cluster:
    """Tasks with keys and dependencies, decided on as the operator does, one pass at a time."""

    def __init__(self, tasks):
        self.specs = {
            f"t{n}": spec(
                concurrencyKey=key, dependsOn=[f"t{d}" for d in sorted(depends) if d < len(tasks)]
            )
            for n, (key, depends) in enumerate(tasks)
        }
        self.statuses = {name: TaskStatus() for name in self.specs}
        self.jobs = {}
        self.order = []
        self.start_operator()

    def start_operator(self):
        self.capacity = Capacity(lambda namespace: 2)
        for name in self.specs:
            works = name in self.jobs
            if works:
                self.capacity.take("team", name)
            status = self.statuses[name]
            obj = {
                "metadata": {"creationTimestamp": self.created(name).isoformat(), "uid": name},
                "spec": {"concurrencyKey": self.specs[name].concurrency_key},
                "status": {"phase": status.phase, "attempts": status.attempts},
            }
            self.capacity.concurrency_keys.seed(Key("team", name), obj, works=works)
        self.queue = list(self.specs)

    def created(self, name):
        # two of a second, and a name is no age
        return NOW - timedelta(seconds=int(name[1:]) * 7 % 10 // 2)

    def look(self, name):
        state = {"jobs": (job(name=name),), "pods": (pod(),)} if name in self.jobs else {}
        facts = observed(
            name=name,
            uid=name,
            created=self.created(name),
            spec=self.specs[name],
            status=self.statuses[name],
            dependencies=resolve(
                name,
                lambda one: self.statuses[one].phase or "",
                lambda one: self.specs[one].depends_on,
            ),
            slots=self.capacity.slots("team", name, self.created(name).timestamp()),
            **state,
        )
        facts = facts.model_copy(update={"behind": self.capacity.concurrency_keys.behind(facts)})
        decision = decide(facts)
        match decision.slot:
            case "take":
                self.capacity.take("team", name)
            case "wait":
                self.capacity.wait("team", name, self.created(name).timestamp())
            case "leave":
                self.capacity.leave("team", name)
                self.queue += self.capacity.next_up("team")
        if behind := self.capacity.concurrency_keys.follow(facts, decision):
            self.queue.append(behind)
        if decision.starts:
            self.begins(name)
        if decision.status is not None:
            self.become(name, decision.status)

    def begins(self, name):
        key = self.specs[name].concurrency_key
        if key:
            assert [one for one in self.unfinished(key) if self.statuses[one].attempts] == []
            older = [one for one in self.unfinished(key) if self.age(one) < self.age(name)]
            assert [one for one in older if self.could_begin(one)] == []
        self.jobs[name] = True
        self.order.append(name)

    def become(self, name, status):
        ended = status.phase in FINAL and self.statuses[name].phase != status.phase
        self.statuses[name] = status
        if ended:
            self.queue += [one for one, its in self.specs.items() if name in its.depends_on]

    def unfinished(self, key):
        of_key = (name for name in self.specs if self.specs[name].concurrency_key == key)
        return [name for name in of_key if self.statuses[name].phase not in FINAL]

    def age(self, name):
        return self.created(name), name

    def could_begin(self, name):
        """Whether the operator knows that it waits for its turn only."""
        return self.statuses[name].reason in ("ConcurrencyLimit", "WaitingForConcurrencyKey")

    def end_one(self, number, how):
        name = sorted(self.jobs)[number % len(self.jobs)]
        del self.jobs[name]
        self.become(name, self.statuses[name].model_copy(update={"phase": how}))
        self.queue.append(name)


TASKS = st.lists(
    st.tuples(st.sampled_from(["main", "other", None]), st.sets(st.integers(0, 9), max_size=2)),
    min_size=2,
    max_size=10,
)


@settings(max_examples=300, deadline=None)
@given(TASKS, st.lists(st.integers(0, 99), max_size=60), st.sampled_from([(), (3,), (2, 9)]))
def test_no_history_has_two_of_a_key_or_one_that_waits_for_ever(tasks, choices, restarts):
    cluster = Cluster(tasks)
    picks = iter([*choices, *range(1000)])
    for step in range(1000):
        if step in restarts:
            cluster.start_operator()
        pick = next(picks)
        if cluster.queue and (not cluster.jobs or pick % 3):
            cluster.look(cluster.queue.pop(pick % len(cluster.queue)))
        elif cluster.jobs:
            cluster.end_one(pick, "Failed" if pick % 7 == 0 else "Completed")
        else:
            break
    waiting = {n: s.reason for n, s in cluster.statuses.items() if s.phase not in FINAL}
    assert waiting == {}


@pytest.mark.integration
async def test_tasks_of_a_key_run_one_at_a_time_and_the_oldest_first(world):
    await world.start_operator(max_concurrent_jobs=10)
    for number in range(5):
        world.apply(f"fix-{number}", "ok sleep=0.1", concurrencyKey="agents/fix")
    world.apply("free", "hang")
    status = await world.until_reason("fix-4", "WaitingForConcurrencyKey")
    assert status["message"].startswith("waits for fix-3,")
    assert status["phase"] == "Pending"
    for number in range(5):
        await world.until(f"fix-{number}", "Completed")
    runs = [run for run in world.node.runs if "fix" in run.task]
    assert [run.task for run in runs] == [f"team/fix-{number}" for number in range(5)]
    assert all(first.ended <= second.began for first, second in pairwise(runs))


@pytest.mark.integration
async def test_a_younger_task_that_an_older_one_depends_on_goes_first(world):
    await world.start_operator()
    world.apply("a-second", "ok", concurrencyKey="main", dependsOn=["b-first"])
    await world.until_reason("a-second", "DependencyMissing")
    world.apply("b-first", "ok", concurrencyKey="main")
    await world.until("a-second", "Completed")


@pytest.mark.integration
async def test_a_question_and_a_retry_keep_the_key(world):
    await world.start_operator()
    world.apply("asks", "ask", concurrencyKey="main")
    await world.until("asks", "InputRequired")
    world.apply("waits", "ok", concurrencyKey="main")
    status = await world.until_reason("waits", "WaitingForConcurrencyKey")
    assert "asks" in status["message"]
    question = world.status("asks")["inputRequest"]["id"]
    answer = {"spec": {"input": [{"id": question, "text": "ok sleep=0.2"}]}}
    world.api.patch("agenttasks", NAMESPACE, "asks", answer)
    await world.until("waits", "Completed")
    assert [run.task for run in world.node.runs] == ["team/asks", "team/asks", "team/waits"]


@pytest.mark.integration
async def test_the_line_survives_the_operator(world):
    operator = await world.start_operator()
    world.apply("b-has", "ask", concurrencyKey="main")
    await world.until("b-has", "InputRequired")
    for name in ("a-last", "c-next"):  # as the operator is told of them
        created = "2026-01-02T00:00:00Z" if name == "a-last" else "2026-01-01T00:00:00Z"
        meta = {"name": name, "namespace": NAMESPACE, "creationTimestamp": created}
        task = {"prompt": "ok", "agent": {"type": "claude"}, "concurrencyKey": "main"}
        world.api.put("agenttasks", {"metadata": meta, "spec": task})
        await world.until_reason(name, "WaitingForConcurrencyKey")
    await operator.end()
    cancel = {"spec": {"desiredState": "Cancelled"}}
    world.api.patch("agenttasks", NAMESPACE, "b-has", cancel)
    await world.start_operator()
    await world.until("a-last", "Completed")
    assert [run.task for run in world.node.runs] == ["team/b-has", "team/c-next", "team/a-last"]


@pytest.mark.integration
@pytest.mark.parametrize("name", ["new", "old"])
async def test_a_deleted_task_has_its_key_until_its_pod_is_gone(world, name):
    await world.start_operator()
    world.apply("old", "hang", concurrencyKey="main")
    await world.until("old", "Running")
    (place,) = world.api.objects["pods"]
    held = {"metadata": {"deletionTimestamp": "2126-01-01T00:00:00Z"}}
    world.node.keep_pods = True
    world.api.remove("agenttasks", NAMESPACE, "old")
    world.api.patch("pods", *place, held)

    async def is_seen():
        return await world.redis.xlen(BARE.developer_input) == 0

    await eventually(is_seen)
    world.apply(name, "ok", concurrencyKey="main")
    status = await world.until_reason(name, "WaitingForConcurrencyKey")
    assert status["message"].startswith("waits for old,")
    world.node.keep_pods = False
    world.node.delete_pod(*place)
    await world.until(name, "Completed")
    first, second = world.node.runs
    assert first.ended <= second.began


@pytest.mark.integration
async def test_a_task_that_is_cancelled_in_line_lets_the_next_one_by(world):
    await world.start_operator()
    for name in ("a", "b", "c"):
        world.apply(name, "ok" if name == "c" else "hang", concurrencyKey="main")
    await world.until("a", "Running")
    await world.until_reason("c", "WaitingForConcurrencyKey")
    cancel = {"spec": {"desiredState": "Cancelled"}}
    world.api.patch("agenttasks", NAMESPACE, "b", cancel)
    await eventually(lambda: world.status("c")["message"].startswith("waits for a,"))
    world.api.patch("agenttasks", NAMESPACE, "a", cancel)
    await world.until("c", "Completed")
    assert [run.task for run in world.node.runs] == ["team/a", "team/c"]
