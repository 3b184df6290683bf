"""The table of attempts that operator and `orbiter task run` share, here in the operator's plan."""

import pytest
from support.attempt_cases import BACKOFFS, ENDS, SESSIONS, USAGES, ended
from support.observed import UID, decide, observed, output, record, running, spec

from orbiter_contracts.attempts import Attempt, request_id
from orbiter_operator.pods.template import IDENTITY, WorkerDefaults
from orbiter_operator.tasks.job import build_job
from orbiter_operator.tasks.models import TaskStatus

DEFAULTS = WorkerDefaults({"claude": "i"}, "Always", "redis", "worker", {}, 30, 60)


def status_after(case_output, **wish):
    status = decide(running(spec=spec(**wish), **record(case_output))).status
    assert status is not None
    return status


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
def test_an_output_means_phase_reason_message_and_result(case):
    status = status_after(case.output)
    assert (status.phase, status.reason, status.message) == (case.phase, case.reason, case.message)
    assert status.to_api()["result"] == case.result
    asked = status.input_request
    assert (asked.question if asked else None) == case.question
    why = status.condition("Succeeded")
    assert why is not None
    assert why.message == (case.detail or case.message)


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
def test_only_failures_are_retried_and_not_all(case):
    status = status_after(case.output, retry={"limit": 1})
    assert (status.reason == "Retrying") == case.retried
    if case.retried:
        assert status.phase == "Pending"
        assert f"attempt 1 of 2 failed: {case.reason}; " in (status.message or "")
    else:
        assert (status.phase, status.reason) == (case.phase, case.reason)


@pytest.mark.parametrize("case", BACKOFFS.values(), ids=BACKOFFS)
def test_the_backoff_doubles(case):
    wish = spec(retry={"limit": case.retry.limit, "backoffSeconds": case.retry.backoff_seconds})
    pauses, status = [], TaskStatus()
    for attempt in range(1, case.retry.attempts_allowed + 1):
        given = record(ended("failed"), attempt=attempt)
        begun = status.model_copy(update={"attempts": attempt, "phase": "Running"})
        plan = decide(observed(spec=wish, status=begun, **given))
        assert plan.status is not None
        status = plan.status
        if status.phase == "Failed":
            break
        pauses.append(plan.requeue_after)
    assert tuple(pauses) == case.pauses


@pytest.mark.parametrize("case", SESSIONS.values(), ids=SESSIONS)
def test_a_session_goes_on_after_questions_only(case):
    ids = [request_id(UID, number) for number in range(1, len(case.ends) + 1)]
    answers = [
        {"id": one, "text": "yes"} for one, end in zip(ids, case.ends, strict=True) if end == "?"
    ]
    state = observed(spec=spec(input=answers, retry={"limit": case.ends.count("!")}))
    for number, asker in enumerate(case.sessions, 1):
        given = variables(state, number)
        assert given["SESSION_ID"] == ids[asker - 1]
        assert given["SNAPSHOT_KEY"] == f"agenttask:{UID}:snapshot"


def test_nobody_else_sets_what_says_which_attempt_it_is():
    given = Attempt("team/fix", UID, 1).environment(worker="w", entry="5-0", session="s")
    assert set(given) <= set(IDENTITY)


@pytest.mark.parametrize("case", USAGES.values(), ids=USAGES)
def test_usage_adds_up_over_attempts(case):
    total = None
    for given in case.told:
        state = running(**record(output("failed", usage=given)))
        before = state.status.model_copy(update={"usage": total})
        status = decide(state.model_copy(update={"status": before})).status
        assert status is not None
        total = status.usage
    assert total == case.total


def variables(state, attempt):
    """What the worker of an attempt is told."""
    pod = build_job(state, attempt, "5-0", DEFAULTS)["spec"]["template"]["spec"]
    return {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
