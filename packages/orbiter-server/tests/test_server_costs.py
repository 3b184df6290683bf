"""What agents cost, summed up for whoever may see them."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from support.eventually import eventually

from orbiter.server._internal import cluster_costs
from orbiter.server._internal.cluster_costs import MOST_ROWS, summed
from orbiter.server.cluster_models import ClusterObject, CostsQuery

COSTS = "/v1/cluster/costs"
ADA = "ada.token"
NOW = datetime.now(UTC)


def stamp(days=0):
    return (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def put(
    api, name, cost, *, namespace="team-a", days=0, kind="agenttasks", team=None, agent="claude"
):
    labels = {"team": team} if team else {}
    usage = {"costUSD": cost, "inputTokens": 100, "outputTokens": 10}
    meta = {"name": name, "namespace": namespace, "creationTimestamp": stamp(99), "labels": labels}
    ends = (
        {"completionTime": stamp(days)}
        if kind == "agenttasks"
        else {"lastActivityTime": stamp(days)}
    )
    user = {} if kind == "agenttasks" else {"userId": 7}
    api.put(kind, {"metadata": meta, "spec": {"agent": {"type": agent}, **user},
                   "status": {"phase": "Completed", "usage": usage, **ends}})  # fmt: skip


async def asked(server, **query):
    answer = await server.http.get(COSTS, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def rows(server, **query):
    found = await asked(server, **query)
    return [(row["key"], row["cost_usd"], row["tasks"], row["sessions"]) for row in found["rows"]]


@pytest.fixture
def some(api):
    put(api, "one", 1.0, team="red")
    put(api, "two", 0.5, days=2, team="blue")
    put(api, "old", 64.0, days=40, team="red")
    put(api, "other", 4.0, namespace="team-b", agent="codex")
    put(api, "chat", 8.0, kind="posessions", team="red")


@pytest.mark.integration
@pytest.mark.usefixtures("some")
async def test_costs_by_day_namespace_agent_and_label(start, api, tmp_path):
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*")
    today, earlier = stamp()[:10], stamp(2)[:10]
    assert await rows(server) == [(earlier, 0.5, 1, 0), (today, 5.0, 2, 0)]
    assert await rows(server, by="namespace") == [("team-a", 9.5, 2, 1), ("team-b", 4.0, 1, 0)]
    assert await rows(server, by="agent") == [("claude", 9.5, 2, 1), ("codex", 4.0, 1, 0)]
    by_label = await rows(server, by="label", label="team")
    assert by_label == [("red", 9.0, 1, 1), ("none", 4.0, 1, 0), ("blue", 0.5, 1, 0)]
    found = await asked(server, by="namespace", days=366)
    assert found["cost_usd"] == 77.5
    assert found["rows"][0]["input_tokens"] == 400
    assert await rows(server, by="namespace", namespace="team-b") == [("team-b", 4.0, 1, 0)]


@pytest.mark.integration
@pytest.mark.usefixtures("some")
@pytest.mark.parametrize(
    ("moment", "today"),
    [("9999-12-31T23:59:59-23:59", (5.0, 2, 0)), ("2999-12-31T23:59:59", (5.25, 3, 0))],
)
async def test_a_moment_that_no_clock_tells_costs_nobody_the_sums(
    start, api, tmp_path, moment, today
):
    """The schema takes the first; whoever may write a status of one namespace writes it."""
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*")
    put(api, "odd", 0.25)
    odd = api.get("agenttasks", "team-a", "odd")
    odd["status"]["completionTime"] = moment
    api.put("agenttasks", odd)
    assert {(stamp(2)[:10], 0.5, 1, 0), (stamp()[:10], *today)} <= {*await rows(server)}


@pytest.mark.integration
@pytest.mark.usefixtures("some")
@pytest.mark.parametrize(
    "query", [{"by": "week"}, {"days": 0}, {"days": 367}, {"by": "label"}, {"label": "x" * 318},
              {"namespace": "*"}, {"of": "all"}],
)  # fmt: skip
async def test_what_cannot_be_summed_up_is_refused(start, api, tmp_path, query):
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*")
    assert (await server.http.get(COSTS, params=query)).status_code == 422


@pytest.mark.integration
@pytest.mark.usefixtures("some")
async def test_each_sees_the_costs_of_what_they_may_list(start, api, reviews, tmp_path):
    reviews.token(ADA, "ada")
    reviews.give("ada", "list", "agenttasks", "team-a")
    server = await start(auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path), namespace="*")
    ada = server.signed_in(ADA)
    assert await rows(ada, by="namespace") == [("team-a", 1.5, 2, 0)]
    assert await rows(ada, by="namespace", namespace="team-a") == [("team-a", 1.5, 2, 0)]
    assert (await ada.http.get(COSTS, params={"namespace": "team-b"})).status_code == 403


def test_a_thousand_values_of_a_label_are_bounded_and_their_sum_is_whole():
    tasks = [
        ClusterObject(
            name=f"t{n}", namespace="a", active_at=NOW, labels={"l": f"v{n}"}, cost_usd=1 + n
        )
        for n in range(1000)
    ]
    query = CostsQuery(by="label", label="l")
    found = summed(tasks, [], query, NOW - timedelta(days=1))
    assert len(found.rows) == MOST_ROWS + 1
    assert (found.rows[-1].key, found.rows[-1].tasks) == ("other", 600)
    assert sum(row.cost_usd for row in found.rows) == found.cost_usd == sum(range(1, 1001))


def test_who_says_that_a_task_ended_in_years_to_come_adds_no_days():
    """The page draws a bar for each: hundreds of them would leave no room for those there were."""
    tasks = [
        ClusterObject(name=f"t{n}", namespace="a", active_at=NOW + timedelta(days=n), cost_usd=1)
        for n in range(-1, MOST_ROWS + 1)
    ]
    query = CostsQuery(by="day", days=2)
    found = summed(tasks, [], query, NOW - timedelta(days=2))
    days = [(NOW - timedelta(days=1)).date().isoformat(), NOW.date().isoformat()]
    assert [(row.key, row.tasks) for row in found.rows] == [(days[0], 1), (days[1], MOST_ROWS + 1)]


def test_a_task_that_has_cost_nothing_yet_is_counted():
    task = ClusterObject(name="t", namespace="a", active_at=NOW)
    found = summed([task], [], CostsQuery(by="agent"), NOW - timedelta(days=1))
    assert [(row.key, row.cost_usd, row.tasks) for row in found.rows] == [("none", 0.0, 1)]


def test_attempts_and_answers_that_told_no_cost_are_counted_beside_the_sum():
    told = ClusterObject(name="t", namespace="a", active_at=NOW, attempts=1, cost_usd=2.0)
    task = ClusterObject(name="u", namespace="a", active_at=NOW, attempts=3)
    session = ClusterObject(name="s", namespace="b", active_at=NOW, turns=4)
    some = ClusterObject(name="r", namespace="b", active_at=NOW, turns=9, unpriced=2, cost_usd=1.0)
    found = summed(
        [told, task], [session, some], CostsQuery(by="namespace"), NOW - timedelta(days=1)
    )
    rows = [(row.key, row.cost_usd, row.without_cost) for row in found.rows]
    assert rows == [("a", 2.0, 3), ("b", 1.0, 6)]
    assert (found.cost_usd, found.without_cost) == (3.0, 9)


async def test_many_are_summed_up_beside_the_event_loop(start, api, tmp_path, monkeypatch):
    threads = []

    def summed(*given):
        threads.append(threading.current_thread() is threading.main_thread())
        return cluster_costs.Costs(rows=[], cost_usd=0, without_cost=0)

    monkeypatch.setattr(cluster_costs, "summed", summed)
    monkeypatch.setattr(cluster_costs, "AT_ONCE", 2)
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*")
    for number in range(4):
        meta = {"name": f"task-{number}", "namespace": "team-a"}
        api.put("agenttasks", {"metadata": meta, "spec": {"prompt": "x"}, "status": {}})
        if number in (1, 3):
            await eventually(lambda n=number: has(server, n + 1))
            assert (await server.http.get("/v1/cluster/costs")).status_code == 200
    assert threads == [True, False]


async def has(server, total):
    return (await server.http.get("/v1/cluster/tasks?limit=1")).json()["total"] == total
