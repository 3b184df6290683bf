"""How a state of affairs is written down, and what a patch says of it."""

from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.kstatus import kstatus
from support.observed import NOW, observed
from support.strange_values import VALUES

from orbiter_contracts.outcome import Result
from orbiter_contracts.usage import TaskUsage
from orbiter_operator.kube.models import Agent, read_status, timestamp
from orbiter_operator.kube.patches import patch
from orbiter_operator.sessions.models import SessionStatus
from orbiter_operator.tasks.models import LAST_ATTEMPT, TaskSpec, TaskStatus
from orbiter_operator.tasks.plan.status import readable, write


def written(state, phase, reason, at=NOW, **flags):
    settled = {"admitted": True, "started": False} | flags
    return write(state, at, phase, reason, f"{reason} it is", **settled)


def test_a_condition_keeps_its_time_while_it_holds():
    first = written(observed(), "Pending", "Starting")
    later = NOW + timedelta(minutes=1)
    second = written(observed(status=first), "Running", "Running", at=later, started=True)
    assert second.condition("Admitted").last_transition_time == NOW
    assert second.condition("Started").last_transition_time == later


def test_every_condition_is_there_and_has_a_reason():
    status = written(observed(), "Pending", "Starting")
    assert {item.type: item.status for item in status.conditions} == {
        "Admitted": "True",
        "Started": "False",
        "Finished": "False",
        "Succeeded": "Unknown",
        "Ready": "False",
        "Reconciling": "True",
    }
    assert all(item.reason for item in status.conditions)


@pytest.mark.parametrize(
    ("phase", "succeeded"), [("Completed", "True"), ("Failed", "False"), ("Cancelled", "False")]
)
def test_a_final_phase_is_finished_and_says_whether_it_succeeded(phase, succeeded):
    status = written(observed(), phase, "Because")
    assert status.condition("Finished").status == "True"
    assert status.condition("Succeeded").status == succeeded


@pytest.mark.parametrize(
    ("phase", "verdict"),
    [
        ("Pending", "InProgress"),
        ("Running", "InProgress"),
        ("InputRequired", "InProgress"),
        ("Completed", "Current"),
        ("Failed", "Failed"),
        ("Cancelled", "Failed"),
    ],
)
def test_what_judges_objects_of_any_kind_judges_a_task_rightly(phase, verdict):
    before = written(observed(), "Pending", "Starting")
    state = observed(status=before, generation=4)
    assert kstatus(written(state, phase, "Because"), 4) == verdict
    assert kstatus(written(state, phase, "Because"), 5) == "InProgress"


def test_the_status_says_which_generation_it_speaks_of():
    assert written(observed(generation=4), "Pending", "Starting").observed_generation == 4


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0.0s"), (412, "0.4s"), (9_949, "9.9s"), (12_000, "12s"), (59_600, "1m00s"),
     (72_000, "1m12s"), (3_725_000, "1h02m")],
)  # fmt: skip
def test_durations_read_well(milliseconds, text):
    assert readable(milliseconds) == text


def test_equal_statuses_need_no_patch():
    status = written(observed(), "Pending", "Starting")
    assert patch(status, TaskStatus.model_validate(status.to_api())) == {}


def test_a_patch_names_what_has_changed_and_what_has_gone():
    old = TaskStatus(phase="Pending", result=Result(status="failed", summary="no"), attempts=1)
    new = TaskStatus(phase="Running", attempts=1)
    assert patch(old, new) == {"phase": "Running", "result": None}


def test_a_field_that_vanished_inside_an_object_is_nulled():
    old = TaskStatus(result=Result(status="failed", summary="no"))
    new = TaskStatus(result=Result(status="success"))
    assert patch(old, new) == {"result": {"status": "success", "summary": None}}


def test_the_status_has_the_names_of_the_crd():
    status = TaskStatus(
        usage=TaskUsage(cost_usd=0.5, cache_read_tokens=1),
        result=Result(status="success", commit_sha="c", pr_url="p"),
        duration_ms=1,
    ).to_api()
    assert status["usage"]["costUSD"] == 0.5
    assert status["usage"]["cacheReadTokens"] == 1
    assert status["result"] == {"status": "success", "commitSHA": "c", "prURL": "p"}
    assert status["durationMs"] == 1


def test_times_are_written_in_utc_with_milliseconds():
    assert timestamp(NOW) == "2026-01-02T03:04:05.000Z"


def crd_properties(part):
    """The fields that the CRD gives the spec or the status."""
    path = Path(__file__).parents[2] / "crds" / "agenttask.yaml"
    version = yaml.safe_load(path.read_text())["spec"]["versions"][0]
    return version["schema"]["openAPIV3Schema"]["properties"][part]["properties"]


def aliases(model):
    return {field.alias or name for name, field in model.model_fields.items()}


def test_every_field_of_the_status_is_in_the_crd_and_the_other_way_round():
    assert aliases(TaskStatus) | {"managed"} == set(crd_properties("status"))
    assert aliases(TaskUsage) == set(crd_properties("status")["usage"]["properties"])
    assert aliases(Result) == set(crd_properties("status")["result"]["properties"])


def test_every_field_of_the_spec_that_is_read_is_in_the_crd():
    assert aliases(TaskSpec) <= set(crd_properties("spec"))
    assert aliases(Agent) == set(crd_properties("spec")["agent"]["properties"])


def condition(kind="Started", **fields):
    whole = {"type": kind, "status": "True", "reason": "X", "message": ""}
    return whole | {"lastTransitionTime": "2026-01-01T00:00:00Z"} | fields


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("startTime", "0000-01-01T00:00:00Z"),
        ("startTime", "9999-12-31T23:59:59-14:00"),
        ("completionTime", "9999-12-31T23:59:59Z"),
        ("completionTime", "2026-01-01T00:00:00+99:99"),
        ("inputRequest", {}),
        ("inputRequest", {"id": "x", "question": "q", "askedAt": "9999-12-31T23:59:59Z"}),
        ("result", {}),
        ("attempts", -1),
        ("attempts", LAST_ATTEMPT),
        ("attempts", 2**31 - 1),
        ("conditions", [condition(lastTransitionTime="9999-12-31T23:59:59Z")]),
        ("conditions", [condition(f"T{number}") for number in range(65)]),
        ("usage", "NaN"),
    ],
    ids=repr,
)
def test_what_a_tenant_wrote_into_a_status_and_nobody_can_use_is_not_there(field, value):
    """All of it the resource definition lets through, but the last."""
    raw = {"phase": "Running", "podName": "fix-1-x", field: value}
    assert read_status(TaskStatus, raw) == TaskStatus(phase="Running", pod_name="fix-1-x")


@pytest.mark.parametrize("model", [TaskStatus, SessionStatus])
@pytest.mark.parametrize("raw", [None, "Completed", 7, [1], {}])
def test_a_status_that_is_none_is_empty(model, raw):
    assert read_status(model, raw) == model()


@given(
    st.dictionaries(
        st.sampled_from([field.alias for field in TaskStatus.model_fields.values()]), VALUES
    )
)
def test_whatever_is_in_a_status_it_is_read_and_can_be_written(raw):
    for model in (TaskStatus, SessionStatus):
        read_status(model, raw).to_api()
