"""The tasks and sessions of a cluster, as the server follows and tells them."""

import json

import pytest
from support.eventually import eventually
from support.fake_api import RefusedRequestError

from orbiter.server import ServerConfig
from orbiter.server._internal import cluster_detail
from orbiter.server._internal.cluster import Cluster
from orbiter.types import OrbiterError

pytestmark = pytest.mark.integration
TASKS = "/v1/cluster/tasks"


def put(api, name, *, namespace="default", phase="Running", minute=0, kind="agenttasks"):
    api.put(
        kind,
        {
            "metadata": {
                "name": name, "namespace": namespace,
                "creationTimestamp": f"2026-01-01T00:{minute:02}:00Z",
            },
            "spec": {"prompt": f"Do {name}", "agent": {"type": "claude"}},
            "status": {"phase": phase},
        },
    )  # fmt: skip


def watches(api):
    return len(api._changed)


async def names(server, path=TASKS, **query):
    answer = await server.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return [item["name"] for item in answer.json()["items"]]


async def test_the_newest_come_first_in_pages(start, api, tmp_path):
    for number in range(5):
        put(api, f"task-{number}", minute=number)
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    first = (await server.http.get(TASKS, params={"limit": 2})).json()
    assert [item["name"] for item in first["items"]] == ["task-4", "task-3"]
    assert first["total"] == 5
    put(api, "new", minute=9)
    assert await names(server, limit=2, after=first["next"]) == ["task-2", "task-1"]
    assert await names(server, limit=9, after=first["next"]) == ["task-2", "task-1", "task-0"]
    assert (await server.http.get(TASKS, params={"limit": 9})).json()["next"] is None


async def test_who_works_is_what_the_status_says_of_a_task_with_a_profile(start, api, tmp_path):
    put(api, "own")
    put(api, "profiled")
    said = {"spec": {"agent": None}, "status": {"agent": {"type": "codex", "model": "large"}}}
    api.patch("agenttasks", "default", "profiled", said)
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    assert await names(server, agent="codex") == ["profiled"]
    assert await names(server, agent="claude") == ["own"]
    detail = (await server.http.get(f"{TASKS}/default/profiled")).json()
    assert (detail["agent"], detail["model"]) == ("codex", "large")


async def test_a_list_is_of_those_that_are_asked_for(start, api, tmp_path):
    for number, phase in enumerate(("Running", "Failed", "Running")):
        put(api, f"task-{number}", phase=phase, minute=number)
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    assert await names(server, phase="Running") == ["task-2", "task-0"]
    assert await names(server, agent="codex") == []
    assert await names(server, text="DO TASK-1") == ["task-1"]
    for number, team in enumerate(("red", "blue")):
        api.patch(
            "agenttasks", "default", f"task-{number}", {"metadata": {"labels": {"team": team}}}
        )

    async def labelled():
        return await names(server, label="team") == ["task-1", "task-0"]

    await eventually(labelled)
    assert await names(server, label="team=red") == ["task-0"]
    assert await names(server, label="team=") == []
    assert await names(server, label="red") == []
    assert await names(server, text="default/task-2", phase="Running") == ["task-2"]
    first = (await server.http.get(TASKS, params={"phase": "Running", "limit": 1})).json()
    assert (first["total"], [item["name"] for item in first["items"]]) == (2, ["task-2"])
    assert await names(server, phase="Running", after=first["next"]) == ["task-0"]
    assert (await server.http.get(TASKS, params={"text": "x" * 201})).status_code == 422


async def test_a_cursor_of_no_page_is_refused(start, api, tmp_path):
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    answer = await server.http.get(TASKS, params={"after": "nonsense"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "after")


async def test_changes_arrive_without_another_list(start, api, tmp_path):
    put(api, "one")
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    assert await names(server) == ["one"]
    put(api, "one", phase="Completed")
    put(api, "two", minute=1)

    async def phases():
        items = (await server.http.get(TASKS)).json()["items"]
        return {item["name"]: item["phase"] for item in items}

    async def has(expected):
        return await phases() == expected

    await eventually(lambda: has({"one": "Completed", "two": "Running"}))
    api.remove("agenttasks", "default", "one")
    await eventually(lambda: has({"two": "Running"}))
    assert api.requests["list", "agenttasks"] == 1


async def test_what_was_missed_is_listed_anew(start, api, tmp_path):
    put(api, "one")
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    assert await names(server) == ["one"]
    api.remove("agenttasks", "default", "one")
    put(api, "two")
    await server.http.get(TASKS)
    api.forget_history()

    async def lists():
        return await names(server) == ["two"]

    await eventually(lists)


async def test_nobody_looking_ends_the_watch_and_the_next_look_is_fresh(start, api, tmp_path):
    put(api, "one")
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    assert await names(server) == ["one"]
    await eventually(lambda: watches(api) == 1)
    api.forget_history()
    await eventually(lambda: watches(api) == 0)
    put(api, "two", minute=1)
    assert await names(server) == ["two", "one"]
    assert api.requests["list", "agenttasks"] == 2


@pytest.mark.parametrize(
    ("namespace", "seen"),
    [
        (None, ["in-default"]),
        ("b", ["in-b"]),
        ("a,b", ["in-b", "in-a"]),
        ("*", ["in-default", "in-b", "in-a"]),
    ],
)
async def test_one_namespace_several_or_all(start, api, tmp_path, namespace, seen):
    put(api, "in-a", namespace="a", minute=1)
    put(api, "in-b", namespace="b", minute=2)
    put(api, "in-default", minute=3)
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace=namespace)
    assert await names(server) == seen


async def test_a_refusal_is_told_in_the_api_servers_words_and_tried_again(start, api, tmp_path):
    async def refuse(verb, plural, body):
        raise RefusedRequestError(403, "Forbidden", "agenttasks is forbidden to you")

    allowed, api.before = api.before, refuse
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="team")
    answer = await server.http.get(TASKS)
    assert answer.status_code == 502
    assert "of namespace team: agenttasks is forbidden to you" in answer.json()["error"]["message"]
    api.before = allowed
    assert await names(server) == []


async def test_a_cluster_that_is_away_is_told_until_it_is_back(start, api, tmp_path):
    put(api, "one")
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    assert await names(server) == ["one"]
    await api.stop()

    async def status(wanted):
        return (await server.http.get(TASKS)).status_code == wanted

    await eventually(lambda: status(502))
    await api.start()
    await eventually(lambda: status(200))
    assert await names(server) == ["one"]


def test_a_pod_without_an_identity_has_no_cluster(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert Cluster.if_any(None, None) is None


async def test_without_a_cluster_there_is_none(start):
    server = await start()
    answer = await server.http.get(TASKS)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_cluster")


@pytest.mark.parametrize("namespace", ["Team_A", "a,,b", "*,a", ""])
def test_a_namespace_that_cannot_be_is_refused(namespace):
    with pytest.raises(OrbiterError, match=r"namespace is '.*': name one, several with commas"):
        ServerConfig(namespace=namespace)


def test_an_object_of_a_thousand_labels_is_small_in_a_list():
    """The API server takes as many as an object of 1.5 MiB has room for; a list has a thousand."""
    labels = {f"example.com/label-{n:04}": "x" * 63 for n in range(5000)}
    item = {"metadata": {"name": "a", "namespace": "b", "labels": labels}, "spec": {}, "status": {}}
    shown = cluster_detail.brief_of(item)
    assert len(shown.model_dump_json()) < 10_000
    assert shown.labels["example.com/label-0000"] == "x" * 63


@pytest.mark.parametrize(
    "overlay",
    [b'{"a":' * 1100 + b"1" + b"}" * 1100, b"9" * 5000, b'"\xff"'],
    ids=["1100 nested objects", "an integer of 5000 digits", "no UTF-8"],
)
async def test_an_object_of_strange_contents_is_shown_among_all_others(
    start, api, tmp_path, overlay
):
    api.encode = lambda value: json.dumps(value).encode().replace(b'"Do strange"', overlay)
    for minute, name in enumerate(("one", "strange", "two")):
        put(api, name, minute=minute)
    server = await start(kubeconfig=api.kubeconfig(tmp_path))
    assert await names(server) == ["two", "strange", "one"]
    put(api, "strange", minute=1, phase="Completed")
    put(api, "three", minute=3)

    async def all_there():
        return await names(server) == ["three", "two", "strange", "one"]

    await eventually(all_there)
    assert api.requests["list", "agenttasks"] == 1
