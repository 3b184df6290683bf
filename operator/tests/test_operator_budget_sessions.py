"""Sessions under AgentBudgets through the operator, a real Redis and a fake API server."""

import pytest
from support.budgets import amounts, ledger, put_budget, usd
from support.eventually import eventually
from support.fake_api import RefusedRequestError
from support.operator_crashes import Killer
from support.running_sessions import running_sessions
from support.talks import Talks, worker_id

from orbiter_contracts.queues import BARE

pytestmark = pytest.mark.integration
NAMESPACE = "team"
AGENT = {"type": "claude", "maxCostUSD": 0.5}


@pytest.fixture
def talks(world):
    return Talks(world.api, world.redis)


@pytest.fixture
async def operator(world):
    async with running_sessions(world.api, world.server, resync=0.2) as running:
        yield running


async def seen_budget(world, name="all", **spec):
    put_budget(world.api, name, **spec)
    await eventually(lambda: ledger(world.api, name).get("observedGeneration"))


async def until_amounts(world, *wanted, name="all"):
    """Wait until so much is spent, reserved and available."""
    try:
        await eventually(lambda: amounts(world.api, name) == wanted)
    except AssertionError:
        raise AssertionError(f"{ledger(world.api, name)} instead of {wanted}") from None


async def state_of(world, name):
    return await world.redis.hgetall(BARE.po_state(worker_id(name)))


def watch_the_sum(world, name="all"):
    """In no state of the budget was more used than there is."""
    for _, _, plural, obj in world.api.history:
        if plural == "agentbudgets" and obj["metadata"]["name"] == name and obj.get("status"):
            status = obj["status"]
            held = status.get("reservations") or {}
            used = usd(status["spentUSD"]) + sum(usd(each["usd"]) for each in held.values())
            assert used <= usd(obj["spec"]["maxCostUSD"]), status


async def test_an_awake_session_reserves_a_turn_and_is_charged_what_each_has_cost(
    world, operator, talks
):
    await seen_budget(world, maxCostUSD=2)
    obj = talks.apply("alice", agent=AGENT, idle={"scaleToZeroAfterSeconds": 600})
    await talks.until("alice", "Asleep")
    assert amounts(world.api) == (0.0, 0.0, 2.0)
    await talks.send("alice", "cost=0.25")
    await talks.answered("alice")
    await until_amounts(world, 0.25, 0.5, 1.25)
    [(uid, held)] = ledger(world.api)["reservations"].items()
    assert (uid, held["task"], held["attempt"]) == (obj["metadata"]["uid"], "alice", 2)
    assert held["session"] == {"costUSD": 0.25, "unpriced": 0}
    said = await talks.until_reason("alice", "Reserved", "BudgetReserved")
    assert (said["status"], said["message"]) == ("True", "0.5 USD of AgentBudget all")
    await talks.send("alice", "unpriced")
    await talks.answered("alice", 2)
    await until_amounts(world, 0.75, 0.5, 0.75)
    # The ledger comes first, then the status.
    await eventually(lambda: talks.status("alice").get("unpriced") == 1)
    talks.change("alice", idle={"scaleToZeroAfterSeconds": 0})
    await until_amounts(world, 0.75, 0.0, 1.25)
    assert not ledger(world.api)["reservations"]


async def test_money_is_put_aside_and_told_before_the_session_is_woken(world, operator, talks):
    await seen_budget(world, maxCostUSD=2)
    talks.apply("alice", agent=AGENT)
    await talks.until("alice", "Asleep")
    seen = []

    async def look(verb, plural, body):
        if (verb, plural) == ("patch", "deployments") and body["spec"].get("replicas") == 1:
            seen.append((amounts(world.api)[1], (await state_of(world, "alice"))["turns_allowed"]))

    world.api.before = look
    await talks.send("alice", "cost=0.1")
    await talks.answered("alice")
    assert seen == [(0.5, "1")]


async def test_messages_wait_for_money_and_are_answered_when_there_is_more(world, operator, talks):
    await seen_budget(world, maxCostUSD=0.7)
    talks.apply("alice", agent=AGENT)
    await talks.until("alice", "Asleep")
    for _ in range(3):
        await talks.send("alice", "cost=0.25")
    status = await talks.until("alice", "Waiting")
    assert await talks.answered("alice") == ["re: cost=0.25"]
    assert (amounts(world.api)[:2], status["pendingMessages"]) == ((0.25, 0.0), 2)
    available = talks.condition("alice", "Available")
    assert available["reason"] == "BudgetExceeded"
    assert "needs 0.5 USD, more than AgentBudget all has left" in available["message"]
    assert talks.condition("alice", "BudgetReserved")["status"] == "False"
    await eventually(lambda: ("BudgetExceeded", available["message"]) in talks.events("alice"))
    assert talks.replicas("alice") == 0
    put_budget(world.api, maxCostUSD=5)
    await talks.answered("alice", 3)
    await until_amounts(world, 0.75, 0.0, 4.25)
    watch_the_sum(world)


async def test_messages_that_wait_are_answered_in_the_next_period(world, operator, talks):
    await seen_budget(world, maxCostUSD=0.5)
    talks.apply("alice", agent=AGENT)
    await talks.send("alice", "cost=0.25")
    await talks.send("alice", "cost=0.1")
    await talks.until("alice", "Waiting")
    over = {"periodStart": "2020-01-01T00:00:00.000Z", "periodEnd": "2020-02-01T00:00:00.000Z"}
    world.api.patch("agentbudgets", NAMESPACE, "all", {"status": over})
    put_budget(world.api, maxCostUSD=0.5, warnAtPercent=99)
    await talks.answered("alice", 2)
    await until_amounts(world, 0.1, 0.0, 0.4)


async def test_a_budget_that_cancels_answers_each_message_with_its_name(world, operator, talks):
    await seen_budget(world, maxCostUSD=0.6, onExceeded="Cancel")
    talks.apply("alice", agent=AGENT)
    requests = [await talks.send("alice", "cost=0.25") for _ in range(3)]
    await world.redis.xadd(BARE.po_input(worker_id("alice")), {"data": '{"prompt": "x"'})
    await talks.answered("alice", 4)
    first, *others = await talks.answers("alice")
    assert (first.request_id, first.status) == (requests[0], "success")
    assert [each.request_id for each in others[:2]] == requests[1:]
    for each in others:
        assert (each.status, each.reason, each.is_final) == ("error", "BudgetExceeded", True)
        assert "AgentBudget all" in each.error
    await talks.until("alice", "Asleep")
    assert talks.status("alice")["pendingMessages"] == 0
    assert world.sessions.runs.total() == 1
    await until_amounts(world, 0.25, 0.0, 0.35)


async def test_a_budget_that_warns_lets_the_session_go_on(world, operator, talks):
    await seen_budget(world, maxCostUSD=0, onExceeded="Warn")
    talks.apply("alice", agent=AGENT, idle={"scaleToZeroAfterSeconds": 600})
    await talks.send("alice", "cost=0.25")
    await talks.answered("alice")
    said = await talks.until_reason("alice", "BudgetExceeded", "BudgetReserved")
    assert said["status"] == "True"
    assert talks.condition("alice", "Available")["status"] == "True"
    await eventually(lambda: ("BudgetExceeded", said["message"]) in talks.events("alice"))
    await until_amounts(world, 0.25, 0.5, 0.0)


async def test_a_worker_that_dies_costs_its_reservation_each_time(world, operator, talks):
    await seen_budget(world, maxCostUSD=5)
    talks.apply("alice", agent=AGENT)
    await talks.send("alice", "crash")
    await talks.answered("alice")
    # It dies twice, and at its third delivery it is answered without dying.
    await until_amounts(world, 1.0, 0.0, 4.0)
    watch_the_sum(world)


async def test_a_message_that_its_worker_died_of_waits_for_money_too(world, operator, talks):
    await seen_budget(world, maxCostUSD=0.9)
    talks.apply("alice", agent=AGENT)
    await talks.send("alice", "crash")
    await talks.until("alice", "Waiting")
    assert amounts(world.api)[:2] == (0.5, 0.0)
    put_budget(world.api, maxCostUSD=5)
    await talks.answered("alice")


async def test_a_turn_has_money_of_all_budgets_or_of_none(world, operator, talks):
    await seen_budget(world, "day", maxCostUSD=5)
    await seen_budget(world, "month", maxCostUSD=0.1)
    talks.apply("alice", agent=AGENT)
    await talks.send("alice", "cost=0.25")
    await talks.until("alice", "Waiting")
    assert "AgentBudget month" in talks.condition("alice", "Available")["message"]
    assert not ledger(world.api, "day").get("reservations")
    put_budget(world.api, "month", maxCostUSD=1)
    await talks.answered("alice")
    for name, left in (("day", 4.75), ("month", 0.75)):
        await until_amounts(world, 0.25, 0.0, left, name=name)


async def test_a_session_that_was_awake_before_there_was_a_budget_is_in_it_from_then_on(
    world, operator, talks
):
    talks.apply("alice", agent=AGENT, idle={"scaleToZeroAfterSeconds": 600})
    await talks.send("alice", "cost=4")
    await talks.answered("alice")
    await eventually(lambda: talks.status("alice").get("usage", {}).get("costUSD") == 4)
    assert "turns_allowed" not in await state_of(world, "alice")
    await seen_budget(world, maxCostUSD=1)
    await until_amounts(world, 0.0, 0.5, 0.5)
    await talks.send("alice", "cost=0.25")
    await talks.answered("alice", 2)
    await until_amounts(world, 0.25, 0.5, 0.25)
    world.api.remove("agentbudgets", NAMESPACE, "all")

    async def free():
        return "turns_allowed" not in await state_of(world, "alice")

    await eventually(free)


async def test_a_deleted_session_is_charged_what_it_has_cost(world, operator, talks):
    await seen_budget(world, maxCostUSD=5)
    for name in ("idle", "busy"):
        talks.apply(name, agent=AGENT, idle={"scaleToZeroAfterSeconds": 600})
        await talks.send(name, "cost=0.25")
        await talks.answered(name)
    await until_amounts(world, 0.5, 1.0, 3.5)
    await talks.send("busy", "sleep=0.5 crash")
    await talks.until_in_turn("busy")
    for name in ("idle", "busy"):
        talks.delete(name)
    await until_amounts(world, 1.0, 0.0, 4.0)


async def test_without_a_budget_no_request_more_is_made(world, operator, talks):
    talks.apply("alice", agent=AGENT)
    await talks.send("alice", "cost=0.25")
    await talks.answered("alice")
    await talks.until("alice", "Asleep")
    asked = {verb for verb, plural in world.api.requests if plural == "agentbudgets"}
    assert asked == {"list"}
    assert talks.condition("alice", "BudgetReserved") == {}


async def test_without_the_right_to_write_budgets_a_session_stays_asleep_and_says_so(
    world, operator, talks
):
    await seen_budget(world, maxCostUSD=5)

    async def forbidden(verb, plural, body):
        if (verb, plural) == ("patch", "agentbudgets"):
            raise RefusedRequestError(403, "Forbidden", "agentbudgets/status is forbidden")

    world.api.before = forbidden
    talks.apply("alice", agent=AGENT)
    await talks.until("alice", "Asleep")
    await talks.send("alice", "cost=0.25")
    await talks.until_reason("alice", "Forbidden")
    assert talks.replicas("alice") == 0


STEPS = [
    ("before", "patch", "agentbudgets"),
    ("after", "patch", "agentbudgets"),
    ("before", "patch", "deployments"),
    ("after", "patch", "deployments"),
    ("before", "patch", "posessions"),
    ("after", "patch", "posessions"),
]


@pytest.mark.parametrize(("when", "verb", "plural"), STEPS)
@pytest.mark.timeout(600)
async def test_a_killed_operator_neither_loses_a_turn_nor_charges_it_twice(
    world, talks, when, verb, plural
):
    put_budget(world.api, maxCostUSD=2)
    killer = Killer(world, when, verb, plural, 5)
    await killer.start()
    names = [f"s-{number}" for number in range(4)]
    for name in names:
        talks.apply(name, agent=AGENT)
    for name in names:
        for prompt in ("cost=0.125", "unpriced", "cost=0.0625"):
            await talks.send(name, prompt)

    # Four times 0.6875 are more than there is: whoever comes last waits.
    async def is_settled():
        found = [await state_of(world, name) for name in names]
        told = sum(float(each.get("cost_usd", 0)) for each in found)
        unknown = sum(int(each.get("unpriced", 0)) for each in found)
        over = all(each.get("asked") == each.get("settled") for each in found)
        waits = [talks.status(name).get("phase") for name in names]
        return (
            over
            and "Waiting" in waits
            and set(waits) <= {"Asleep", "Waiting"}
            and amounts(world.api)[:2] == (told + unknown * 0.5, 0.0)
        )

    try:
        await eventually(is_settled, seconds=240)
    except AssertionError:
        found = {name: (talks.status(name), await state_of(world, name)) for name in names}
        raise AssertionError(f"{ledger(world.api)}\n{found}") from None
    watch_the_sum(world)
    put_budget(world.api, maxCostUSD=10)
    for name in names:
        await talks.answered(name, 3, seconds=240)
    await until_amounts(world, 2.75, 0.0, 7.25)
    assert killer.restarting is not None, "the step never came"
    assert set(world.sessions.runs.values()) == {1}
    watch_the_sum(world)
