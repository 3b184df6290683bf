"""What somebody whom the cluster knows may see and do: what its rights say, and what is theirs."""

import asyncio
import json
from contextlib import aclosing

import pytest
from support.eventually import eventually

from orbiter.models import ScriptedModel, call
from orbiter.server._internal import cluster as cluster_module
from orbiter.server._internal import reviews as module

from .conftest import Paced
from .test_server_cluster import TASKS, put

pytestmark = pytest.mark.integration
ADA, BOB, ROOT = "ada.token", "bob.token", "root.token"


@pytest.fixture
async def launch(start, api, reviews, tmp_path):
    """Start a server that shows all namespaces; ada has team-a, bob team-b, root all."""
    for number, namespace in enumerate(("team-a", "team-b", "team-c")):
        put(api, f"of-{namespace}", namespace=namespace, minute=number)
    for token, user, namespace in ((ADA, "ada", "team-a"), (BOB, "bob", "team-b"),
                                   (ROOT, "root", "")):  # fmt: skip
        reviews.token(token, user)
        for verb in ("get", "list"):
            for resource in ("agenttasks", "posessions"):
                reviews.give(user, verb, resource, namespace)
        reviews.give(user, "use", "agents", "default")

    async def begin(model=None, **config):
        server = await start(
            auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path), model=model,
            **{"namespace": "*", **config},
        )  # fmt: skip
        return [server.signed_in(token) for token in (ADA, BOB, ROOT)]

    return begin


async def shown(server, **query):
    answer = await server.http.get(TASKS, params=query)
    assert answer.status_code == 200, answer.text
    page = answer.json()
    assert page["total"] == len(page["items"]) or "limit" in query
    return [item["namespace"] for item in page["items"]]


@pytest.mark.parametrize("namespace", ["*", "team-a,team-b,team-c"])
async def test_each_sees_the_namespaces_they_may_list_and_nothing_of_the_others(launch, namespace):
    ada, bob, root = await launch(namespace=namespace)
    assert await shown(ada) == ["team-a"]
    assert await shown(bob) == ["team-b"]
    assert await shown(root) == ["team-c", "team-b", "team-a"]


async def test_who_may_list_everywhere_is_asked_about_once(launch, api):
    *_, root = await launch()
    await shown(root)
    assert api.requests["create", "subjectaccessreviews"] == 1


async def test_pages_are_counted_by_what_somebody_may_see(launch, api):
    for number in range(4):
        put(api, f"more-{number}", namespace="team-a", minute=10 + 2 * number)
        put(api, f"hidden-{number}", namespace="team-b", minute=11 + 2 * number)
    ada, *_ = await launch()
    first = (await ada.http.get(TASKS, params={"limit": 3})).json()
    second = (await ada.http.get(TASKS, params={"limit": 3, "after": first["next"]})).json()
    assert (first["total"], second["next"]) == (5, None)
    names = [item["name"] for item in first["items"] + second["items"]]
    assert names == ["more-3", "more-2", "more-1", "more-0", "of-team-a"]
    # a cursor is no key to a place: made up, it leads nowhere else
    made_up = "2026-01-01T00:59:00Z/team-b/zzz"
    assert set(await shown(ada, after=made_up, limit=9)) == {"team-a"}


async def test_a_namespace_that_is_asked_for_by_name_needs_the_right_to_list_it(launch):
    ada, *_ = await launch(namespace="team-a,team-b")
    assert await shown(ada, namespace="team-a") == ["team-a"]
    for name in ("team-b", "there-is-none"):
        answer = await ada.http.get(TASKS, params={"namespace": name})
        assert answer.status_code == 403
        assert f"ada may not list agenttasks.orbiter.dev in namespace {name}" in answer.text


@pytest.mark.parametrize("name", ["", "*", "team-a,team-b", "team-a/../team-b", "Team-A", "a" * 64])
async def test_what_is_no_namespace_is_none(launch, name):
    ada, _, root = await launch()
    for server in (ada, root):
        assert (await server.http.get(TASKS, params={"namespace": name})).status_code == 422


async def test_one_object_needs_the_right_to_get_it(launch, reviews):
    ada, bob, root = await launch()
    for server, namespace, status in (
        (ada, "team-a", 200), (ada, "team-b", 403), (bob, "team-a", 403), (bob, "team-b", 200),
        (root, "team-a", 200), (ada, "nowhere", 403),
    ):  # fmt: skip
        answer = await server.http.get(f"{TASKS}/{namespace}/of-{namespace}")
        assert answer.status_code == status, (namespace, answer.text)
        assert "Do of-" not in answer.text or status == 200
    answer = await ada.http.get(f"{TASKS}/team-a/missing")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "agenttask_not_found")
    reviews.take("ada")
    reviews.give("ada", "get", "agenttasks", "team-c", "of-team-c")
    assert (await ada.http.get(f"{TASKS}/team-c/of-team-c")).status_code == 200
    assert (await ada.http.get(f"{TASKS}/team-c/other")).status_code == 403


@pytest.mark.parametrize(
    "path", ["team-a/..%2Fteam-b", "team-a%2F..%2Fteam-b/of-team-b", "*/of-team-b", "%00/x",
             "Team-b/of-team-b", "team-b%20/of-team-b", "%E2%82%AC/x", "team-b/" + "x" * 300],
)  # fmt: skip
async def test_a_forged_path_leads_nowhere_and_is_not_asked_about(launch, reviews, path):
    ada, *_ = await launch()
    assert (await ada.http.get(f"{TASKS}/{path}")).status_code == 404
    assert not any("resourceAttributes" in asked for asked in reviews.asked)


async def test_sessions_of_the_cluster_are_a_right_of_their_own(launch, reviews):
    ada, *_ = await launch()
    reviews.take("ada")
    reviews.give("ada", "list", "agenttasks", "team-a")
    assert await shown(ada, namespace="team-a") == ["team-a"]
    path = "/v1/cluster/sessions"
    assert (await ada.http.get(path, params={"namespace": "team-a"})).status_code == 403
    assert (await ada.http.get(f"{path}/team-a/any")).status_code == 403


async def test_too_many_namespaces_are_not_asked_about_one_by_one(launch, monkeypatch):
    monkeypatch.setattr(cluster_module, "MOST_NAMESPACES", 2)
    ada, _, root = await launch()
    answer = await ada.http.get(TASKS)
    assert answer.status_code == 400
    assert "?namespace=NAME here, or as #/cluster/NAME on the page" in answer.text
    assert await shown(ada, namespace="team-a") == ["team-a"]
    assert len(await shown(root)) == 3


async def test_a_right_that_is_taken_away_is_gone_when_the_answer_is_too_old(
    launch, reviews, monkeypatch
):
    monkeypatch.setattr(module, "YES_SECONDS", 0.2)
    ada, *_ = await launch()
    assert await shown(ada) == ["team-a"]
    reviews.take("ada")

    async def gone():
        return await shown(ada) == []

    await eventually(gone)
    assert (await ada.http.get("/v1/agents")).status_code == 403


async def test_an_api_server_that_goes_away_takes_all_rights_with_it(launch, api, monkeypatch):
    monkeypatch.setattr(module, "YES_SECONDS", 0.2)
    ada, *_ = await launch()
    assert await shown(ada) == ["team-a"]
    await api.stop()

    async def refused():
        return (await ada.http.get(TASKS)).status_code == 503

    await eventually(refused)


async def test_who_may_use_no_agents_still_sees_the_cluster(launch, reviews):
    ada, *_ = await launch()
    reviews.take("ada")
    reviews.give("ada", "list", "agenttasks", "team-a")
    for method, path in (
        ("GET", "/v1/agents"), ("POST", "/v1/agents/helper/runs"), ("GET", "/v1/sessions"),
        ("GET", "/v1/tasks"), ("POST", "/v1/tasks"), ("GET", "/v1/models"),
        ("POST", "/v1/chat/completions"), ("GET", "/v1/runs/x/events"),
    ):  # fmt: skip
        answer = await ada.http.request(method, path, json={} if method == "POST" else None)
        assert answer.status_code == 403, path
        assert "ada may not use agents.orbiter.dev in namespace default" in answer.text
    assert await shown(ada) == ["team-a"]


async def test_conversations_belong_to_who_began_them(launch):
    ada, bob, root = await launch()
    secret = "data:image/png;base64,c2VjcmV0"
    run = await ada.ask("helper", "My secret is 7.", images=[secret])
    await ada.outcome(run)
    assert (await ada.http.get(f"/v1/runs/{run['id']}/images/0")).content == b"secret"
    session, path = run["session_id"], f"/v1/runs/{run['id']}"
    for other in (bob, root):
        for method, where in (
            ("GET", f"/v1/sessions/{session}"), ("DELETE", f"/v1/sessions/{session}"),
            ("POST", f"/v1/sessions/{session}/runs"), ("GET", path), ("POST", f"{path}/cancel"),
            ("GET", f"{path}/events"), ("GET", f"{path}/images/0"),
        ):  # fmt: skip
            body = {"input": "What is it?"} if where.endswith("runs") else None
            answer = await other.http.request(method, where, json=body)
            assert answer.status_code == 404, (method, where)
            assert "secret" not in answer.text
        into = {"input": "What is it?", "session_id": session}
        assert (await other.http.post("/v1/agents/helper/runs", json=into)).status_code == 404
        listed = (await other.http.get("/v1/sessions")).json()
        assert (listed["sessions"], listed["total"]) == ([], 0)
    mine = (await ada.http.get("/v1/sessions")).json()
    assert ([s["id"] for s in mine["sessions"]], mine["total"]) == ([session], 1)
    assert (await ada.http.delete(f"/v1/sessions/{session}")).status_code == 204


async def test_sessions_of_one_user_come_in_pages(launch):
    ada, bob, _ = await launch()
    made = []
    for _ in range(3):
        made.append((await ada.http.post("/v1/sessions", json={"agent": "helper"})).json()["id"])
        await bob.http.post("/v1/sessions", json={"agent": "helper"})
    first = (await ada.http.get("/v1/sessions", params={"limit": 2})).json()
    query = {"limit": 2, "after": first["next"]}
    second = (await ada.http.get("/v1/sessions", params=query)).json()
    listed = [session["id"] for session in first["sessions"] + second["sessions"]]
    assert listed == made[::-1]
    assert (first["total"], second["next"]) == (3, None)


async def test_tasks_belong_to_who_handed_them_in(launch):
    ada, bob, root = await launch()
    wish = {"input": "My secret is 7.", "agent": "helper"}
    task = (await ada.http.post("/v1/tasks", json=wish)).json()["id"]
    for other in (bob, root):
        for method, where, body in (
            ("GET", "", None), ("POST", "/cancel", None), ("POST", "/answer", {"text": "x"}),
            ("GET", "/events", None),
        ):  # fmt: skip
            answer = await other.http.request(method, f"/v1/tasks/{task}{where}", json=body)
            assert answer.status_code == 404, where
        page = (await other.http.get("/v1/tasks")).json()
        assert (page["tasks"], page["total"]) == ([], 0)
    page = (await ada.http.get("/v1/tasks")).json()
    assert ([item["id"] for item in page["tasks"]], page["total"]) == ([task], 1)


async def test_a_socket_follows_only_what_belongs_to_its_user(launch):
    from websockets.asyncio.client import connect

    ada, bob, _ = await launch()
    run = await ada.ask("helper", "Hello")
    wish = {"input": "My secret is 7.", "agent": "helper"}
    task = (await ada.http.post("/v1/tasks", json=wish)).json()["id"]
    address = f"{bob.url.replace('http', 'ws')}/v1/socket"
    async with connect(address, subprotocols=["orbiter", f"orbiter.bearer.{BOB}"]) as socket:
        for wish in (
            {"type": "follow", "run": run["id"]}, {"type": "cancel", "run": run["id"]},
            {"type": "follow", "task": task}, {"type": "cancel", "task": task},
            {"type": "run", "session_id": run["session_id"], "input": "x"},
        ):  # fmt: skip
            await socket.send(json.dumps(wish))
            told = json.loads(await socket.recv())
            assert (told["type"], told["error"]["status"]) == ("error", 404), told


async def test_what_a_chat_kept_back_is_given_to_its_user_alone(launch):
    model = ScriptedModel(
        call("get_weather", city="Oslo"), call("look_up", name="Ada"), "Done.", "Done."
    )
    ada, bob, _ = await launch(model=model)
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
    wish = {"model": "helper", "tools": tools, "messages": [{"role": "user", "content": "Hi"}]}
    asked = (await ada.http.post("/v1/chat/completions", json=wish)).json()
    message = asked["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "x"}
    wish = {**wish, "messages": [*wish["messages"], message, result]}
    for server, whole in ((bob, False), (ada, True)):
        assert (await server.http.post("/v1/chat/completions", json=wish)).status_code == 200
        said = " ".join(str(message.content) for message in model.requests[-1].messages)
        assert ("Sunny in Oslo" in said) == whole


@pytest.mark.parametrize("how", ["right", "token", "name", "api server"])
async def test_a_stream_ends_when_its_listener_may_no_longer(
    launch, reviews, api, monkeypatch, how
):
    monkeypatch.setattr(module, "YES_SECONDS", 0.2)
    model = Paced("one ", "two ")
    ada, *_ = await launch(model=model)
    run = await ada.ask("helper", "Count")
    model.let()
    events = ada.events(f"/v1/runs/{run['id']}/events")
    async with aclosing(events):
        while (await anext(events))["type"] != "text":
            pass
        match how:
            case "right":
                reviews.take("ada")
            case "token":
                del reviews.tokens[ADA]
            case "name":
                reviews.token(ADA, "somebody-else")
            case "api server":
                await api.stop()
        async with asyncio.timeout(20):
            assert [event async for event in events] == []
    model.let()


async def test_a_stream_goes_on_while_its_listener_may(launch, reviews, api, monkeypatch):
    monkeypatch.setattr(module, "YES_SECONDS", 0.1)
    model = Paced("one ", "two ")
    ada, *_ = await launch(model=model)
    run = await ada.ask("helper", "Count")
    model.let()
    events = ada.events(f"/v1/runs/{run['id']}/events")
    async with aclosing(events):
        while (await anext(events))["type"] != "text":
            pass
        before = api.requests["create", "tokenreviews"]
        await eventually(lambda: api.requests["create", "tokenreviews"] > before + 2)
        model.let()
        assert [event["type"] async for event in events][-1] == "end"


async def test_a_socket_is_closed_when_its_user_may_no_longer(launch, reviews, monkeypatch):
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosedError

    monkeypatch.setattr(module, "YES_SECONDS", 0.2)
    ada, *_ = await launch()
    address = f"{ada.url.replace('http', 'ws')}/v1/socket"
    async with connect(address, subprotocols=["orbiter", f"orbiter.bearer.{ADA}"]) as socket:
        reviews.take("ada")
        with pytest.raises(ConnectionClosedError) as closed:
            async with asyncio.timeout(20):
                await socket.recv()
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (
        1008, "your token or your right is gone: sign in again",
    )  # fmt: skip
