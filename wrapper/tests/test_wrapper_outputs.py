"""From what came of a turn to the message that says so."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

import pytest

from orbiter_contracts import AgentVerdict, DeveloperWorkerInput, OutputStatus, WorkspaceReport
from worker_wrapper.queue.lifecycle import event_for
from worker_wrapper.queue.streams import Entry
from worker_wrapper.settings import BoundTask
from worker_wrapper.turn.outputs import developer_output, stand_in, without_turn

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
TASK = DeveloperWorkerInput(request_id="r-1", task_id="t-1", prompt="do it")
DONE = replace(without_turn(NOW), verdict=AgentVerdict(summary="done"))
MOVED = WorkspaceReport(base_sha="aaa", head_sha="bbb")


def test_the_commit_the_agent_names_wins_over_the_new_head() -> None:
    report = replace(DONE, verdict=AgentVerdict(commit_sha="ccc", pr_url="https://h/pr/1"))
    output = developer_output(TASK, report, worker_id="w-1", workspace=MOVED)
    assert (output.commit_sha, output.pr_url) == ("ccc", "https://h/pr/1")


def test_the_project_of_a_task_is_passed_through_to_its_output() -> None:
    task = TASK.model_copy(update={"project_id": "shop"})
    assert developer_output(task, DONE, worker_id="w-1").project_id == "shop"
    assert developer_output(TASK, DONE, worker_id="w-1").project_id is None


def test_a_new_head_is_the_commit_when_the_agent_names_none() -> None:
    assert developer_output(TASK, DONE, worker_id="w-1", workspace=MOVED).commit_sha == "bbb"


def test_an_unchanged_head_is_no_commit() -> None:
    same = WorkspaceReport(base_sha="aaa", head_sha="aaa")
    assert developer_output(TASK, DONE, worker_id="w-1", workspace=same).commit_sha is None


def test_a_success_whose_work_was_not_stored_is_a_failure() -> None:
    lost = MOVED.model_copy(update={"error": "the work was not pushed: no route"})
    output = developer_output(TASK, DONE, worker_id="w-1", workspace=lost)
    assert (output.status, output.reason) == ("failed", "WorkspaceError")
    assert output.error == "the work was not pushed: no route"


def test_a_failure_keeps_its_reason_and_is_warned_about_its_workspace() -> None:
    lost = MOVED.model_copy(update={"error": "the work was not pushed: no route"})
    failed = without_turn(NOW, reason="AgentError", error="broken")
    output = developer_output(TASK, failed, worker_id="w-1", workspace=lost)
    assert (output.status, output.reason, output.error) == ("error", "AgentError", "broken")
    assert output.warnings == ["the work was not pushed: no route"]


def test_every_output_says_when_and_how_long() -> None:
    output = developer_output(TASK, without_turn(NOW, reason="X"), worker_id="w-1")
    assert (output.started_at, output.finished_at, output.duration_ms) == (NOW, NOW, 0)


@pytest.mark.parametrize("fields", [{}, {"data": "not json"}, {"data": "[]"}, {"data": "{}"}])
def test_an_unreadable_attempt_is_answered_under_the_operators_own_request_id(
    fields: dict[str, str],
) -> None:
    bound = BoundTask("17-0", "agenttask:9f1c:2", "team/fix", 2)
    task = stand_in(Entry("17-0", fields), bound)
    assert task.request_id == str(uuid5(NAMESPACE_URL, "orbiter:9f1c:2"))
    assert task.task_id == "team/fix"


@pytest.mark.parametrize(
    "data",
    ['{"a":' * 2000, '{"n": 1' + "0" * 5000 + "}", '{"request_id": "' + "r" * 9000 + '"}'],
)
def test_an_attempt_that_no_reader_takes_is_answered_all_the_same(data: str) -> None:
    bound = BoundTask("17-0", "agenttask:9f1c:2", f"team/{'t' * 253}", 2)
    task = stand_in(Entry("17-0", {"data": data}), bound)
    assert task.request_id == str(uuid5(NAMESPACE_URL, "orbiter:9f1c:2"))


def test_an_unreadable_attempt_keeps_the_ids_that_can_be_read() -> None:
    bound = BoundTask("17-0", "agenttask:9f1c:2", "team/fix", 2)
    entry = Entry(
        "17-0", {"data": '{"request_id": "r-1", "task_id": "t-1", "project_id": "p", "prompt": 5}'}
    )
    task = stand_in(entry, bound)
    assert (task.request_id, task.task_id, task.project_id) == ("r-1", "t-1", "p")


@pytest.mark.parametrize(
    ("status", "event"),
    [
        ("success", "completed"),
        ("input_required", "completed"),
        ("failed", "failed"),
        ("error", "failed"),
        ("timeout", "failed"),
    ],
)
def test_each_outcome_has_its_lifecycle_event(status: OutputStatus, event: str) -> None:
    assert event_for(status) == event
