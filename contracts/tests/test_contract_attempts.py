"""The life of an attempt: its worker's start, what its output means, whether it is retried."""

from datetime import timedelta

import pytest
from support.attempt_cases import BACKOFFS, ENDS, REQUEST, SESSIONS, USAGES, ended

from orbiter_contracts import GitWorkspace
from orbiter_contracts.attempts import Attempt, request_id, session_of
from orbiter_contracts.environment import agent_environment
from orbiter_contracts.messages import Usage
from orbiter_contracts.outcome import outcome
from orbiter_contracts.queues import Keys
from orbiter_contracts.retry import LONGEST_BACKOFF, RetryPolicy
from orbiter_contracts.usage import total_usage

FIRST = Attempt("team/fix", "u1", 1)


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
def test_an_output_means_phase_reason_message_and_result(case):
    end = outcome(case.output)
    assert (end.phase, end.reason, end.message) == (case.phase, case.reason, case.message)
    assert (end.question, end.detail) == (case.question, case.detail)
    assert end.result.model_dump(by_alias=True, exclude_none=True) == case.result


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
def test_only_failures_are_retried_and_not_all(case):
    again = RetryPolicy(limit=1).repeats(case.reason, failures=1)
    assert (case.phase == "Failed" and again) == case.retried
    assert not RetryPolicy(limit=1).repeats(case.reason, failures=2)


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
def test_a_cancelled_task_asks_nothing_and_does_not_fail(case):
    end = outcome(case.output, cancelled=True)
    assert end.phase == ("Completed" if case.phase == "Completed" else "Cancelled")
    assert end.question is None


def test_a_question_to_a_cancelled_task_is_its_end():
    end = outcome(ended("input_required", error="which?"), cancelled=True)
    assert (end.phase, end.reason, end.message) == ("Cancelled", "Cancelled", "which?")


@pytest.mark.parametrize("case", BACKOFFS.values(), ids=BACKOFFS)
def test_the_backoff_doubles(case):
    failures = range(1, case.retry.attempts_allowed)
    pauses = tuple(case.retry.backoff(number).total_seconds() for number in failures)
    assert pauses == case.pauses


def test_the_backoff_of_however_many_failures_has_an_end():
    assert RetryPolicy(backoff_seconds=1).backoff(10**9) == LONGEST_BACKOFF
    assert RetryPolicy(backoff_seconds=1).backoff(0) == timedelta(seconds=1)


@pytest.mark.parametrize("case", USAGES.values(), ids=USAGES)
def test_usage_adds_up_over_attempts(case):
    total = None
    for told in case.told:
        total = total_usage(total, told)
    assert total == case.total


@pytest.mark.parametrize("case", SESSIONS.values(), ids=SESSIONS)
def test_a_session_goes_on_after_questions_only(case):
    ids = [request_id("u1", number) for number in range(1, len(case.ends) + 1)]
    for number, own in enumerate(ids):
        answered = [one for one, end in zip(ids[:number], case.ends, strict=False) if end == "?"]
        assert session_of(own, answered) == ids[case.sessions[number] - 1]


def test_a_worker_is_told_which_attempt_it_is():
    assert FIRST.environment(worker="team.fix-1", entry="5-0", session=REQUEST) == {
        "WORKER_ID": "team.fix-1",
        "WORKER_TYPE": "developer",
        "TASK_ENTRY_ID": "5-0",
        "TASK_RECORD": "agenttask:u1:1",
        "TASK_NAME": "team/fix",
        "TASK_ATTEMPT": "1",
        "SESSION_ID": REQUEST,
        "SNAPSHOT_KEY": "agenttask:u1:snapshot",
    }


def test_a_worker_of_a_namespace_is_told_its_prefix_and_keys_that_begin_with_it():
    attempt = FIRST._replace(keys=Keys.of_namespace("team"))
    told = attempt.environment(worker="team.fix-1", entry="5-0", session=REQUEST)
    assert told == {
        **FIRST.environment(worker="team.fix-1", entry="5-0", session=REQUEST),
        "KEY_PREFIX": "{team}:",
        "TASK_RECORD": "{team}:agenttask:u1:1",
        "SNAPSHOT_KEY": "{team}:agenttask:u1:snapshot",
    }
    assert attempt.record == told["TASK_RECORD"]


def test_a_worker_is_told_which_agent_it_runs():
    assert agent_environment("claude") == {"AGENT_TYPE": "claude"}
    told = agent_environment(
        "codex",
        model="m",
        max_turns=3,
        max_cost_usd=0.5,
        system_prompt="",
        env=({"name": "A"}, {"name": "B"}),
    )
    assert told == {
        "AGENT_TYPE": "codex",
        "AGENT_MODEL": "m",
        "AGENT_MAX_TURNS": "3",
        "AGENT_MAX_COST_USD": "0.5",
        "AGENT_SYSTEM_PROMPT": "",
        "AGENT_ENV": "A,B",
    }
    assert agent_environment("claude", env=({"name": "A"},), passed="B,C")["AGENT_ENV"] == "B,C,A"


def test_a_message_has_the_attempts_names_where_the_user_gives_none():
    plain = FIRST.message("do it", 60)
    assert (plain.request_id, plain.task_id) == (request_id("u1", 1), "team/fix")
    assert (plain.project_id, plain.workspace, plain.timeout) == (None, None, 60)
    git = GitWorkspace(url="https://git/x")
    named = FIRST.message("do it", 60, request="r", task_id="t", project_id="p", git=git)
    assert (named.request_id, named.task_id, named.project_id) == ("r", "t", "p")
    assert named.workspace is not None
    assert named.workspace.git == git


def test_an_entry_says_whose_it_is():
    assert FIRST.routing == {"agenttask": "team/fix", "attempt": "1"}


def test_a_sum_of_costs_has_no_digits_that_nobody_told():
    """`kubectl get` prints each: 0.1 and 0.2 are 0.30000000000000004 as floats."""
    total = None
    for cost in (0.1, 0.2):
        total = total_usage(total, Usage(cost_usd=cost))
    assert repr(total.cost_usd) == "0.3"
