"""Tasks under AgentBudgets through the real program, a real Redis and a fake API server."""

import pytest
from support.budgets import amounts, ledger, put_budget, usd
from support.eventually import eventually
from support.fake_api import RefusedRequestError
from support.operator_crashes import Killer, check_promises

from orbiter_operator.budgets.models import MOST_BUDGETS

pytestmark = pytest.mark.integration
NAMESPACE = "team"
AGENT = {"type": "claude", "maxCostUSD": 0.01}
"""A worker of `fake_node` says that it has cost 0.01 USD."""


async def seen_budget(world, name="all", **spec):
    """The same, and the operator has it: budgets and tasks come by two watches."""
    put_budget(world.api, name, **spec)
    await eventually(lambda: ledger(world.api, name))


def condition(world, name, kind="BudgetReserved"):
    found = world.status(name).get("conditions", [])
    return next((item for item in found if item["type"] == kind), None)


async def test_a_task_reserves_its_limit_and_spends_what_it_has_cost(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=1)
    obj = world.apply("fix", "ok sleep=0.3", agent={"type": "claude", "maxCostUSD": 0.5})
    await world.until("fix", "Running")
    assert amounts(world.api) == (0.0, 0.5, 0.5)
    [(uid, held)] = ledger(world.api)["reservations"].items()
    assert uid == obj["metadata"]["uid"]
    assert held == {"task": "fix", "attempt": 1, "usd": 0.5, "over": False}
    said = condition(world, "fix")
    assert (said["status"], said["message"]) == ("True", "0.5 USD of AgentBudget all")
    await world.until("fix", "Completed")
    assert amounts(world.api) == (0.01, 0.0, 0.99)
    assert not ledger(world.api)["reservations"]


async def test_a_task_that_does_not_fit_waits_and_begins_when_there_is_more(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=0.015)
    world.apply("first", agent=AGENT)
    await world.until("first", "Completed")
    world.apply("second", agent=AGENT)
    status = await world.until_reason("second", "BudgetExceeded")
    assert status["phase"] == "Pending"
    end = ledger(world.api)["periodEnd"].partition(".")[0].removesuffix(":00")
    assert status["message"] == (
        f"needs 0.01 USD, more than AgentBudget all has left of its 0.015 USD until {end}Z"
    )
    assert condition(world, "second")["status"] == "False"
    await eventually(lambda: world.events("second") == ["BudgetExceeded"])
    await seen_budget(world, maxCostUSD=0.02)
    await world.until("second", "Completed")
    assert amounts(world.api) == (0.02, 0.0, 0.0)


def watch_the_sum(world, name="all"):
    """Every status that a budget has had, and the Jobs that there were: what must always hold."""
    jobs: set[str] = set()
    reserved: set[tuple[str, int]] = set()
    most = 0
    for _, change, plural, obj in world.api.history:
        if plural == "agentbudgets" and obj["metadata"]["name"] == name and obj.get("status"):
            status = obj["status"]
            held = status.get("reservations") or {}
            sums = usd(status["spentUSD"]) + sum(usd(each["usd"]) for each in held.values())
            assert sums <= usd(obj["spec"]["maxCostUSD"]), status
            assert usd(status["reservedUSD"]) == sums - usd(status["spentUSD"])
            most = max(most, sums)
            reserved |= {(uid, each["attempt"]) for uid, each in held.items()}
        elif plural == "jobs" and change == "ADDED":
            jobs.add(obj["metadata"]["name"])
            labels = obj["metadata"]["labels"]
            uid, attempt = labels["orbiter.dev/agenttask-uid"], labels["orbiter.dev/attempt"]
            assert (uid, int(attempt)) in reserved, "a Job before its reservation"
    return jobs, most


STEPS = [
    ("before", "patch", "agentbudgets"),
    ("after", "patch", "agentbudgets"),
    ("before", "create", "jobs"),
    ("after", "create", "jobs"),
    ("before", "patch", "agenttasks"),
    ("after", "patch", "agenttasks"),
]


@pytest.mark.parametrize(("when", "verb", "plural"), STEPS)
async def test_fifty_tasks_against_a_budget_for_ten_survive_a_kill(world, when, verb, plural):
    put_budget(world.api, maxCostUSD=0.1)
    killer = Killer(world, when, verb, plural, 7, max_concurrent_jobs=50)
    await killer.start()
    names = [f"task-{number:02d}" for number in range(50)]
    for name in names:
        world.apply(name, "ok sleep=0.05", agent=AGENT)

    def settled():
        phases = [world.status(name).get("phase") for name in names]
        reasons = [world.status(name).get("reason") for name in names]
        done, waits = phases.count("Completed"), reasons.count("BudgetExceeded")
        return (done, waits) == (10, 40)

    await eventually(settled, seconds=60)
    assert killer.restarting is not None, "the step never came"
    await eventually(lambda: amounts(world.api) == (0.1, 0.0, 0.0))
    jobs, most = watch_the_sum(world)
    assert (len(jobs), most) == (10, usd(0.1))
    await check_promises(world, [name for name in names if world.phases(name)[-1] == "Completed"])
    assert len(world.node.runs) == 10


async def test_those_that_wait_begin_when_the_period_ends(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=0.01)
    world.apply("first", agent=AGENT)
    await world.until("first", "Completed")
    world.apply("second", agent=AGENT)
    await world.until_reason("second", "BudgetExceeded")
    over = {"periodStart": "2020-01-01T00:00:00.000Z", "periodEnd": "2020-02-01T00:00:00.000Z"}
    world.api.patch("agentbudgets", NAMESPACE, "all", {"status": over})
    await seen_budget(world, maxCostUSD=0.01, warnAtPercent=100)
    await world.until("second", "Completed")
    assert amounts(world.api) == (0.01, 0.0, 0.0)
    await eventually(lambda: world.events("all") == ["NearLimit"])


async def test_each_attempt_reserves_and_all_of_them_are_spent_once(world):
    killer = Killer(world, "after", "patch", "agentbudgets", 2)
    put_budget(world.api, maxCostUSD=1)
    await killer.start()
    retry = {"limit": 2, "backoffSeconds": 1}
    world.apply("flaky", "flaky=1 sleep=0.1", agent=AGENT, retry=retry)
    status = await world.until("flaky", "Completed", seconds=40)
    assert (status["attempts"], status["usage"]["costUSD"]) == (2, 0.02)
    assert amounts(world.api) == (0.02, 0.0, 0.98)
    watch_the_sum(world)


async def test_another_attempt_waits_for_money_too(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=0.015)
    retry = {"limit": 1, "backoffSeconds": 1}
    world.apply("flaky", "flaky=1", agent=AGENT, retry=retry)
    status = await world.until_reason("flaky", "BudgetExceeded")
    assert (status["phase"], status["attempts"]) == ("Pending", 1)
    await seen_budget(world, maxCostUSD=0.02)
    status = await world.until("flaky", "Completed")
    assert status["attempts"] == 2
    assert amounts(world.api) == (0.02, 0.0, 0.0)


async def test_a_disruption_costs_nothing_more(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=1)
    world.apply("moved", "once hang", agent={"type": "claude", "maxCostUSD": 0.5})
    await world.until("moved", "Running")
    [(_, name)] = world.api.objects["pods"]
    world.node.evict_pod(NAMESPACE, name)
    await world.until("moved", "Completed", seconds=60)
    assert amounts(world.api) == (0.01, 0.0, 0.99)


async def test_a_worker_that_died_has_cost_all_that_it_might(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=1)
    world.apply("dies", "oom sleep=0.1", agent={"type": "claude", "maxCostUSD": 0.3})
    await world.until("dies", "Failed")
    assert amounts(world.api) == (0.3, 0.0, 0.7)


async def test_a_deleted_task_has_cost_all_that_it_might(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=1)
    world.apply("gone", "hang", agent={"type": "claude", "maxCostUSD": 0.3})
    await world.until("gone", "Running")
    world.api.remove("agenttasks", NAMESPACE, "gone")
    await eventually(lambda: amounts(world.api) == (0.3, 0.0, 0.7))


async def test_a_task_deleted_while_no_operator_was_there_has_cost_all_that_it_might(world):
    operator = await world.start_operator()
    await seen_budget(world, maxCostUSD=1)
    world.apply("gone", "hang")
    await world.until("gone", "Running")
    assert amounts(world.api) == (0.0, 0.05, 0.95)
    await operator.end()
    world.api.remove("agenttasks", NAMESPACE, "gone")
    await operator.start()
    await eventually(lambda: amounts(world.api) == (0.05, 0.0, 0.95))


async def test_what_a_task_has_spent_outlives_it(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=1)
    world.apply("short", agent=AGENT)
    await world.until("short", "Completed")
    world.api.remove("agenttasks", NAMESPACE, "short")
    world.apply("short", agent=AGENT)
    await eventually(lambda: amounts(world.api) == (0.02, 0.0, 0.98))


async def test_a_budget_that_cancels_and_one_that_warns(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=0, onExceeded="Warn")
    world.apply("warned", "ok sleep=0.2", agent=AGENT)
    await world.until("warned", "Completed")
    # An Event is posted behind the status that it tells of.
    await eventually(lambda: world.events("warned") == ["BudgetExceeded", "Completed"])
    said = condition(world, "warned")
    assert (said["status"], said["reason"]) == ("True", "BudgetExceeded")
    assert amounts(world.api) == (0.01, 0.0, 0.0)
    await seen_budget(world, "strict", maxCostUSD=0, onExceeded="Cancel")
    world.apply("cancelled", agent=AGENT)
    status = await world.until("cancelled", "Cancelled")
    assert status["reason"] == "BudgetExceeded"
    assert world.api.get("jobs", NAMESPACE, "cancelled-1") is None


async def test_an_attempt_has_money_of_all_budgets_or_of_none(world):
    await world.start_operator()
    await seen_budget(world, "day", period="Daily", maxCostUSD=1)
    await seen_budget(world, "month", maxCostUSD=0.005)
    world.apply("fix", "ok sleep=0.2", agent=AGENT)
    status = await world.until_reason("fix", "BudgetExceeded")
    assert "AgentBudget month" in status["message"]
    assert not ledger(world.api, "day").get("reservations")
    await seen_budget(world, "month", maxCostUSD=0.01)
    await world.until("fix", "Completed")
    assert (amounts(world.api, "day")[0], amounts(world.api, "month")[0]) == (0.01, 0.01)


async def test_a_task_that_is_cancelled_before_its_job_gives_its_money_back(world):
    async def full(verb, plural, body):
        if (verb, plural) == ("create", "jobs"):
            raise RefusedRequestError(403, "Forbidden", "exceeded quota: pods")

    world.api.before = full
    await world.start_operator()
    await seen_budget(world, maxCostUSD=1)
    world.apply("held", agent=AGENT)
    await world.until_reason("held", "QuotaExceeded")
    assert amounts(world.api) == (0.0, 0.01, 0.99)
    world.api.patch("agenttasks", NAMESPACE, "held", {"spec": {"desiredState": "Cancelled"}})
    await world.until("held", "Cancelled")
    assert amounts(world.api) == (0.0, 0.0, 1.0)


async def test_a_task_that_is_cancelled_before_its_pod_begins_has_cost_nothing(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=1)
    world.apply("stuck", "unschedulable", agent=AGENT)
    await world.until_reason("stuck", "Unschedulable")
    assert amounts(world.api) == (0.0, 0.01, 0.99)
    world.api.patch("agenttasks", NAMESPACE, "stuck", {"spec": {"desiredState": "Cancelled"}})
    await world.until("stuck", "Cancelled")
    assert amounts(world.api) == (0.0, 0.0, 1.0)


async def test_without_the_right_to_write_budgets_a_task_waits_and_says_so(world):
    async def forbidden(verb, plural, body):
        if (verb, plural) == ("patch", "agentbudgets"):
            raise RefusedRequestError(403, "Forbidden", "agentbudgets/status is forbidden")

    world.api.before = forbidden
    put_budget(world.api)
    await world.start_operator()
    world.apply("poor", agent=AGENT)
    status = await world.until_reason("poor", "Forbidden")
    assert (status["phase"], world.api.objects["jobs"]) == ("Pending", {})


async def test_a_budget_that_cannot_be_used_holds_its_tasks_until_it_is_mended(world):
    await world.start_operator()
    await seen_budget(world, timeZone="Mars/Base")
    world.apply("held", agent=AGENT)
    status = await world.until_reason("held", "BudgetInvalid")
    assert "is no time zone that this operator knows" in status["message"]
    await eventually(lambda: ledger(world.api)["conditions"][0]["status"] == "False")
    await seen_budget(world, timeZone="Europe/Berlin")
    await world.until("held", "Completed")
    world.api.remove("agentbudgets", NAMESPACE, "all")


async def test_a_crowd_of_budgets_holds_its_tasks_and_is_not_written_for_them(world):
    await world.start_operator()
    names = [f"b{number:02d}" for number in range(MOST_BUDGETS + 20)]
    for name in names:
        await seen_budget(world, name, maxCostUSD=1)
    world.apply("held", agent=AGENT)
    status = await world.until_reason("held", "BudgetInvalid")
    assert status["message"].startswith("the namespace has more than 20 AgentBudgets; delete")
    for name in names[MOST_BUDGETS:]:
        assert not ledger(world.api, name).get("reservations")
        world.api.remove("agentbudgets", NAMESPACE, name)
    await world.until("held", "Completed")
    assert {amounts(world.api, name) for name in names[:MOST_BUDGETS]} == {(0.01, 0.0, 0.99)}


async def test_a_task_in_a_namespace_without_a_budget_costs_no_request_more(world):
    await world.start_operator()
    world.apply("plain", agent=AGENT)
    await world.until("plain", "Completed")
    asked = {verb for verb, plural in world.api.requests if plural == "agentbudgets"}
    assert asked == {"list"}
    assert condition(world, "plain") is None


async def test_those_that_wait_go_on_when_the_budget_is_deleted(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=0)
    world.apply("held", agent=AGENT)
    await world.until_reason("held", "BudgetExceeded")
    world.api.remove("agentbudgets", NAMESPACE, "all")
    await world.until("held", "Completed")


async def test_money_that_comes_back_goes_to_who_waits(world):
    await world.start_operator()
    await seen_budget(world, maxCostUSD=0.5)
    half = {"type": "claude", "maxCostUSD": 0.5}
    world.apply("first", "ok sleep=0.3", agent=half)
    await world.until("first", "Running")
    world.apply("second", agent={"type": "claude", "maxCostUSD": 0.4})
    await world.until_reason("second", "BudgetExceeded")
    await world.until("second", "Completed")
    assert amounts(world.api) == (0.02, 0.0, 0.48)
    watch_the_sum(world)


@pytest.mark.parametrize("nth", [1, 2])
async def test_an_answer_that_got_lost_changes_nothing_twice(world, nth):
    """The first write of a task is its reservation, the second its end."""
    put_budget(world.api, maxCostUSD=1)
    await world.start_operator()
    await eventually(lambda: amounts(world.api) == (0.0, 0.0, 1.0))
    seen = []

    async def lost(verb, plural, body):
        if (verb, plural) == ("patch", "agentbudgets"):
            seen.append(body)
            if len(seen) == nth:
                raise RefusedRequestError(500, "InternalError", "etcd is slow today")

    world.api.after = lost
    world.apply("fix", agent=AGENT)
    await world.until("fix", "Completed")
    assert amounts(world.api) == (0.01, 0.0, 0.99)
    assert len(world.node.runs) == 1


async def test_a_budget_that_is_changed_meanwhile_is_thought_over_again(world):
    """A person lowers it between the operator's last look and its write."""
    put_budget(world.api, maxCostUSD=1)
    await world.start_operator()
    await eventually(lambda: amounts(world.api) == (0.0, 0.0, 1.0))

    async def lower(verb, plural, body):
        if (verb, plural) == ("patch", "agentbudgets") and "reservations" in body["status"]:
            put_budget(world.api, maxCostUSD=0.005)

    world.api.before = lower
    world.apply("fix", agent=AGENT)
    await world.until_reason("fix", "BudgetExceeded")
    assert world.api.objects["jobs"] == {}
    assert amounts(world.api)[:2] == (0.0, 0.0)


async def test_an_attempt_that_began_before_there_was_a_budget_is_not_in_it(world):
    await world.start_operator()
    world.apply("begun", "flaky=1 sleep=0.3", agent=AGENT, retry={"limit": 1, "backoffSeconds": 1})
    await world.until("begun", "Running")
    await seen_budget(world, maxCostUSD=1)
    status = await world.until("begun", "Completed")
    assert (status["attempts"], status["usage"]["costUSD"]) == (2, 0.02)
    assert amounts(world.api) == (0.01, 0.0, 0.99)
