"""`kubectl orbiter cost`: what tasks and sessions have cost, by what people ask for."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.fake_kubectl import FakeKubectl, Object, a_session, a_task, an_object, kubectl
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl import cost_objects
from orbiter.cli.kubectl.cost import safe_cell, table
from orbiter.cli.kubectl.main import app
from orbiter_contracts.costs import CostSum

__all__ = ["kubectl"]
NOW = datetime.now(UTC)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["cost", *words], catch_exceptions=False)


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat()


def task(name: str, usd: float | None = 1.0, *, namespace: str = "default", **more: Any) -> Object:
    usage = {"inputTokens": 1200, "outputTokens": 10} | ({} if usd is None else {"costUSD": usd})
    labels, days = more.pop("labels", {}), more.pop("days", 0)
    status = {"phase": "Completed", "attempts": 1, "completionTime": ago(days), "usage": usage}
    found = a_task(name, **(status | more))
    found["metadata"] |= {"namespace": namespace, "labels": labels, "uid": f"{namespace}-{name}"}
    return found


def session(name: str, usd: float | None) -> Object:
    usage = {} if usd is None else {"costUSD": usd}
    return a_session(name, usage=usage, turns=4, lastActivityTime=ago(1))


def budget(name: str, spent: float, *, days: float = 5, namespace: str = "default") -> Object:
    status = {"periodStart": ago(days), "spentUSD": spent, "reservedUSD": 2.0}
    return an_object("AgentBudget", name, namespace=namespace, spec={}, status=status)


def rows(*words: str) -> list[list[str]]:
    result = run(*words, "-o", "csv")
    assert result.exit_code == 0, result.stderr
    return [row[:-3] for row in list(csv.reader(io.StringIO(result.stdout)))[1:]]


def test_costs_are_summed_by_several_keys_with_a_total(kubectl: FakeKubectl) -> None:
    kubectl.has(
        task("one", 1.5, labels={"team": "red"}),
        task("two", 0.25, labels={"team": "red"}),
        task("three", 0.5),
        task("old", 64.0, days=31),
        task("elsewhere", 9.0, namespace="team-b"),
        session("alice", 8.0),
    )
    head, *lines = (
        line.split() for line in run("--by", "namespace,label:team").stdout.splitlines()
    )
    assert head == ["NAMESPACE", "TEAM", "COST", "USD", "TASKS", "SESSIONS", "TOKENS", "IN", "OUT",
                    "NO", "COST"]  # fmt: skip
    assert lines == [
        ["default", "none", "8.5000", "1", "1", "1.2k", "10", "0"],
        ["default", "red", "1.7500", "2", "0", "2.4k", "20", "0"],
        ["TOTAL", "10.2500", "3", "1", "3.6k", "30", "0"],
    ]
    assert rows("--by", "namespace", "-A") == [
        ["default", "10.250000", "3", "1"], ["team-b", "9.000000", "1", "0"]
    ]  # fmt: skip
    assert rows("--by", "namespace", "--since", "40d") == [["default", "74.250000", "4", "1"]]


def test_what_has_told_no_cost_is_counted_and_said(kubectl: FakeKubectl) -> None:
    kubectl.has(task("a", None, attempts=3), task("b", 1.0), session("alice", None))
    result = run("--by", "kind")
    assert "7 attempts of tasks or turns of sessions have told no cost" in result.stderr
    found = json.loads(run("--by", "kind", "-o", "json").stdout)
    untold = {row["keys"]["kind"]: row["without_cost"] for row in found["rows"]}
    assert untold == {"task": 3, "session": 4}
    assert (found["total"]["without_cost"], found["total"]["cost_usd"]) == (7, 1.0)


def test_what_was_deleted_counts_as_far_as_a_budget_was_charged(kubectl: FakeKubectl) -> None:
    """Each namespace once, of periods that began in the time that is asked for."""
    kubectl.has(
        budget("month", 17.0, days=20),
        budget("day", 4.0, days=0.5),
        budget("year", 500.0, days=200),
        task("there", 3.0),
        task("still", 2.0, phase="Running", completionTime=None, startTime=ago(25)),
        task("before", 1.0, days=25),
    )
    kubectl.has(session("alice", 7.0))
    # Its turns of this month may be in the budget, so that all of them are told by it.
    result = run("--by", "namespace,agent")
    assert "5.0000 USD of it were charged to AgentBudgets" in result.stderr
    found = {tuple(row[:2]): row[2:] for row in rows("--by", "namespace,agent")}
    assert found["default", "(budget)"] == ["5.000000", "0", "0"]
    told = json.loads(run("--by", "kind", "-o", "json").stdout)
    assert told["of_budgets_usd"] == 5.0
    assert told["total"]["cost_usd"] == 18.0
    assert [each["name"] for each in told["budgets"]] == ["day", "month", "year"]


def test_a_budget_that_tells_no_more_than_its_tasks_adds_nothing(kubectl: FakeKubectl) -> None:
    kubectl.has(budget("month", 0.3), task("a", 0.1), task("b", 0.2))
    result = run("--by", "agent")
    assert "AgentBudgets" not in result.stderr
    assert "(budget)" not in result.stdout


def test_a_session_of_an_earlier_period_tells_nothing_of_this_one(kubectl: FakeKubectl) -> None:
    """One that was used in it tells all that it has cost: the rest is a lower bound."""
    kubectl.has(budget("day", 4.0, days=0.5), session("bob", 64.0))
    assert json.loads(run("--by", "kind", "-o", "json").stdout)["of_budgets_usd"] == 4.0
    kubectl.has(a_session("alice", usage={"costUSD": 3.0}, turns=4, lastActivityTime=ago(0.1)))
    assert json.loads(run("--by", "kind", "-o", "json").stdout)["of_budgets_usd"] == 1.0


def test_objects_are_read_page_by_page(
    kubectl: FakeKubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_objects, "_PAGE", 2)
    kubectl.has(*(task(f"t{n}") for n in range(5)))
    assert rows("--by", "namespace") == [["default", "5.000000", "5", "0"]]
    paths = [call.argv[-1] for call in kubectl.calls if "agenttasks" in call.argv[-1]]
    base = "/apis/orbiter.dev/v1alpha1/namespaces/default/agenttasks?limit=2"
    assert paths == [base, f"{base}&continue=2", f"{base}&continue=4"]


def test_a_list_of_which_the_api_server_has_forgotten_its_place_counts_each_once(
    kubectl: FakeKubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_objects, "_PAGE", 2)
    kubectl.has(*(task(f"t{n}") for n in range(5)))
    (kubectl.home / "forgets").write_text("")
    assert rows("--by", "namespace") == [["default", "5.000000", "5", "0"]]


def test_it_sums_what_the_person_may_list(kubectl: FakeKubectl) -> None:
    kubectl.has(task("a"), session("alice", 5.0), budget("month", 9.0))
    for plural in ("posessions", "agentbudgets"):
        (kubectl.home / f"forbidden-{plural}").write_text("")
    result = run("--by", "kind")
    assert result.exit_code == 0
    assert "posessions are left out: posessions.orbiter.dev is forbidden" in result.stderr
    assert "agentbudgets are left out" in result.stderr
    assert result.stdout.splitlines()[-1].split()[:2] == ["TOTAL", "1.0000"]
    assert len(json.loads(run("-o", "json").stdout)["left_out"]) == 2
    (kubectl.home / "forbidden-agenttasks").write_text("")
    result = run()
    assert (result.exit_code, result.stdout) == (6, "")


def test_a_day_has_tasks_only_and_says_so(kubectl: FakeKubectl) -> None:
    kubectl.has(task("a", days=1), session("alice", 5.0))
    result = run("--by", "day")
    assert "sessions are left out" in result.stderr
    assert ago(1)[:10] in result.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--by", "week"), "'week' is nothing to sum by"),
        (("--by", ""), "names nothing to sum by"),
        (("--since", "tomorrow"), "'tomorrow' is no duration"),
        (("--since", "99999999d"), "too long ago"),
        (("-o", "xml"), "'xml' is no form; write table, csv, json"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    kubectl: FakeKubectl, words: tuple[str, ...], why: str
) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert why in result.stderr
    assert kubectl.calls == []


@pytest.mark.parametrize("value", ["=1+1", "+1", "-1", "@x", "\t=1", "  =1", "\r=1", "\x1b[0m=1"])
def test_no_cell_of_a_csv_is_a_formula(value: str) -> None:
    assert safe_cell(value).startswith("'")


def test_csv_of_hostile_labels_is_text(kubectl: FakeKubectl) -> None:
    kubectl.has(
        task("a", labels={"team": '=HYPERLINK("x")'}),
        task("b", labels={"team": 'a"b,c\nd\x1b]0;pwned\a'}),
    )
    found = [row[0] for row in rows("--by", "label:team")]
    assert sorted(found) == ['\'=HYPERLINK("x")', 'a"b,c\nd']


def test_a_table_has_less_than_120_columns_whatever_is_in_it() -> None:
    huge = 10**24
    wide = CostSum(("x" * 300,) * 4, 1e15, 10**6, 10**6, huge, huge, 10**6)
    keys = ("namespace", "agent", f"label:{'k' * 200}", "label:b")
    shown = table([wide], wide, keys)
    assert max(map(len, shown.splitlines())) < 120
    row = CostSum(("a" * 40,), 1.5, 1, 0, 10, 10, 0)
    short = table([row], row._replace(keys=("",)), ("namespace",))
    assert "a" * 40 in short


def test_help_teaches(kubectl: FakeKubectl) -> None:
    shown = run("--help").stdout
    assert "kubectl orbiter cost -A --by namespace,label:team          who has spent what" in shown
    assert "NO COST" in shown
