"""Who asks for more than a part of the server: clients, streams and bodies without end."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from support.eventually import eventually
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from orbiter.server._internal import bodies, sse
from orbiter.server.models import MAX_INPUT

from .conftest import Paced
from .test_server_cluster_tasks import FIX, TASKS, WANTED, people, told
from .test_server_mcp import ADA, BOB, put_task

__all__ = ["people"]
pytestmark = pytest.mark.integration


def socket(server, token=""):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return connect(f"{server.url.replace('http', 'ws')}/v1/socket", additional_headers=headers)


async def status_of(connecting):
    """What a WebSocket is answered that does not come about."""
    with pytest.raises(InvalidStatus) as caught:
        await connecting.__aenter__()
    return caught.value.response.status_code


async def test_a_socket_and_what_it_follows_are_event_streams(start):
    server = await start(model=Paced("never"), max_streams=3)
    run = await server.ask("helper", "Wait")
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(socket(server))
        await stack.enter_async_context(socket(server))
        for key in ("a", "b"):
            follow = {"type": "follow", "id": key, "run": run["id"]}
            await first.send(json.dumps(follow))
        while (answer := json.loads(await first.recv()))["type"] != "error":
            pass
        assert (answer["id"], answer["error"]["status"]) == ("b", 503)
        assert await status_of(socket(server)) == 503
        assert (await server.http.get(f"/v1/runs/{run['id']}/events")).status_code == 503
        await first.send(json.dumps({"type": "stop", "id": "a"}))
        await eventually(lambda: server.app.state.streams.opened == 2)
    await eventually(lambda: server.app.state.streams.opened == 0)


async def test_one_person_has_a_part_of_sockets_and_events_together(
    people, api, reviews, monkeypatch
):
    monkeypatch.setattr(sse, "FEW", 2)
    monkeypatch.setattr(sse, "OF_A_PERSON", 10**6)
    ada, bob = people
    put_task(api, phase="Running")
    for user in ("ada", "bob"):
        reviews.give(user, "use", "agents", "default")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(socket(ada, ADA))
        opened = await stack.enter_async_context(ada.http.stream("GET", f"{FIX}/events"))
        assert opened.status_code == 200
        assert (await ada.http.get(f"{FIX}/events")).status_code == 429
        assert await status_of(socket(ada, ADA)) == 429
        await stack.enter_async_context(socket(bob, BOB))


async def test_a_message_is_no_longer_than_a_request_may_be(start):
    server = await start(max_body_bytes=10_000)
    async with socket(server) as ws:
        await ws.send(json.dumps({"type": "run", "id": "a", "input": "x" * 11_000}))
        with pytest.raises(ConnectionClosedError) as caught:
            await ws.recv()
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1009


async def test_a_key_that_is_there_twice_is_none(people, api):
    ada, _ = people
    twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    assert told(await ada.http.post(TASKS, json=WANTED, headers=twice)) == (422, "invalid")
    assert not api.objects["agenttasks"]


@pytest.mark.parametrize("part", [b"[],", b'"",', b'{"a":0},'])
async def test_a_body_of_too_many_values_is_refused_before_they_are_made(start, part):
    server = await start()
    many = b'{"input": [' + part * bodies.MOST_VALUES * 3 + b"0]}"
    answer = await server.http.post("/v1/agents/helper/runs", content=many[:3_999_999])
    assert told(answer) == (413, "too_large")


async def test_commas_and_brackets_in_a_text_are_no_values(start):
    server = await start()
    words = '[{,"' * (MAX_INPUT // 4)
    assert 3 * MAX_INPUT // 4 > bodies.MOST_VALUES
    answer = await server.http.post("/v1/agents/helper/runs", json={"input": words})
    assert answer.status_code == 202


async def beginning(server, size, token=""):
    """A request whose body does not end."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"POST {TASKS} HTTP/1.1", f"Host: {host}:{port}", f"Content-Length: {size + 1}"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + b" " * size)
    await writer.drain()
    return reader, writer


async def test_bodies_that_do_not_end_are_few_and_those_of_one_person_fewer(
    people, api, monkeypatch
):
    monkeypatch.setattr(bodies, "OF_A_PERSON", 0)
    ada, bob = people
    assert told(await ada.http.post(TASKS, json=WANTED)) == (429, "busy")
    monkeypatch.undo()
    monkeypatch.setattr(bodies, "AT_ONCE", 0)
    assert told(await bob.http.post(TASKS, json=WANTED)) == (503, "busy")
    monkeypatch.undo()
    opened = [await beginning(ada, 3_999_000, ADA) for _ in range(bodies.OF_A_PERSON)]
    held = ada.app.state.bodies
    await eventually(lambda: held.of("ada") == bodies.OF_A_PERSON * 3_999_000)
    assert told(await ada.http.post(TASKS, content=b" " * 9_000)) == (429, "busy")
    assert told(await bob.http.post(TASKS, json=WANTED)) == (403, "reads_only")
    for _, writer in opened:
        writer.close()
        await writer.wait_closed()
    await eventually(lambda: held.of("ada") == 0)
    assert (await ada.http.post(TASKS, json=WANTED)).status_code == 201
