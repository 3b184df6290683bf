"""What operators see: health, metrics, comments in silent streams."""

import httpx
import pytest

from .conftest import Paced

# behind a real socket, each with a server of its own
pytestmark = pytest.mark.integration


async def test_the_metrics_count_requests_by_route_runs_and_tokens(start):
    server = await start()
    for _ in range(2):
        await server.outcome(await server.ask("helper", "Hi"))
    await server.http.get("/v1/runs/none")
    text = (await server.http.get("/metrics")).text
    requests = "orbiter_server_requests_total"
    for line in [
        requests + '{method="POST",route="/v1/agents/{name}/runs",status="202"} 2.0',
        requests + '{method="GET",route="/v1/runs/{run_id}",status="404"} 1.0',
        'orbiter_server_runs_total{agent="helper",status="completed"} 2.0',
        'orbiter_server_tokens_total{agent="helper",direction="output"} 10.0',
        "orbiter_server_active_runs 0.0",
    ]:
        assert line in text


async def test_methods_that_strangers_make_up_make_no_series(start):
    server = await start(token="secret-of-the-server")
    for number in range(50):
        refused = await server.http.request(f"MADE-UP-{number}", "/healthz")
        assert refused.status_code == 405
    found = await server.http.get(
        "/metrics", headers={"Authorization": "Bearer secret-of-the-server"}
    )
    made = [line for line in found.text.splitlines() if "server_requests_total{" in line]
    assert made == ['orbiter_server_requests_total{method="other",route="other",status="405"} 50.0']


async def test_a_silent_stream_says_that_it_is_alive(start):
    server = await start(model=Paced("never"), heartbeat_seconds=0.02)
    run = await server.ask("helper", "Hi")
    task = (await server.http.post("/v1/tasks", json={"input": "x", "agent": "helper"})).json()
    for path in (f"/v1/runs/{run['id']}/events", f"/v1/tasks/{task['id']}/events"):
        async with server.http.stream("GET", path) as response:
            async for line in response.aiter_lines():
                if line == ": still here":
                    break


async def test_health_and_readiness_are_different_things(start):
    server = await start()
    assert (await server.http.get("/healthz")).json() == {"status": "ok", "active_runs": 0}
    assert (await server.http.get("/readyz")).status_code == 200
    await server.app.state.runs.drain()
    assert (await server.http.get("/healthz")).status_code == 200
    refused = await server.http.get("/readyz")
    assert (refused.status_code, refused.json()["status"]) == (503, "the server is about to stop")
    run = await server.http.post("/v1/agents/helper/runs", json={"input": "x"})
    assert run.status_code == 503


async def test_a_disk_that_is_full_stops_the_stream_and_not_the_server(start, monkeypatch):
    import sqlite3

    from orbiter.server._internal import journal

    monkeypatch.setattr(journal, "RETRY_SECONDS", 0.01)
    model = Paced("one ", "two")
    server = await start(model=model)
    run = await server.ask("helper", "Count")
    database = server.app.state.runs._journal._database
    works = database._run

    def full(work):
        if "Journal" in work.__qualname__:
            raise sqlite3.OperationalError("database or disk is full")
        return works(work)

    monkeypatch.setattr(database, "_run", full)
    model.let(2)
    while (await server.http.get("/readyz")).status_code == 200:
        pass
    assert "disk is full" in (await server.http.get("/readyz")).json()["status"]
    monkeypatch.setattr(database, "_run", works)
    told = [e["text"] for e in await server.outcome(run) if e["type"] == "text"]
    assert told == ["one ", "two"]
    assert (await server.http.get("/readyz")).status_code == 200


async def test_what_fails_inside_is_not_told_outside(start):
    server = await start()

    async def fail(session_id):
        raise RuntimeError("the password is xyzzy")

    server.app.state.runs._sessions.get = fail
    async with httpx.AsyncClient(base_url=server.url) as http:
        answer = await http.get("/v1/sessions/any")
    assert answer.status_code == 500
    assert "xyzzy" not in answer.text
