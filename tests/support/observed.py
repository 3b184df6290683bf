"""Facts about an AgentTask for table tests of `plan`: say what differs, the rest is ordinary."""

from datetime import UTC, datetime, timedelta
from typing import Any

from orbiter_contracts import AgentVerdict, DeveloperWorkerOutput, Usage
from orbiter_operator.kube.names import job_name
from orbiter_operator.pods.state import JobState, PodState
from orbiter_operator.streams.pending_outputs import AttemptRecord
from orbiter_operator.tasks.models import TaskSpec, TaskStatus
from orbiter_operator.tasks.observed import Observed, message_id
from orbiter_operator.tasks.plan import plan
from orbiter_operator.tasks.plan.actions import Plan

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PATIENCE = timedelta(seconds=300)
UID = "6a7b1f4e-0000-4000-8000-000000000001"


def observed(**changes: Any) -> Observed:
    """A new AgentTask `fix` in namespace `team` that may start at once."""
    fields: dict[str, Any] = {
        "namespace": "team",
        "name": "fix",
        "uid": UID,
        "generation": 1,
        "created": NOW,
        "spec": TaskSpec(prompt="do it"),
        "status": TaskStatus(),
        "prompt": "do it",
    }
    return Observed(**fields | changes)


def spec(**changes: Any) -> TaskSpec:
    """A spec, written as in YAML."""
    return TaskSpec.model_validate({"prompt": "do it"} | changes)


def job(attempt: int = 1, **changes: Any) -> JobState:
    """A Job that runs."""
    fields: dict[str, Any] = {
        "name": job_name("fix", attempt),
        "uid": f"job-{attempt}",
        "owner": UID,
        "attempt": attempt,
        "created": NOW,
    }
    return JobState(**fields | changes)


def pod(attempt: int = 1, **changes: Any) -> PodState:
    """A Pod that starts."""
    fields: dict[str, Any] = {
        "name": f"fix-{attempt}-x",
        "owner": UID,
        "attempt": attempt,
        "created": NOW,
    }
    return PodState(**fields | changes)


def running_pod(attempt: int = 1, **changes: Any) -> PodState:
    """A Pod whose worker runs."""
    return pod(attempt, **{"phase": "Running", "running_since": NOW} | changes)


def output(status: str = "success", **changes: Any) -> DeveloperWorkerOutput:
    """What a worker published for the first attempt."""
    fields: dict[str, Any] = {
        "request_id": message_id(observed(), 1),
        "task_id": "team/fix",
        "worker_id": "team.fix-1",
        "status": status,
        "started_at": NOW,
        "finished_at": NOW + timedelta(seconds=72),
        "usage": Usage(input_tokens=10, output_tokens=5, cost_usd=0.25, turns=2),
    }
    if status == "success":
        fields["verdict"] = AgentVerdict(summary="it works now", data={"files": 3})
    return DeveloperWorkerOutput(**fields | changes)


def record(out: DeveloperWorkerOutput | None = None, **changes: Any) -> dict[str, Any]:
    """The fields of `observed` that say that Redis knows attempt 1."""
    fields: dict[str, Any] = {"entry": "1-0"}
    if out is not None:
        fields |= {"output_id": "2-0", "output": out}
    attempt = changes.pop("attempt", 1)
    return {"record": AttemptRecord(**fields | changes), "record_attempt": attempt}


def decide(fields: Observed, *, after: float = 0.0) -> Plan:
    """The plan for these facts, so many seconds after NOW."""
    return plan(fields, NOW + timedelta(seconds=after), image_patience=PATIENCE)


def running(**changes: Any) -> Observed:
    """The task while its first attempt runs, as the operator has written it down."""
    begun = observed(jobs=(job(),), pods=(running_pod(),), **record())
    status = decide(begun).status
    assert status is not None
    return begun.model_copy(update={"status": status, **changes})


def ended(fields: Observed, **changes: Any) -> Observed:
    """The task after the plan for these facts has been carried out."""
    status = decide(fields).status
    assert status is not None
    return fields.model_copy(update={"status": status, **changes})
