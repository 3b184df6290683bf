"""What is told of an object, by its status; and what follows from a try."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter_contracts.cloud_events import MAX_EVENT_BYTES
from orbiter_triggers.courier.notify.budgets import Budgets
from orbiter_triggers.courier.notify.facts import notifications
from orbiter_triggers.courier.notify.models import DAY, Lane, Notification
from orbiter_triggers.courier.notify.retries import (
    MOST_REFUSALS,
    Answer,
    Verdict,
    asked_pause,
    verdict,
)
from orbiter_triggers.courier.notify.turns import Turns

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
EARLIER = "2026-11-29T11:59:00.250Z"
BEGUN = "2026-11-29T11:00:00Z"
SINK = {"url": "https://hooks.example.com/a", "secretRef": {"name": "orbiter-notify"}}
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
ALL = {
    **SINK,
    "events": ["Completed", "Failed", "InputRequired", "BudgetWarning", "BudgetExceeded"],
}


def task(*sinks: dict[str, Any], created: str = BEGUN, **status: Any) -> dict[str, Any]:
    meta = {"namespace": "team", "name": "fix", "uid": "9f1c", "creationTimestamp": created}
    return {
        "metadata": meta,
        "spec": {"prompt": "the prompt's secret words"},
        "status": {"notify": list(sinks or (SINK,)), **status},
    }


def ended(phase: str = "Completed", **status: Any) -> dict[str, Any]:
    return task(phase=phase, completionTime=EARLIER, **status)


def condition(kind: str, status: str, reason: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "needs 5 USD",
        "lastTransitionTime": EARLIER,
    }


ASKED = {"inputRequest": {"id": "r-1", "question": "Which one?", "askedAt": EARLIER}}
HELD = {"conditions": [condition("BudgetReserved", "False", "BudgetExceeded")]}


def ids(obj: dict[str, Any], kind: Any = "AgentTask", now: datetime = NOON) -> list[str]:
    return [told.identifier for told in notifications(kind, obj, now)]


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        (ended(), ["9f1c.completed"]),
        (ended("Failed"), ["9f1c.failed"]),
        (ended("Cancelled"), []),
        (task(phase="Running"), []),
        (task(phase="Completed"), []),
        (task(phase="InputRequired", **ASKED), ["9f1c.inputrequired.a5fa777a3dc67268"]),
        # What is answered is not told any more.
        (task(phase="Running", **ASKED), []),
        (task(phase="Pending", **HELD), []),
        (task(ALL, phase="Pending", **HELD), ["9f1c.budgetexceeded.1795953540"]),
        (task({**SINK, "events": ["Failed"]}, phase="Completed", completionTime=EARLIER), []),
        (
            task(
                phase="Completed",
                completionTime="2026-11-28T11:59:59Z",
                created="2026-11-01T00:00:00Z",
            ),
            [],
        ),
        (task({"url": "none"}, phase="Completed", completionTime=EARLIER), []),
        ({"metadata": ended()["metadata"]}, []),
    ],
)
def test_what_is_told_follows_from_the_status(obj: dict[str, Any], told: list[str]) -> None:
    assert ids(obj) == told
    assert ids(obj) == ids(obj, now=NOON + SECOND)


def test_a_session_tells_of_its_failure_and_of_a_budget() -> None:
    failed = task(ALL, phase="Failed", conditions=[condition("Ready", "False", "InvalidSpec")])
    assert ids(failed, "POSession") == ["9f1c.failed.1795953540"]
    assert ids(task(ALL, phase="Waiting", **HELD), "POSession") == [
        "9f1c.budgetexceeded.1795953540"
    ]
    assert ids(ended(), "POSession") == []


def test_what_happened_before_a_receiver_was_named_is_not_told() -> None:
    assert ids(ended(notifySince="2026-11-29T11:59:00.249Z")) == ["9f1c.completed"]
    assert ids(ended(notifySince="2026-11-29T11:59:00.251Z")) == []


def test_two_receivers_are_told_the_same_event() -> None:
    other = {"urlFromSecret": {"name": "chat"}, "secretRef": {"name": "chat"}}
    one, two = notifications(
        "AgentTask", task(SINK, other, phase="Failed", completionTime=EARLIER), NOON
    )
    assert one.event == two.event
    assert one.field != two.field


def test_an_event_has_the_result_and_neither_prompt_nor_secret() -> None:
    result = {
        "status": "completed",
        "summary": "done \x1b[31m",
        "prURL": "https://git/1",
        "data": {"n": 1},
    }
    obj = ended(
        reason="Succeeded",
        message="all is well",
        attempts=2,
        startTime=BEGUN,
        durationMs=3540250,
        usage={"costUSD": 0.5, "turns": 3},
        result=result,
    )
    [told] = notifications("AgentTask", obj, NOON, "https://prod.example.com")
    event = json.loads(told.event)
    assert {name: event[name] for name in ("id", "source", "type", "subject", "time")} == {
        "id": "9f1c.completed",
        "source": "https://prod.example.com/namespaces/team/agenttasks/fix",
        "type": "dev.orbiter.agenttask.completed",
        "subject": "fix",
        "time": "2026-11-29T11:59:00.250Z",
    }
    assert event["data"] == {
        "kind": "AgentTask",
        "namespace": "team",
        "name": "fix",
        "uid": "9f1c",
        "phase": "Completed",
        "reason": "Succeeded",
        "message": "all is well",
        "attempts": 2,
        "startTime": "2026-11-29T11:00:00.000Z",
        "completionTime": "2026-11-29T11:59:00.250Z",
        "durationMs": 3540250,
        "usage": event["data"]["usage"],
        "result": {**result, "summary": event["data"]["result"]["summary"]},
    }
    assert event["data"]["usage"]["costUSD"] == 0.5
    assert "\x1b" not in event["data"]["result"]["summary"]
    assert "secret words" not in told.event
    assert "orbiter-notify" not in told.event


def test_a_question_is_told_as_it_was_asked() -> None:
    [told] = notifications("AgentTask", task(phase="InputRequired", **ASKED), NOON)
    asked = json.loads(told.event)["data"]["inputRequest"]
    assert asked == {"id": "r-1", "kind": "Question", "question": "Which one?"}


def test_of_a_long_result_the_length_is_told() -> None:
    long = {
        "status": "completed",
        "summary": '"' * 100_000,
        "data": {"log": "\N{GRINNING FACE}" * 9000},
    }
    [told] = notifications("AgentTask", ended(result=long, message='"' * 50_000), NOON)
    result = json.loads(told.event)["data"]["result"]
    assert result["dataLeftOut"] == "36010 bytes"
    assert "data" not in result
    assert "cut" in result["summary"]
    assert len(told.event.encode()) <= MAX_EVENT_BYTES


def budget(near: str = "True", **status: Any) -> dict[str, Any]:
    meta = {"namespace": "team", "name": "month", "uid": "b1", "creationTimestamp": BEGUN}
    account = {"periodStart": "2026-11-01T00:00:00Z", "spentUSD": 81.5, "availableUSD": 18.5}
    conditions = [{**condition("NearLimit", near, "WarnAtPercent"), "message": "80 % or more"}]
    told = {**account, "conditions": conditions, **status}
    return {"metadata": meta, "spec": {"maxCostUSD": 100}, "status": told}


WARNED = {**SINK, "events": ["BudgetWarning"]}
OTHER = {"urlFromSecret": {"name": "chat"}, "secretRef": {"name": "chat"}}


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        (task(WARNED, phase="Running"), 1),
        (task(WARNED, {**OTHER, "events": ["BudgetWarning"]}, phase="Running"), 2),
        (task(SINK, phase="Running"), 0),
        (task(WARNED, phase="Completed", completionTime=EARLIER), 1),
        # It was over before, or there only afterwards.
        (task(WARNED, phase="Completed", completionTime="2026-11-29T11:58:00Z"), 0),
        (task(WARNED, phase="Running", created="2026-11-29T11:59:30Z"), 0),
    ],
)
def test_a_budget_that_is_near_is_told_to_those_who_were_there(
    obj: dict[str, Any], told: int
) -> None:
    budgets = Budgets()
    budgets.put_budget(budget())
    budgets.put_object(obj, NOON)
    found = budgets.notifications("team", NOON)
    assert [one.identifier for each in found for one in each] == [
        "b1.budgetwarning.1793491200"
    ] * told
    assert budgets.notifications("other", NOON) == []
    budgets.put_budget(budget("False"))
    assert budgets.notifications("team", NOON) == []


def test_two_tasks_with_one_receiver_tell_it_once_and_what_is_spent() -> None:
    budgets = Budgets()
    budgets.put_budget(budget())
    for uid in ("9f1c", "9f1d"):
        obj = task(WARNED, phase="Running")
        obj["metadata"]["uid"] = uid
        budgets.put_object(obj, NOON)
    [[told]] = budgets.notifications("team", NOON)
    event = json.loads(told.event)
    assert event["type"] == "dev.orbiter.agentbudget.budgetwarning"
    assert event["source"] == "/namespaces/team/agentbudgets/month"
    assert event["data"] == {
        "kind": "AgentBudget",
        "namespace": "team",
        "name": "month",
        "uid": "b1",
        "message": "80 % or more",
        "maxCostUSD": 100,
        "spentUSD": 81.5,
        "availableUSD": 18.5,
        "periodStart": "2026-11-01T00:00:00.000Z",
    }
    budgets.remove(budget())
    assert budgets.notifications("team", NOON) == []


def test_a_budget_that_stays_near_is_news_in_its_next_period() -> None:
    budgets = Budgets()
    budgets.put_object(task(WARNED, phase="Running"), NOON)
    budgets.put_budget(budget(periodStart="2026-11-29T11:59:30Z"))
    [[told]] = budgets.notifications("team", NOON)
    assert told.identifier == "b1.budgetwarning.1795953570"


TEXT = st.text(max_size=30) | st.just("\N{GRINNING FACE}" * 5000) | st.just("\x01" * 5000)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = ["phase", "reason", "message", "attempts", "completionTime", "result", "usage"]
FIELDS += ["inputRequest", "conditions", "notify", "notifySince"]


@given(
    st.dictionaries(st.sampled_from(FIELDS), VALUES), st.sampled_from(["AgentTask", "POSession"])
)
def test_whatever_is_in_a_status_is_told_or_left_out(status: dict[str, Any], kind: Any) -> None:
    asked = {"id": "r", "question": "q", "askedAt": EARLIER} if status.get("phase") else None
    told = {"inputRequest": asked, "completionTime": EARLIER, "phase": "Failed"} | status
    for one in notifications(kind, task(ALL, **told), NOON):
        assert len(one.event.encode()) <= MAX_EVENT_BYTES
        assert Notification.model_validate_json(one.model_dump_json()) == one


def tell(answer: Answer, *, now: datetime = NOON, jitter: float = 0.5, **known: Any) -> Verdict:
    [told] = notifications("AgentTask", ended(), NOON)
    return verdict(told.model_copy(update=known), answer, now, jitter)


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_an_answer_of_success_is_the_end(status: int) -> None:
    assert tell(Answer(status)).state == "sent"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 599, None])
def test_what_passes_is_tried_again_for_a_day(status: int | None) -> None:
    answer = Answer(status, problem="" if status else "no answer")
    assert tell(answer, tries=28).state == "waiting"
    late = tell(answer, tries=28, now=NOON + DAY - HOUR / 2)
    assert late.state == "dead"
    assert "tried 29 times in a day" in late.notification.why


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 405, 413, 422])
def test_what_is_refused_is_tried_five_times(status: int) -> None:
    assert tell(Answer(status), refusals=MOST_REFUSALS - 2).state == "waiting"
    end = tell(Answer(status), refusals=MOST_REFUSALS - 1)
    assert (end.state, end.notification.why) == ("dead", f"the receiver answered {status}")


def test_a_receiver_that_is_gone_is_not_asked_again() -> None:
    assert tell(Answer(410)).state == "dead"


def test_an_address_that_is_not_allowed_counts_as_refused_and_a_secret_does_not() -> None:
    private = Answer(problem="it is private", refused=True, setup=True)
    assert tell(private, refusals=MOST_REFUSALS - 1).state == "dead"
    assert tell(Answer(problem="there is no Secret", setup=True), refusals=9).state == "waiting"


@pytest.mark.parametrize(
    ("tries", "jitter", "seconds"),
    [(0, 0.5, 5), (0, 0.0, 3.75), (0, 1.0, 6.25), (1, 0.5, 15), (4, 0.5, 405), (9, 0.5, 3600)],
)
def test_pauses_grow_to_an_hour(tries: int, jitter: float, seconds: float) -> None:
    due = tell(Answer(503), tries=tries, jitter=jitter).notification.due
    assert (due - NOON).total_seconds() == seconds


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("Sun, 29 Nov 2026 12:02:00 GMT", 120),
        ("Sun, 29 Nov 2026 11:00:00 GMT", 0),
        ("-5", 0),
        ("", 0),
        ("soon", 0),
        ("9" * 60, 172800),
        ("\u0663", 0),
    ],
)
def test_how_long_a_receiver_asks_to_wait(header: str, seconds: float) -> None:
    assert asked_pause(header, NOON).total_seconds() == seconds


@given(st.text(max_size=80))
def test_whatever_retry_after_says_it_is_a_time(header: str) -> None:
    assert timedelta() <= asked_pause(header, NOON) <= 2 * DAY


def test_a_receiver_is_left_alone_for_as_long_as_it_asks() -> None:
    waits = tell(Answer(429, retry_after="600"))
    assert waits.notification.due == NOON + timedelta(minutes=10)
    assert tell(Answer(503, retry_after="90000")).state == "dead"


def lane(number: int, sink: str = "a", namespace: str = "team") -> Lane:
    return Lane(namespace, f"uid-{number}", sink)


def test_a_receiver_has_two_at_a_time_and_a_namespace_four_and_who_waits_is_named() -> None:
    turns = Turns()
    assert [turns.enter(lane(number)) for number in range(4)] == [True, True, False, False]
    assert [turns.enter(lane(number, "b")) for number in range(3)] == [True, True, False]
    assert turns.enter(lane(0, "c")) is False
    assert turns.enter(lane(0, namespace="other")) is True
    assert turns.leave(lane(0)) == lane(2)
    assert turns.enter(lane(2)) is True
    # Whose turn it is goes round.
    assert turns.leave(lane(0, "b")) == lane(2, "b")
    assert turns.leave(lane(1)) == lane(0, "c")
    assert turns.leave(lane(2)) == lane(3)
    assert turns.leave(lane(1, "b")) is None
    assert turns.leave(lane(0, namespace="other")) is None
