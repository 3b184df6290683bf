"""The ledger of an AgentBudget: what fits, what is spent, when a period ends; nothing twice."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.observed import (
    NOW,
    UID,
    decide,
    ended,
    job,
    observed,
    output,
    record,
    running,
    spec,
)

from orbiter_operator.budgets.decide import Budget, judge, near_event, status_of
from orbiter_operator.budgets.ledger import (
    MOST_RESERVATIONS,
    Held,
    Ledger,
    at,
    dollars,
    fits,
    micros,
    period_of,
    read,
    reserve,
    settle,
    written,
    zone_of,
)
from orbiter_operator.budgets.models import MOST_BUDGETS, Budgeted, BudgetSpec, BudgetStatus, Need
from orbiter_operator.kube.patches import merge_patch
from orbiter_operator.tasks.charges import Charge, charge_of, need_of, waits
from orbiter_operator.tasks.models import TaskStatus
from orbiter_operator.tasks.observed import Dependencies
from orbiter_operator.tasks.plan.actions import Publish, StartAttempt

START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2026, 2, 1, tzinfo=UTC)
EMPTY = Ledger(START, END, 0, {}, 0)


def moment(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def budget(status=None, name="all", **said):
    """A budget as the API server has it, read."""
    meta = {"name": name, "uid": f"uid of {name}", "generation": 2, "resourceVersion": "5"}
    said = {"maxCostUSD": 10, "defaultTaskUSD": 1} | said
    return Budget.of({"metadata": meta, "spec": said, "status": status or {}})


def held(usd, attempt=1, task="fix", **more):
    return Held(task, attempt, micros(usd), **more)


def need(usd=1.0, uid="u", attempt=1):
    return Need(uid=uid, task="fix", attempt=attempt, usd=usd)


@pytest.mark.parametrize(
    ("now", "period", "zone", "start", "end"),
    [
        ("2026-11-28T12:00Z", "Daily", "UTC", "2026-11-28T00:00Z", "2026-11-29T00:00Z"),
        ("2026-11-28T12:00Z", "Weekly", "UTC", "2026-11-23T00:00Z", "2026-11-30T00:00Z"),
        ("2026-12-31T12:00Z", "Monthly", "UTC", "2026-12-01T00:00Z", "2027-01-01T00:00Z"),
        ("2026-01-31T23:59Z", "Monthly", "UTC", "2026-01-01T00:00Z", "2026-02-01T00:00Z"),
        ("2026-11-30T23:30Z", "Monthly", "Europe/Berlin", "2026-11-30T23:00Z", "2026-12-31T23:00Z"),
        ("2026-03-29T12:00Z", "Daily", "Europe/Berlin", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("2026-10-25T12:00Z", "Daily", "Europe/Berlin", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        (
            "2026-11-28T02:00Z",
            "Daily",
            "America/New_York",
            "2026-11-27T05:00Z",
            "2026-11-28T05:00Z",
        ),
    ],
)
def test_a_period_is_one_of_the_calendar_of_its_zone(now, period, zone, start, end):
    assert period_of(moment(now), period, zone_of(zone)) == (moment(start), moment(end))


ZONES = [
    *("UTC", "Europe/Berlin", "America/Havana", "America/St_Johns", "America/Sao_Paulo"),
    *("Pacific/Apia", "Atlantic/Azores", "Australia/Lord_Howe", "Asia/Kathmandu"),
]


@given(
    st.datetimes(datetime(1985, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(["Daily", "Weekly", "Monthly"]),
    st.sampled_from(ZONES),
)
@settings(max_examples=400)
def test_every_moment_is_in_its_period(now, period, zone):
    start, end = period_of(now, period, zone_of(zone))
    assert start <= now < end
    assert end - start <= timedelta(days=31, hours=25)


@pytest.mark.parametrize("name", ["", "Mars/Base", "../../etc/passwd", "/etc/passwd", "a" * 300])
def test_what_is_no_time_zone_is_said(name):
    with pytest.raises(ValueError, match="is no time zone that this operator knows"):
        zone_of(name)
    assert zone_of("Europe/Berlin") == ZoneInfo("Europe/Berlin")


def test_a_new_period_has_spent_nothing_and_holds_what_is_at_work():
    ledger = reserve(EMPTY._replace(spent=micros(9)), "u", held(1))
    later = at(ledger, BudgetSpec(max_cost_usd=10), moment("2026-02-01T00:00Z"))
    assert (later.spent, later.reserved, later.start) == (0, micros(1), END)
    assert at(ledger, BudgetSpec(max_cost_usd=10), NOW) == ledger


def test_a_clock_that_was_set_back_gives_no_money_back():
    ledger = EMPTY._replace(spent=micros(9))
    assert at(ledger, BudgetSpec(), START - timedelta(days=2)) == ledger


def test_what_was_spent_stays_spent_when_the_spec_says_another_period():
    ledger = EMPTY._replace(spent=micros(9))
    daily = at(ledger, BudgetSpec(period="Daily"), NOW)
    assert (daily.spent, daily.end) == (micros(9), moment("2026-01-03T00:00Z"))
    assert at(daily, BudgetSpec(period="Daily"), moment("2026-01-03T00:00Z")).spent == 0


def test_a_reservation_is_made_once_and_settled_once():
    once = reserve(EMPTY, "u", held(1))
    assert reserve(once, "u", held(1)) == once
    spent = settle(once, "u", 1, micros(0.25))
    assert (spent.spent, spent.reserved, spent.held) == (micros(0.25), 0, {})
    assert settle(spent, "u", 1, micros(0.25)) == spent
    assert settle(once, "u", 2, 0) == once, "another attempt's"
    assert settle(once, "other", None, 0) == once


def test_nobody_knows_what_it_has_cost_so_it_has_cost_all_that_it_might():
    once = reserve(EMPTY, "u", held(1))
    assert settle(once, "u", None, None).spent == micros(1)
    assert settle(once, "u", 1, micros(0.2), least=True).spent == micros(1)
    assert settle(once, "u", 1, micros(3), least=True).spent == micros(3)


def test_whatever_a_worker_says_that_it_has_cost_the_ledger_can_be_read_again():
    ledger = settle(reserve(EMPTY._replace(spent=micros(9)), "u", held(1)), "u", 1, micros(1e300))
    ledger = settle(reserve(ledger, "u", held(1, attempt=2)), "u", 2, micros(1e300))
    status = written(ledger, micros(10), BudgetStatus()).to_api()
    assert budget(status).ledger == ledger
    assert not fits(ledger, micros(10), "other", 1, 1)


def test_another_attempt_reserves_anew_and_one_that_was_not_settled_is():
    once = reserve(EMPTY, "u", held(1))
    again = reserve(once, "u", held(2, attempt=2))
    assert (again.spent, again.reserved) == (micros(1), micros(2))
    more = reserve(again, "u", held(3, attempt=2))
    assert (more.spent, more.reserved) == (micros(1), micros(3))


def test_what_was_put_aside_fits_whatever_the_budget_says_now():
    once = reserve(EMPTY, "u", held(5))
    assert fits(once, 0, "u", 1, micros(5))
    assert not fits(once, 0, "u", 2, micros(5))
    assert fits(once, micros(6), "u", 1, micros(6))
    assert not fits(once, micros(6), "other", 1, micros(1.000001))


def test_a_budget_has_so_many_reservations_and_no_more():
    many = {str(number): held(0) for number in range(MOST_RESERVATIONS)}
    full = EMPTY._replace(held=many)
    assert not fits(full, micros(1), "u", 1, 0)
    assert fits(full, micros(1), "0", 1, 0)
    full_budget = budget()._replace(ledger=full)
    assert "as many reservations as it can hold" in judge([full_budget], need(), NOW, 9).message


@given(
    st.integers(0, 10**14),
    st.dictionaries(st.text("ab", max_size=3), st.integers(0, 10**11), max_size=4),
)
def test_amounts_come_back_from_the_status_as_they_were(spent, reserved):
    ledger = EMPTY._replace(spent=spent)
    for uid, amount in reserved.items():
        ledger = reserve(ledger, uid, Held("fix", 1, amount))
    stored = written(ledger, 10**14, BudgetStatus()).to_api()
    assert read(BudgetStatus.model_validate(stored)) == ledger
    assert micros(dollars(spent)) == spent


# What happens to a budget, in any order: (what, task, amount or cost in hundredths).
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "begin", "begin", "end", "unknown", "lost answer", "period"]),
        st.integers(0, 9),
        st.integers(0, 700),
    ),
    max_size=80,
)


@given(STEPS)
@settings(max_examples=300)
def test_never_more_is_spent_and_reserved_than_there_is(steps):
    limit, ledger, now = micros(10), EMPTY, NOW
    at_work: dict[str, int] = {}
    attempts: dict[str, int] = {}
    for what, task, amount in steps:
        uid, before = f"task-{task}", ledger
        if what == "period":
            now += timedelta(days=20)
            ledger = at(ledger, BudgetSpec(max_cost_usd=10), now)
            assert ledger.reserved == before.reserved
        elif uid not in at_work and what in ("begin", "lost answer"):
            attempt = attempts.get(uid, 0) + 1
            if fits(ledger, limit, uid, attempt, micros(amount / 100)):
                attempts[uid] = attempt
                at_work[uid] = micros(amount / 100)
                ledger = reserve(ledger, uid, held(amount / 100, attempt))
                if what == "lost answer":  # the operator was killed behind its write
                    assert fits(ledger, limit, uid, attempt, at_work[uid])
                    assert reserve(ledger, uid, held(amount / 100, attempt)) == ledger
        elif uid in at_work and what in ("end", "unknown"):
            most = at_work.pop(uid)
            cost = None if what == "unknown" else min(micros(amount / 100), most)
            ledger = settle(ledger, uid, attempts[uid], cost)
            assert settle(ledger, uid, attempts[uid], cost) == ledger
            assert ledger.used <= before.used
        assert ledger.used <= limit
        assert ledger.reserved == sum(at_work.values())
        assert {name: each.micros for name, each in ledger.held.items()} == at_work


def test_an_attempt_that_fits_is_told_of_which_budget_it_has_its_money():
    said = judge([budget()], need(2.5), NOW, 9)
    assert said == Budgeted(budget="all", message="2.5 USD of AgentBudget all")
    assert judge([], need(), NOW, 9) is None


def test_an_agent_without_a_limit_needs_what_the_budget_says():
    assert judge([budget()], need(None), NOW, 9).message == "1 USD of AgentBudget all"


FULL = {
    "periodStart": "2026-01-01T00:00:00.000Z",
    "periodEnd": "2026-02-01T00:00:00.000Z",
    "spentUSD": 9.5,
}


@pytest.mark.parametrize("what", ["Queue", "Cancel", "Warn"])
def test_one_that_does_not_fit_is_told_so_and_what_follows(what):
    said = judge([budget(FULL, onExceeded=what)], need(), NOW, 9)
    assert (said.lacks, said.reason, said.again) == (what, "BudgetExceeded", 9)
    assert said.message == (
        "needs 1 USD, more than AgentBudget all has left of its 10 USD until 2026-02-01T00:00Z"
    )


def test_one_that_never_fits_is_told_so():
    said = judge([budget()], need(11), NOW, 9)
    assert said.message == (
        "needs 11 USD, more than all 10 USD of AgentBudget all; lower agent.maxCostUSD"
    )


def test_the_next_period_is_not_missed():
    assert judge([budget(FULL)], need(), END - timedelta(seconds=4), 30).again == 4
    assert judge([budget(FULL)], need(), END, 30).lacks is None


def test_all_budgets_have_to_have_room_and_the_strictest_tells():
    queue, cancel = budget(FULL, "day"), budget(FULL, "month", onExceeded="Cancel")
    assert judge([budget(name="large"), queue], need(), NOW, 9).budget == "day"
    assert judge([queue, cancel], need(), NOW, 9).lacks == "Cancel"
    warn = budget(FULL, "warn", onExceeded="Warn")
    assert judge([warn, queue], need(), NOW, 9).lacks == "Queue"
    assert judge([warn, budget()], need(), NOW, 9).lacks == "Warn"


def test_more_budgets_than_count_let_nobody_begin():
    """Each is written for each attempt: with thousands one task would keep a worker for minutes."""
    many = [budget(name=f"b{number:02d}", onExceeded="Warn") for number in range(MOST_BUDGETS + 1)]
    told = judge(many, need(), NOW, 9)
    assert (told.lacks, told.reason, told.budget) == ("Queue", "BudgetInvalid", "b20")
    assert told.message == "the namespace has more than 20 AgentBudgets; delete AgentBudget b20"
    assert judge(many[:-1], need(), NOW, 9).lacks is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"timeZone": "Mars/Base"}, "spec.timeZone: 'Mars/Base' is no time zone"),
        ({"maxCostUSD": "much"}, "spec.maxCostUSD: "),
        ({"maxCostUSD": float("nan")}, "spec.maxCostUSD: "),
        ({"period": "Yearly"}, "spec.period: "),
        ({"maxCostUSD": 1e300}, "spec.maxCostUSD: "),
    ],
)
def test_tasks_wait_for_a_budget_that_cannot_be_read(said, why):
    broken = budget(**said)
    told = judge([broken], need(), NOW, 9)
    assert (told.lacks, told.reason) == ("Queue", "BudgetInvalid")
    assert why in told.message
    ready = status_of(broken, broken.now(NOW), NOW).condition("Ready")
    assert (ready.status, ready.reason) == ("False", "InvalidSpec")


def test_no_limit_of_a_task_is_too_large_to_be_judged():
    assert judge([budget()], need(1e300), NOW, 9).lacks == "Queue"


@pytest.mark.parametrize("status", [None, [], "x", {"spentUSD": -1}, {"reservations": {"u": 1}}])
def test_a_status_that_nobody_can_read_counts_as_none(status):
    assert (
        Budget.of(
            {"metadata": {"name": "a", "uid": "b", "resourceVersion": "1"}, "status": status}
        ).ledger.used
        == 0
    )


def test_a_budget_says_when_a_good_part_is_spent_once_a_period():
    near = budget(FULL, warnAtPercent=95)
    status = status_of(near, near.now(NOW), NOW)
    assert status.condition("NearLimit").status == "True"
    assert status.condition("NearLimit").message == "95 % or more of 10 USD are spent"
    event = near_event(near, status)
    assert (event.kind, event.reason, event.number) == (
        *("Warning", "NearLimit"),
        int(START.timestamp()),
    )
    for other in (budget(FULL, warnAtPercent=96), budget(FULL)):
        assert near_event(other, status_of(other, other.now(NOW), NOW)) is None


def test_a_budget_says_when_nothing_is_left():
    for usd, flag in ((0.5, "True"), (0.4, "False")):
        full = budget(FULL)
        ledger = reserve(full.now(NOW), "u", held(usd))
        assert status_of(full, ledger, NOW).condition("Exceeded").status == flag


def test_a_write_says_only_what_is_new():
    once = written(reserve(EMPTY, "a", held(1)), micros(10), BudgetStatus())
    twice = written(reserve(read(once), "b", held(2)), micros(10), once)
    assert merge_patch(once.to_api(), twice.to_api()) == {
        "reservedUSD": 3.0,
        "availableUSD": 7.0,
        "reservations": {"b": {"task": "fix", "attempt": 1, "usd": 2.0, "over": False}},
    }
    less = written(settle(read(twice), "a", 1, 0), micros(10), twice)
    assert merge_patch(twice.to_api(), less.to_api())["reservations"] == {"a": None}
    assert merge_patch(less.to_api(), less.to_api()) == {}


def lacking(what, **more):
    text = "needs 1 USD, more than AgentBudget all has left"
    return Budgeted(budget="all", message=text, lacks=what, reason="BudgetExceeded", **more)


def test_a_task_that_does_not_fit_waits_without_a_slot():
    task = observed(budget=lacking("Queue", again=7))
    decision = decide(task)
    assert (decision.actions, decision.slot, decision.requeue_after) == ((), "leave", 7)
    assert (decision.status.phase, decision.status.reason) == ("Pending", "BudgetExceeded")
    assert decision.status.condition("BudgetReserved").status == "False"
    assert waits(task, decision)
    assert decide(ended(task)).status == decision.status, "said once"


def test_a_task_that_does_not_fit_is_cancelled_where_the_budget_says_so():
    decision = decide(observed(budget=lacking("Cancel")))
    assert (decision.status.phase, decision.status.reason) == ("Cancelled", "BudgetExceeded")
    assert decision.status.message.startswith("needs 1 USD")


def test_who_sent_the_entry_of_a_cancelled_task_is_answered():
    task = observed(budget=lacking("Cancel"), adopted={"entry": "1-0", "request_id": "theirs"})
    [publish] = decide(task).actions
    assert isinstance(publish, Publish)
    assert (publish.output.status, publish.output.reason) == ("cancelled", "BudgetExceeded")
    told = decide(task.model_copy(update=record(publish.output)))
    assert (told.status.phase, told.status.reason) == ("Cancelled", "BudgetExceeded")


def test_a_budget_that_only_warns_lets_it_begin_and_tells():
    decision = decide(observed(budget=lacking("Warn")))
    assert isinstance(decision.actions[0], StartAttempt)
    [event] = decision.events
    assert (event.kind, event.reason) == ("Warning", "BudgetExceeded")
    assert event.message.startswith("attempt 1 begins all the same: needs 1 USD")
    assert decision.status.condition("BudgetReserved") is None, "not yet"
    text = "1 USD of AgentBudget all, which had no room for it and only warns"
    over = Budgeted(budget="all", message=text, held=True, reason="BudgetExceeded")
    said = decide(running(budget=over, **record(output()))).status.condition("BudgetReserved")
    assert (said.status, said.reason, said.message) == ("True", "BudgetExceeded", text)


def test_what_waits_for_something_else_says_nothing_of_its_money():
    fits = judge([budget()], need(), NOW, 9)
    for told in (fits, lacking("Queue"), lacking("Warn")):
        waits_for_others = observed(budget=told, dependencies=Dependencies(waiting=("a",)))
        decision = decide(waits_for_others)
        assert decision.status.reason == "WaitingForDependencies"
        assert decision.status.condition("BudgetReserved") is None


def test_one_that_waited_for_a_budget_needs_its_dependencies_no_more():
    waited = ended(observed(budget=lacking("Queue")), budget=None)
    gone = waited.model_copy(update={"dependencies": Dependencies(missing=("b",))})
    assert isinstance(decide(gone).actions[0], StartAttempt)


def charge(task):
    return charge_of(task, decide(task))


def silent(status="failed", **changes):
    """An output that the operator publishes for a worker that has said nothing of its cost."""
    return output(status, **{"worker_id": None, "usage": None, "started_at": None} | changes)


def never_ran(status="failed", reason_before="Starting", **changes):
    """A task whose Job there was, until the operator published that for its worker."""
    before = TaskStatus(phase="Pending", attempts=1, reason=reason_before)
    return observed(jobs=(job(),), status=before, **record(silent(status, **changes)))


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        (observed(), None),
        (running(), None),
        (running(**record(output())), Charge(1, 0.25)),
        (running(**record(output("failed"))), Charge(1, 0.25)),
        (running(**record(output("input_required"))), Charge(1, 0.25)),
        (running(**record(output(usage=None))), Charge(1, None)),
        (running(**record(output("failed", worker_id=None))), Charge(1, 0.25, True)),
        (running(**record(silent())), Charge(1, None, True)),
        (never_ran(reason="ImagePullFailed"), Charge(1, 0.0)),
        (observed(**record(silent(reason="JobRejected"))), Charge(1, 0.0)),
        (never_ran(reason="PodDeleted"), Charge(1, None, True)),
        (never_ran("cancelled", reason="Cancelled"), Charge(1, None, True)),
        (never_ran("cancelled", "Suspended", reason="Cancelled"), Charge(1, 0.0)),
        (never_ran("cancelled", "Unschedulable", reason="Cancelled"), Charge(1, 0.0)),
        (never_ran(reason="ImagePullFailed", worker_id="team.fix-1"), Charge(1, None)),
        (running(**record(silent(reason="ImagePullFailed"))), Charge(1, None, True)),
        (observed(spec=spec(desiredState="Cancelled")), Charge(1, 0.0)),
        (observed(budget=lacking("Queue")), Charge(1, 0.0)),
        (observed(queue_error="away"), None),
        (observed(status=TaskStatus(phase="Failed", attempts=1)), Charge(None, None)),
        (running(deleting=True), None),
    ],
)
def test_what_is_settled_with_a_decision(task, wanted):
    assert charge(task) == wanted


def test_one_that_waited_and_begins_settles_nothing():
    task = ended(observed(budget=lacking("Queue")), budget=None)
    decision = decide(task)
    assert decision.starts
    assert not waits(task, decision)
    assert charge_of(task, decision) is None


def test_an_attempt_needs_the_limit_of_its_agent():
    task = observed(spec=spec(agent={"maxCostUSD": 2.5}))
    assert need_of(task, 3) == Need(uid=UID, task="fix", attempt=3, usd=2.5)
    assert need_of(observed(), 1).usd is None


def test_a_limit_that_its_agent_does_not_keep_makes_no_attempt_cheap():
    """codex tells no cost, so what it reserves is what it is charged."""
    cheap, dear = (
        need_of(observed(spec=spec(agent={"type": "codex", "maxCostUSD": usd})), 1)
        for usd in (0.000001, 5)
    )
    assert (budget().amount(cheap), budget().amount(dear)) == (micros(1), micros(5))
    kept = need_of(observed(spec=spec(agent={"type": "claude", "maxCostUSD": 0.5})), 1)
    assert budget().amount(kept) == micros(0.5)
