"""Whatever happens in whatever order: what must hold for every history of a task.

A small model of the cluster plays random events against `plan` and carries its plans out, sometimes
only in part, as a crash would.
"""

from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.kstatus import kstatus
from support.observed import NOW, PATIENCE, job, observed, output, pod, spec

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_operator.kube.names import job_name
from orbiter_operator.kube.patches import patch
from orbiter_operator.pods.state import JobState, PodState
from orbiter_operator.streams.pending_outputs import AttemptRecord
from orbiter_operator.tasks.models import FINAL, Answer, TaskStatus
from orbiter_operator.tasks.observed import Observed, Slots, current_attempt, message_id
from orbiter_operator.tasks.plan import plan
from orbiter_operator.tasks.plan.actions import DeleteJob, ForgetSession, Publish, StartAttempt

LIMIT = 2
DISRUPTIONS = 3
EVENTS = [
    "look",
    "look",
    "look",
    "crash while acting",
    "time",
    "pod runs",
    "worker succeeds",
    "worker fails",
    "worker asks",
    "answer",
    "nobody answers",
    "worker dies",
    "job deleted",
    "pod gone",
    "pod evicted",
    "pod evicted and gone",
    "job makes another pod",
    "queue suspends the job",
    "queue lets the job in",
    "image stuck",
    "redis down",
    "redis up",
    "redis flushed",
    "no room",
    "slots",
    "cancel",
]


class Model:
    """The cluster and the queue, as far as one task is concerned."""

    def __init__(self) -> None:
        self.now: datetime = NOW
        self.status = TaskStatus()
        self.spec = spec(
            retry={"limit": LIMIT, "backoffSeconds": 10}, disruption={"limit": DISRUPTIONS}
        )
        self.jobs: dict[int, JobState] = {}
        self.pods: dict[int, PodState] = {}
        self.entries: set[int] = set()
        self.outputs: dict[int, DeveloperWorkerOutput] = {}
        self.published: list[int] = []
        self.redis_up = True
        self.slots = Slots()
        self.started: list[int] = []
        self.made = 0
        self.written: list[TaskStatus] = []

    def observe(self) -> Observed:
        task = observed(
            spec=self.spec,
            status=self.status,
            jobs=tuple(self.jobs[number] for number in sorted(self.jobs)),
            pods=tuple(self.pods[number] for number in sorted(self.pods)),
            slots=self.slots,
        )
        attempt = current_attempt(task)
        if attempt + 1 in self.outputs and attempt + 1 not in self.jobs:
            attempt += 1
        update: dict[str, Any] = {}
        if self.redis_up:
            update["record"] = AttemptRecord(
                entry="1-0" if attempt in self.entries else None,
                output_id="2-0" if attempt in self.outputs else None,
                output=self.outputs.get(attempt),
            )
            update["record_attempt"] = attempt
        else:
            update["queue_error"] = "away"
        return task.model_copy(update=update)

    def reconcile(self, steps_before_crash: int | None = None) -> None:
        for _ in range(8):
            task = self.observe()
            decision = plan(task, self.now, image_patience=PATIENCE)
            for done, step in enumerate(decision.actions):
                if steps_before_crash is not None and done >= steps_before_crash:
                    return
                self.act(step)
            if steps_before_crash is not None:
                return
            if decision.status is not None and patch(self.status, decision.status):
                self.check_write(decision.status)
                self.status = decision.status
            if not decision.reobserve:
                self.check_quiet()
                return
        raise AssertionError("the plan goes in circles")

    def act(self, step: object) -> None:
        match step:
            case StartAttempt(attempt=attempt, prompt=prompt, resume=resume):
                assert self.redis_up
                answers = [item.text for item in self.spec.input]
                assert prompt == (answers[-1] if answers else "do it")
                alive = [number for number, seen in self.pods.items() if seen.alive(self.now)]
                assert not alive, f"attempt {attempt} while {alive} may still work"
                if attempt not in self.outputs:
                    self.entries.add(attempt)
                    name = job_name("fix", attempt, resume)
                    known = self.jobs.get(attempt)
                    if known is None or known.name != name:
                        fields = {"name": name, "resume": resume, "created": self.now}
                        self.jobs[attempt] = job(attempt, **fields)
                        self.new_pod(attempt)
                    self.started.append(attempt)
            case ForgetSession():
                assert self.status.phase in FINAL, "a session that could be continued is gone"
            case Publish(attempt=attempt, output=out):
                assert self.redis_up
                self.publish(attempt, out)
            case DeleteJob(name=name):
                number = int(name.split("-")[1])
                if number in self.jobs and self.jobs[number].name == name:
                    del self.jobs[number]
                if (seen := self.pods.get(number)) is not None and seen.deleted_at is None:
                    gone = self.now + timedelta(seconds=60)
                    self.pods[number] = seen.model_copy(update={"deleted_at": gone})

    def new_pod(self, attempt: int) -> None:
        self.made += 1
        self.pods[attempt] = pod(attempt, name=f"fix-{attempt}-{self.made}", created=self.now)

    def publish(self, attempt: int, out: DeveloperWorkerOutput) -> None:
        if attempt in self.entries or attempt not in self.published:
            assert attempt not in self.published, "published twice"
            self.published.append(attempt)
            self.outputs[attempt] = out
        self.entries.discard(attempt)

    def check_write(self, status: TaskStatus) -> None:
        assert self.status.phase not in FINAL, "a final phase was left"
        assert status.attempts >= self.status.attempts
        assert status.attempts <= LIMIT + 1 + len(self.spec.input)
        assert (status.phase == "InputRequired") <= (status.input_request is not None)
        assert status.message
        assert len(status.message) <= 120
        assert self.status.disruptions <= status.disruptions <= DISRUPTIONS
        assert status.disruptions <= self.status.disruptions + 1
        always = {"Admitted", "Started", "Finished", "Succeeded", "Ready"}
        kinds = {item.type for item in status.conditions} - {"Disrupted"}
        assert kinds - always <= {"Reconciling", "Stalled"}
        assert kinds >= always
        ends = {"Completed": "Current", "Failed": "Failed", "Cancelled": "Failed"}
        assert kstatus(status, status.observed_generation or 0) == ends.get(
            status.phase, "InProgress"
        )
        self.written.append(status)

    def check_quiet(self) -> None:
        """A second look at the same facts must write nothing and start nothing."""
        decision = plan(self.observe(), self.now, image_patience=PATIENCE)
        if decision.status is not None:
            assert patch(self.status, decision.status) == {}
        assert not any(isinstance(step, StartAttempt | Publish) for step in decision.actions)

    def happen(self, event: str) -> None:
        live = [number for number, seen in self.pods.items() if not seen.over]
        last = max(live, default=0)
        match event:
            case "look":
                self.reconcile()
            case "crash while acting":
                self.reconcile(steps_before_crash=1)
            case "time":
                self.now += timedelta(seconds=20)
            case "pod runs" if last:
                update = {"phase": "Running", "running_since": self.now}
                self.pods[last] = self.pods[last].model_copy(update=update)
            case "worker succeeds" | "worker fails" if last:
                self.worker_ends(last, "success" if event.endswith("succeeds") else "failed")
            case "worker asks" if last:
                self.worker_ends(last, "input_required")
            case "answer" if self.status.phase == "InputRequired":
                asked = self.status.input_request
                assert asked is not None
                if asked.id not in [item.id for item in self.spec.input]:
                    given = Answer(id=asked.id, text=f"answer {len(self.spec.input)}")
                    answers = (*self.spec.input, given)
                    self.spec = self.spec.model_copy(update={"input": answers})
            case "nobody answers":
                self.now += timedelta(seconds=self.spec.input_timeout_seconds)
            case "worker dies" if last:
                self.end_job(last, "failed", {"exit_code": 1, "exit_reason": "Error"})
            case "job deleted" if self.jobs:
                self.act(DeleteJob(name=self.jobs[max(self.jobs)].name))
            case "pod gone" if last:
                del self.pods[last]
                if last in self.jobs:
                    over = {"state": "failed", "reason": "BackoffLimitExceeded"}
                    self.jobs[last] = self.jobs[last].model_copy(update=over)
            case "pod evicted" if last:
                self.evict(last)
            case "pod evicted and gone" if last:
                self.evict(last)
                del self.pods[last]
            case "job makes another pod":
                for number, seen in self.jobs.items():
                    its_pod = self.pods.get(number)
                    if seen.state == "active" and (its_pod is None or its_pod.taken):
                        self.new_pod(number)
            case "queue suspends the job" if last in self.jobs:
                self.evict(last)
                suspended = {"state": "suspended"}
                self.jobs[last] = self.jobs[last].model_copy(update=suspended)
            case "queue lets the job in":
                for number, seen in self.jobs.items():
                    if seen.state == "suspended":
                        self.jobs[number] = seen.model_copy(update={"state": "active"})
            case "image stuck" if last:
                stuck = {"waiting_reason": "ImagePullBackOff", "waiting_since": self.now}
                self.pods[last] = self.pods[last].model_copy(update=stuck)
            case "redis down":
                self.redis_up = False
            case "redis up":
                self.redis_up = True
            case "redis flushed":
                self.entries.clear()
                self.published = [n for n in self.published if n not in self.outputs]
                self.outputs.clear()
            case "no room":
                self.slots = Slots(free=False, position=1, waiting=1, running=1, limit=1)
            case "slots":
                self.slots = Slots()
            case "cancel":
                self.spec = self.spec.model_copy(update={"desired_state": "Cancelled"})

    def evict(self, attempt: int) -> None:
        update = {"phase": "Failed", "disruption": "EvictionByEvictionAPI", "exit_code": 143}
        self.pods[attempt] = self.pods[attempt].model_copy(update=update)

    def worker_ends(self, attempt: int, status: str) -> None:
        if attempt in self.entries and self.redis_up:
            out = output(status, request_id=message_id(observed(), attempt))
            self.publish(attempt, out)
        self.end_job(attempt, "complete", {"exit_code": 0, "exit_reason": "Completed"})

    def end_job(self, attempt: int, state: str, update: dict[str, Any]) -> None:
        phase = "Succeeded" if state == "complete" else "Failed"
        self.pods[attempt] = self.pods[attempt].model_copy(update=update | {"phase": phase})
        if attempt in self.jobs:
            self.jobs[attempt] = self.jobs[attempt].model_copy(update={"state": state})


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), min_size=3, max_size=40))
def test_no_history_breaks_a_promise(events):
    model = Model()
    for event in events:
        model.happen(event)
    assert len(set(model.started)) <= LIMIT + 1 + len(model.spec.input)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), max_size=30))
def test_every_history_comes_to_an_end_when_the_world_is_well_again(events):
    model = Model()
    for event in events:
        model.happen(event)
    model.happen("redis up")
    model.happen("slots")
    for _ in range(60):
        model.happen("look")
        model.happen("answer")
        model.happen("queue lets the job in")
        model.happen("job makes another pod")
        model.happen("worker succeeds")
        model.happen("time")
        if model.status.phase in FINAL:
            return
    raise AssertionError(f"still {model.status.phase}: {model.status.reason}")
