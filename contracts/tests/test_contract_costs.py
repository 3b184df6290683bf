"""What tasks and sessions have cost, summed up: the one table of cases for whoever sums."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orbiter_contracts.costs import BUDGET, NONE, OTHER, Cost, cost_of, label_in, sum_costs
from orbiter_contracts.costs import read_keys as keys_of

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
MONTH = NOW - timedelta(days=30)


def task(usd: Any = 1.0, *, namespace: str = "a", days: float = 0, **more: Any) -> dict[str, Any]:
    usage = {"costUSD": usd, "inputTokens": 100, "outputTokens": 10}
    ended = (NOW - timedelta(days=days)).isoformat()
    labels = more.pop("labels", {})
    return {
        "metadata": {"name": "t", "namespace": namespace, "labels": labels},
        "spec": {"agent": {"type": more.pop("agent", "claude")}},
        "status": {"attempts": 1, "completionTime": ended, "usage": usage, **more},
    }


def session(usd: Any = 8.0, **more: Any) -> dict[str, Any]:
    usage = {} if usd is None else {"costUSD": usd}
    status = {"turns": 3, "lastActivityTime": NOW.isoformat(), "usage": usage, **more}
    return {"metadata": {"namespace": "a"}, "spec": {"userId": 7}, "status": status}


def rows(*costs: Cost, by: str = "namespace", most: int | None = None) -> list[tuple[Any, ...]]:
    found, _ = sum_costs(costs, keys_of(by), MONTH, most=most)
    return [(*row.keys, row.usd, row.tasks, row.sessions, row.without_cost) for row in found]


def test_turns_of_a_session_without_a_cost_are_counted_beside_those_that_told_one() -> None:
    assert cost_of(session(8.0, unpriced=2), "session").without_cost == 2
    assert cost_of(session(None, unpriced=5), "session").without_cost == 5
    assert cost_of(session(None), "session").without_cost == 3
    assert cost_of(task(1.0, unpriced=2), "task").without_cost == 0


def tasks(*items: dict[str, Any]) -> list[Cost]:
    return [cost_of(item, "task") for item in items]


SOME = [
    *tasks(
        task(1.0, labels={"team": "red"}),
        task(0.5, days=2, labels={"team": "blue"}),
        task(64.0, days=40),
        task(4.0, namespace="b", agent="codex"),
    ),
    cost_of(session(), "session"),
]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("namespace", [("a", 9.5, 2, 1, 0), ("b", 4.0, 1, 0, 0)]),
        ("agent", [(NONE, 8.0, 0, 1, 0), ("codex", 4.0, 1, 0, 0), ("claude", 1.5, 2, 0, 0)]),
        ("kind", [("session", 8.0, 0, 1, 0), ("task", 5.5, 3, 0, 0)]),
        ("label:team", [(NONE, 12.0, 1, 1, 0), ("red", 1.0, 1, 0, 0), ("blue", 0.5, 1, 0, 0)]),
        ("day", [("2026-11-26", 0.5, 1, 0, 0), ("2026-11-28", 5.0, 2, 0, 0)]),
        (
            "namespace,label:team",
            [("a", NONE, 8.0, 0, 1, 0), ("b", NONE, 4.0, 1, 0, 0),
             ("a", "red", 1.0, 1, 0, 0), ("a", "blue", 0.5, 1, 0, 0)],
        ),
    ],
)  # fmt: skip
def test_costs_are_summed_by_one_key_or_several(by: str, expected: list[Any]) -> None:
    assert rows(*SOME, by=by) == expected


def test_the_total_is_of_all_rows_also_of_those_that_are_put_together() -> None:
    many = tasks(*(task(1 + n, labels={"l": f"v{n}"}) for n in range(50)))
    found, total = sum_costs(many, ("label:l",), MONTH, most=10)
    assert len(found) == 11
    assert (found[-1].keys, found[-1].tasks) == ((OTHER,), 40)
    assert total.usd == sum(row.usd for row in found) == sum(range(1, 51))
    assert (total.tasks, total.keys) == (50, ("",))


def test_sums_do_not_depend_on_the_order() -> None:
    many = tasks(*(task(each) for each in [0.1, 1e9, 0.2, 1e-9, 0.3] * 20))
    assert rows(*many)[0][1] == rows(*reversed(many))[0][1]


@pytest.mark.parametrize(
    ("cost", "untold"),
    [
        (cost_of(task(None, attempts=3), "task"), 3),
        (cost_of(task(usage=None, attempts=2), "task"), 2),
        (cost_of(task(0.0, attempts=2), "task"), 0),
        (cost_of(task(usage=None, attempts=0), "task"), 0),
        (cost_of(session(None, turns=5), "session"), 5),
        (cost_of(session(None, turns=0), "session"), 0),
    ],
)
def test_what_has_told_no_cost_is_counted_and_is_not_zero(cost: Cost, untold: int) -> None:
    [(_, usd, *_, without)] = rows(cost)
    assert (usd, without) == (0.0 if cost.usd is None else cost.usd, untold)


@pytest.mark.parametrize(
    "usd", [True, "5", -1, float("nan"), float("inf"), 1e300, 10**400, [1], {}], ids=str
)
def test_a_cost_that_is_none_is_one_that_was_not_told(usd: Any) -> None:
    assert rows(*tasks(task(usd))) == [("a", 0.0, 1, 0, 1)]


STRANGE: list[Any] = [
    {}, {"metadata": None, "spec": 1, "status": []}, {"status": {"usage": [], "attempts": "x"}},
    {"metadata": {"labels": {"team": 1}, "namespace": 5}},
    {"metadata": {"creationTimestamp": "9999-12-31T23:59:59-23:59"}},
    {"status": {"phase": ["Completed"]}},
    {"status": {"attempts": 10**30, "usage": {"inputTokens": 1e308, "outputTokens": -5}}},
]  # fmt: skip


@pytest.mark.parametrize("item", STRANGE, ids=range(len(STRANGE)))
def test_an_object_of_any_contents_is_read_and_costs_nobody_the_sums(item: Any) -> None:
    for kind in ("task", "session"):
        rows(cost_of(item, kind), *SOME, by="namespace,agent,kind,label:team")


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-23:59", "soon", 7, None])
def test_a_moment_that_no_clock_tells_is_that_of_creation(moment: Any) -> None:
    item = task(completionTime=moment)
    item["metadata"]["creationTimestamp"] = NOW.isoformat()
    assert cost_of(item, "task").active_at == NOW


def test_the_agent_is_that_of_the_status_which_knows_the_profile() -> None:
    assert cost_of(task(agent="codex") | {"status": {"agent": {"type": "x"}}}, "task").agent == "x"


def test_what_a_budget_adds_is_of_its_namespace_and_of_nothing_else() -> None:
    rest = Cost(namespace="a", kind="budget", active_at=NOW, usd=2.5)
    assert rows(rest) == [("a", 2.5, 0, 0, 0)]
    keys = "day,agent,kind,label:team"
    assert rows(rest, by=keys) == [(BUDGET, BUDGET, BUDGET, BUDGET, 2.5, 0, 0, 0)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names nothing"),
        ("namespace,", "names nothing"),
        ("week", "'week' is nothing to sum by"),
        ("label:", "'label:' is nothing to sum by"),
        ("label", "'label' is nothing to sum by"),
        ("label:te am", "'label:te am' is nothing to sum by"),
        ("agent,agent", "names 'agent' twice"),
        ("namespace,agent,kind,day,label:a", "at most 4"),
    ],
)
def test_keys_that_cannot_be_summed_by_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        keys_of(text)


def test_keys_may_have_blanks_and_a_label_its_prefix() -> None:
    assert keys_of(" namespace , label:example.com/team ") == (
        "namespace",
        "label:example.com/team",
    )
    assert label_in("label:example.com/team") == "example.com/team"
    assert label_in("namespace") is None
