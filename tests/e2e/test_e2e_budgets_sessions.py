"""Sessions under an AgentBudget on the cluster, with the real CLI: each turn is paid for once."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.cluster import Object
from support.session_world import SessionWorld, clear_sessions, front_end
from support.world import NAMESPACE, SYSTEM, World

pytestmark = pytest.mark.e2e
RUN = uuid.uuid4().hex[:4]
NOW = ("--grace-period=0", "--force", "--wait=false")
OPERATORS = "app.kubernetes.io/component=operator"


@pytest.fixture(scope="module")
def talks(world: World) -> Iterator[SessionWorld]:
    clear_sessions(world)
    with front_end(world) as redis:
        yield SessionWorld(world, redis)
    clear_sessions(world)


def put_budget(talks: SessionWorld, name: str, most: float, **more: str) -> None:
    talks.world.apply(
        {
            "apiVersion": "orbiter.dev/v1alpha1",
            "kind": "AgentBudget",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"maxCostUSD": most, "defaultTaskUSD": 1, **more},
        }
    )


def ledger(talks: SessionWorld, name: str) -> Object:
    found: Object = talks.world.cluster.get("agentbudget", name, NAMESPACE).get("status") or {}
    return found


@contextmanager
def budget(talks: SessionWorld, name: str, most: float, **more: str) -> Iterator[None]:
    put_budget(talks, name, most, **more)
    try:
        talks.world.until("it has an account", lambda: ledger(talks, name).get("periodEnd"))
        yield
    finally:
        talks.world.kubectl("-n", NAMESPACE, "delete", "agentbudget", name)


def cost(talks: SessionWorld, *names: str) -> float:
    usages = (talks.status(name).get("usage") or {} for name in names)
    return sum(float(usage.get("costUSD") or 0) for usage in usages)


def test_messages_wait_for_money_and_are_answered_when_there_is_more(talks: SessionWorld) -> None:
    """One turn fits, and when it has cost anything the next one does not."""
    name = f"paid-{RUN}"
    with budget(talks, name, 1):
        talks.apply(name)
        assert talks.ask(name, "[[say: one]]").status == "success"
        second = talks.send(name, "[[say: two]]")
        status = talks.wait(name, "Waiting")
        [available] = [each for each in status["conditions"] if each["type"] == "Available"]
        assert available["reason"] == "BudgetExceeded"
        assert f"AgentBudget {name}" in available["message"]
        talks.world.until("its pod is gone", lambda: talks.pods(name) == [])
        put_budget(talks, name, 10)
        assert talks.answer(name, second).text == "two"
        talks.wait(name, "Asleep")
        talks.world.until("nothing is reserved", lambda: not ledger(talks, name)["reservedUSD"])
        assert ledger(talks, name)["spentUSD"] == pytest.approx(cost(talks, name), abs=1e-5)


def test_a_budget_that_cancels_answers_for_the_worker(talks: SessionWorld) -> None:
    name = f"refused-{RUN}"
    with budget(talks, name, 0.5, onExceeded="Cancel"):
        talks.apply(name)
        answer = talks.ask(name, "[[say: never]]")
        assert (answer.status, answer.reason) == ("error", "BudgetExceeded")
        assert f"AgentBudget {name}" in (answer.error or "")
        assert talks.pods(name) == []
        assert not ledger(talks, name).get("spentUSD")


@pytest.mark.timeout(400)
def test_each_turn_is_charged_once_whoever_is_killed(talks: SessionWorld) -> None:
    """There is money for two turns at a time; a worker that is killed has cost its reservation."""
    name, names = f"once-{RUN}", [f"once-{RUN}-{number}" for number in range(3)]
    most: list[float] = []

    def used() -> Object:
        status = ledger(talks, name)
        most.append(float(status.get("spentUSD") or 0) + float(status.get("reservedUSD") or 0))
        return status

    with budget(talks, name, 2.9):
        talks.apply(*names)
        asked = {each: [talks.send(each, f"[[say: {word}]]") for word in "abc"] for each in names}
        for each in names:
            talks.world.kubectl("-n", SYSTEM, "delete", "pods", "-l", OPERATORS, *NOW)
            talks.world.until("something is used", lambda: used()["availableUSD"] is not None)
            talks.answer(each, asked[each][-1])
        for each in names:
            talks.answered_once(each, asked[each])
            talks.wait(each, "Asleep")
        talks.world.until("nothing is reserved", lambda: not used()["reservedUSD"])
        unpriced = sum(int(talks.status(each).get("unpriced") or 0) for each in names)
        assert used()["spentUSD"] == pytest.approx(cost(talks, *names) + unpriced, abs=1e-5)
        assert max(most) <= 2.9
