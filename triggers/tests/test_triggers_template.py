"""The task of a trigger: its name, whose it is, and where an event's fields are put."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from orbiter_operator.kube.models import is_object_name
from orbiter_operator.kube.names import owner_of
from orbiter_triggers.models import TaskTemplate, TriggerStatus
from orbiter_triggers.naming import event_name, scheduled_name, scheduled_time
from orbiter_triggers.template import build_task, template_problem

SIX = datetime(2026, 11, 30, 6, tzinfo=UTC)
TRIGGER = {"name": "weekly", "namespace": "team", "uid": "u-1"}


def template(metadata: dict[str, Any] | None = None, **spec: Any) -> TaskTemplate:
    return TaskTemplate.model_validate({"metadata": metadata or {}, "spec": spec})


def build(made: TaskTemplate, **told: str) -> dict[str, Any]:
    own = {"scheduledTime": "2026-11-30T06:00:00Z"}
    task, problem = build_task(
        TRIGGER, "weekly-1", made, own=own, told=told, annotations={"a": "b"}
    )
    assert problem is None
    return task


def test_a_name_tells_the_time_and_is_the_same_each_time() -> None:
    name = scheduled_name("weekly", "u-1", SIX)
    assert name.startswith("weekly-202611300600-")
    elsewhere = SIX.astimezone(timezone(timedelta(hours=5)))
    assert scheduled_name("weekly", "u-1", elsewhere) == name


def test_names_differ_by_trigger_and_time() -> None:
    names = {
        scheduled_name("weekly", "u-1", SIX),
        scheduled_name("weekly", "u-2", SIX),
        scheduled_name("weekly", "u-1", SIX + timedelta(minutes=1)),
        event_name("weekly", "u-1", "a"),
        event_name("weekly", "u-1", "b"),
        event_name("weekly", "u-2", "a"),
    }
    assert len(names) == 6


@pytest.mark.parametrize("trigger", ["a", "a" * 63, "a" * 40 + "." + "b" * 22, "a" * 41 + "-bc"])
def test_a_name_is_one_of_kubernetes_and_fits_into_a_label(trigger: str) -> None:
    for name in (scheduled_name(trigger, "u", SIX), event_name(trigger, "u", "\ud800 x")):
        assert is_object_name(name)
        assert len(name) <= 63


def test_the_task_is_the_triggers() -> None:
    task = build(template({"labels": {"team": "a", "orbiter.dev/agenttrigger": "b"}}, prompt="p"))
    assert owner_of(task, "AgentTrigger") == ("weekly", "u-1")
    assert task["metadata"]["labels"] == {"team": "a", "orbiter.dev/agenttrigger": "weekly"}
    assert task["metadata"]["annotations"] == {"a": "b"}
    assert task["spec"] == {"prompt": "p"}


def test_the_event_is_put_into_prompt_and_branch() -> None:
    git = {"url": "https://git.example.com/shop.git", "branch": "agent/${{event.title}}"}
    made = template(prompt="At ${{event.scheduledTime}}: ${{event.title}}", workspace={"git": git})
    task = build(made, title="Rm -rf; /")
    assert task["spec"]["prompt"].startswith("At 2026-11-30T06:00:00Z: <data-")
    assert task["spec"]["workspace"]["git"] == git | {"branch": "agent/rm-rf"}
    assert made.spec["workspace"]["git"] == git


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"prompt": "${{event.nothing}}"}, "spec.taskTemplate.spec.prompt: '${{event.nothing}}'"),
        ({"prompt": "p", "agent": {"model": "${{event.title}}"}}, "spec.taskTemplate.spec.agent"),
        ({"prompt": 1}, "spec.taskTemplate.spec.prompt: is no text"),
        (
            {"prompt": "p", "workspace": {"git": {"branch": "${{event.x}}"}}},
            "spec.taskTemplate.spec.workspace.git.branch: ",
        ),
        (
            {"prompt": "p", "workspace": {"git": {"branch": "b", "url": "${{event.url}}"}}},
            "spec.taskTemplate.spec.workspace.git.url: ",
        ),
    ],
)
def test_what_can_never_be_filled_is_told(spec: dict[str, Any], sentence: str) -> None:
    assert (template_problem(template(**spec)) or "").startswith(sentence)


def test_a_template_in_order_has_no_problem() -> None:
    spec = {"prompt": "${{event.body}} ${{deps.a.result.data.b}}", "workspace": {"git": "odd"}}
    assert template_problem(template(**spec)) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "2026-11-30", "2026-11-30T06:00:00", "x" * 9999),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
    ],
)
def test_a_time_that_is_none_is_none(text: str) -> None:
    assert (
        scheduled_time({"metadata": {"annotations": {"orbiter.dev/scheduled-time": text}}}) is None
    )
    assert scheduled_time({"metadata": {}}) is None


def test_a_status_keeps_the_latest_events_and_says_nothing_twice() -> None:
    status = TriggerStatus()
    for number in range(30):
        note = {"time": SIX, "event": f"schedule {number // 2}", "outcome": "Fired"}
        told = status.noted(*TriggerStatus.model_validate({"lastEvents": [note]}).last_events)
        status = status.model_copy(update={"last_events": told})
    assert [note.event for note in status.last_events] == [
        f"schedule {n}" for n in range(14, 4, -1)
    ]
