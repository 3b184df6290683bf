"""The WebSocket: runs and tasks over one connection."""

import json

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from orbiter.models import ScriptedModel, call
from orbiter.server._internal import socket as socket_module

from .conftest import Paced

# behind a real socket, each with a server of its own
pytestmark = pytest.mark.integration


def socket(server, **options):
    return connect(server.url.replace("http", "ws") + "/v1/socket", **options)


async def say(ws, **message):
    await ws.send(json.dumps(message))


async def heard(ws, until="done"):
    messages = []
    while not messages or messages[-1]["type"] != until:
        messages.append(json.loads(await ws.recv()))
    return messages


async def test_a_run_is_started_and_followed(start):
    server = await start(model=ScriptedModel(call("get_weather", city="Oslo"), "It is sunny."))
    async with socket(server) as ws:
        await say(ws, type="run", id="a", agent="helper", input="How is the weather?")
        messages = await heard(ws)
    assert messages[0]["run"]["status"] == "running"
    events = [m["event"] for m in messages if m["type"] == "event"]
    assert "".join(e["text"] for e in events if e["type"] == "text") == "It is sunny."
    assert {m["id"] for m in messages} == {"a"}
    assert events[-1]["status"] == "completed"


async def test_a_run_and_a_task_are_followed_from_where_the_client_was(start):
    server = await start(model=ScriptedModel("One two three.", repeat=True))
    run = await server.ask("helper", "Count")
    events = await server.outcome(run)
    task = (await server.http.post("/v1/tasks", json={"input": "x", "agent": "helper"})).json()
    async with socket(server) as ws:
        await say(ws, type="follow", id="r", run=run["id"], after=2)
        told = await heard(ws)
        assert [m["event"] for m in told[:-1]] == events[2:]
        await say(ws, type="follow", id="t", task=task["id"])
        told = await heard(ws)
        assert told[-2]["event"]["payload"] == {"state": "completed"}


async def test_several_are_followed_at_once_and_one_is_cancelled(start):
    server = await start(model=Paced("never"))
    async with socket(server) as ws:
        await say(ws, type="run", id="a", agent="helper", input="x")
        await say(ws, type="run", id="b", agent="helper", input="x")
        started = {}
        while len(started) < 2:
            message = json.loads(await ws.recv())
            if message["type"] == "started":
                started[message["id"]] = message["run"]["id"]
        await say(ws, type="cancel", run=started["b"])
        messages = await heard(ws)
        assert messages[-1]["id"] == "b"
        assert messages[-2]["event"]["status"] == "cancelled"
        assert (await server.http.get(f"/v1/runs/{started['a']}")).json()["status"] == "running"


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("{", 422),
        ('{"type": "dance"}', 422),
        ('{"type": "follow", "id": "x"}', 422),
        ('{"type": "follow", "run": "none"}', 404),
        ('{"type": "cancel", "task": "none"}', 404),
        ('{"type": "run", "agent": "nobody", "input": "x"}', 404),
    ],
)
async def test_mistakes_are_told_and_the_connection_stays(start, message, status):
    server = await start()
    async with socket(server) as ws:
        await ws.send(message)
        answer = json.loads(await ws.recv())
        assert (answer["type"], answer["error"]["status"]) == ("error", status)
        await say(ws, type="run", id="a", agent="helper", input="x")
        await heard(ws)


@pytest.mark.parametrize(("key", "most", "status"), [("a", 100, 409), ("b", 1, 429)])
async def test_a_run_that_could_not_be_followed_is_not_begun(start, monkeypatch, key, most, status):
    monkeypatch.setattr(socket_module, "MOST_FOLLOWED", most)
    server = await start(model=Paced("never"))
    async with socket(server) as ws:
        await say(ws, type="run", id="a", agent="helper", input="x")
        await heard(ws, until="started")
        await say(ws, type="run", id=key, agent="helper", input="y")
        refused = (await heard(ws, until="error"))[-1]
        assert (refused["id"], refused["error"]["status"]) == (key, status)
        assert (await server.http.get("/v1/sessions")).json()["total"] == 1


async def test_the_token_comes_as_a_header_or_as_a_subprotocol(start):
    server = await start(token="secret")
    with pytest.raises(InvalidStatus):
        async with socket(server):
            pass
    with pytest.raises(InvalidStatus):
        async with socket(server, subprotocols=["orbiter", "orbiter.bearer.wrong"]):
            pass
    async with socket(server, additional_headers={"Authorization": "Bearer secret"}) as ws:
        await say(ws, type="stop", id="none")
    async with socket(server, subprotocols=["orbiter", "orbiter.bearer.secret"]) as ws:
        assert ws.subprotocol == "orbiter"


async def test_a_foreign_page_gets_no_connection(start):
    server = await start()
    with pytest.raises(InvalidStatus):
        async with socket(server, origin="https://evil.example"):
            pass
