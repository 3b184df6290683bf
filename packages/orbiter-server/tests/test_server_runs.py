"""Runs over HTTP: asked for, followed, taken up again from any event, cancelled."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest
from support.eventually import eventually

from orbiter import Agent, Swarm
from orbiter.models import ModelResponse, ScriptedModel, call
from orbiter.types import UserMessage

from .conftest import Paced, get_weather, running

# behind a real socket, each with a server of its own
pytestmark = pytest.mark.integration


def text_of(events):
    return "".join(event["text"] for event in events if event["type"] == "text")


async def test_a_run_tells_its_events_and_ends_with_the_answer(start):
    server = await start(model=ScriptedModel(call("get_weather", city="Oslo"), "It is sunny."))
    run = await server.ask("helper", "How is the weather?")
    events = await server.outcome(run)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert text_of(events) == "It is sunny."
    assert [e["content"] for e in events if e["type"] == "tool_result"] == ["Sunny in Oslo"]
    assert events[-1]["type"] == "end"
    assert events[-1]["status"] == "completed"
    assert events[-1]["output"] == "It is sunny."
    assert events[-1]["steps"] == 2
    shown = (await server.http.get(f"/v1/runs/{run['id']}")).json()
    assert (shown["status"], shown["output"], shown["last_event"]) == (
        "completed",
        "It is sunny.",
        len(events),
    )


async def test_a_session_remembers_what_was_said(start):
    model = ScriptedModel("Sunny.", "Rain.")
    server = await start(model=model)
    first = await server.ask("helper", "And today?")
    await server.outcome(first)
    second = await server.ask("helper", "And tomorrow?", session_id=first["session_id"])
    await server.outcome(second)
    assert [m.content for m in model.requests[1].messages] == [
        "And today?",
        "Sunny.",
        "And tomorrow?",
    ]
    session = (await server.http.get(f"/v1/sessions/{first['session_id']}")).json()
    assert session["title"] == "And today?"
    assert [run["output"] for run in session["runs"]] == ["Sunny.", "Rain."]
    assert [m["content"] for m in session["messages"]] == [
        "And today?", "Sunny.", "And tomorrow?", "Rain.",
    ]  # fmt: skip


async def test_a_client_that_comes_back_gets_what_it_missed_and_nothing_twice(start):
    model = Paced(*"abcdefgh")
    server = await start(model=model)
    run = await server.ask("helper", "Spell")
    model.let(3)
    seen = []
    async for event in server.events(f"/v1/runs/{run['id']}/events"):
        seen.append(event)
        if event.get("text") == "c":
            break
    model.let(5)
    path = f"/v1/runs/{run['id']}/events"
    rest = [event async for event in server.events(path, last=seen[-1]["seq"])]
    assert text_of(seen + rest) == "abcdefgh"
    assert [event["seq"] for event in seen + rest] == list(range(1, len(seen + rest) + 1))


async def test_any_number_of_readers_see_the_same(start):
    model = Paced("one ", "two")
    server = await start(model=model)
    run = await server.ask("helper", "Count")
    readers = [asyncio.create_task(server.outcome(run)) for _ in range(5)]
    model.let(2)
    told = await asyncio.gather(*readers)
    assert all(events == told[0] for events in told)


async def test_a_reader_that_leaves_takes_no_other_along(start):
    model = Paced("one ", "two ", "three")
    server = await start(model=model)
    run = await server.ask("helper", "Count")
    path = f"/v1/runs/{run['id']}/events"
    staying = asyncio.create_task(server.outcome(run))
    for _ in range(3):
        async with server.http.stream("GET", path) as leaving:
            lines = leaving.aiter_lines()
            while not (await anext(lines)).startswith("data: "):
                pass
    closed = "orbiter_server_event_streams 1.0"

    async def has_left():
        return closed in (await server.http.get("/metrics")).text

    await eventually(has_left)
    model.let(3)
    assert text_of(await staying) == "one two three"


async def test_events_survive_a_restart(start, tmp_path):
    from .conftest import running

    async with running(tmp_path) as server:
        run = await server.ask("helper", "Hi")
        before = await server.outcome(run)
    server = await start()
    assert await server.outcome(run) == before


async def test_a_long_answer_is_read_from_the_disk_by_those_who_come_late(start):
    words = [f"{n} " for n in range(600)]
    model = Paced(*words)
    model.let(600)
    server = await start(model=model)
    run = await server.ask("helper", "Count")
    assert text_of(await server.outcome(run)) == "".join(words)
    late = [e async for e in server.events(f"/v1/runs/{run['id']}/events?after=100")]
    assert [event["seq"] for event in late] == list(range(101, 604))


async def test_cancelling_ends_the_run_and_says_so(start):
    model = Paced("a", "b")
    server = await start(model=model)
    run = await server.ask("helper", "Spell")
    model.let(1)
    stream = server.events(f"/v1/runs/{run['id']}/events")
    while (await anext(stream))["type"] != "text":
        pass
    cancelled = await server.http.post(f"/v1/runs/{run['id']}/cancel")
    assert cancelled.json()["status"] == "cancelled"
    assert [event["type"] async for event in stream] == ["end"]
    again = await server.http.post(f"/v1/runs/{run['id']}/cancel")
    assert again.json()["status"] == "cancelled"


@pytest.mark.parametrize("reason", ["length", "content_filter", "refusal", "incomplete"])
async def test_an_answer_that_is_not_whole_is_kept_and_says_why_it_ended(start, reason):
    cut = ModelResponse(content="Once upon", finish_reason=reason)
    server = await start(model=ScriptedModel(cut))
    run = await server.ask("helper", "Tell me a story")
    end = (await server.outcome(run))[-1]
    assert (end["type"], end["output"], end["stop_reason"]) == ("end", "Once upon", reason)
    kept = (await server.http.get(f"/v1/runs/{run['id']}")).json()
    assert kept["stop_reason"] == reason


async def test_a_run_that_fails_says_why(start):
    server = await start(model=ScriptedModel())
    events = await server.outcome(await server.ask("helper", "Hi"))
    assert [event["type"] for event in events[-2:]] == ["error", "end"]
    assert events[-1]["status"] == "failed"
    assert "the script has 0 replies" in events[-1]["error"]


async def test_a_run_that_is_not_gone_on_with_tells_what_it_took(tmp_path):
    async with running(tmp_path, model=Paced("never")) as server:
        run = await server.ask("helper", "Spell")
        await anext(server.events(f"/v1/runs/{run['id']}/events"))
    async with running(tmp_path, max_resumes=0) as server:
        ended = (await server.http.get(f"/v1/runs/{run['id']}")).json()
    assert (ended["status"], ended["stop_reason"], ended["steps"]) == ("failed", "error", 1)


async def test_a_run_whose_events_cannot_be_read_fails_and_others_are_gone_on_with(tmp_path):
    async with running(tmp_path, model=Paced("Hel", "lo")) as server:
        broken, whole = [await server.ask("helper", "Hi") for _ in range(2)]
        await anext(server.events(f"/v1/runs/{broken['id']}/events"))
    unknown = json.dumps({"seq": 1, "type": "of a later version"})
    with closing(sqlite3.connect(tmp_path / "server" / "sessions.db")) as db, db:
        db.execute(
            "UPDATE events SET data = ? WHERE run_id = ? AND seq = 1", (unknown, broken["id"])
        )
    async with running(tmp_path) as server:
        events = await server.outcome(broken)
        assert events[-1]["status"] == "failed"
        assert "this is no entry of a run" in events[-1]["error"]
        assert (await server.outcome(whole))[-1]["output"] == "Hi."


async def test_a_session_has_one_run_at_a_time(start):
    model = Paced("a")
    server = await start(model=model)
    run = await server.ask("helper", "Spell")
    path = f"/v1/sessions/{run['session_id']}/runs"
    second = await server.http.post(path, json={"input": "Again"})
    assert second.status_code == 409
    assert second.json()["error"]["code"] == "run_active"


async def test_more_runs_than_allowed_are_refused_for_now(start):
    server = await start(model=Paced("a"), max_runs=1)
    await server.ask("helper", "Spell")
    second = await server.http.post("/v1/agents/helper/runs", json={"input": "x"})
    assert second.status_code == 429
    assert int(second.headers["retry-after"]) > 0


async def test_deleting_a_session_cancels_its_run_and_forgets_all(start):
    model = Paced("a")
    server = await start(model=model)
    run = await server.ask("helper", "Spell")
    deleted = await server.http.delete(f"/v1/sessions/{run['session_id']}")
    assert deleted.status_code == 204
    assert (await server.http.get(f"/v1/runs/{run['id']}")).status_code == 404
    assert (await server.http.get("/v1/sessions")).json()["total"] == 0


async def test_a_run_goes_on_whose_client_left_while_it_began(start):
    """A WebSocket's right may be gone at that moment; a run without an end holds up its session."""
    server = await start()
    runs = server.app.state.runs
    begin, written = runs._sessions.begin_run, asyncio.Event()

    async def begin_run(*words):
        begun = await begin(*words)
        written.set()
        await asyncio.sleep(0)
        return begun

    runs._sessions.begin_run = begin_run
    session = await runs._sessions.create("helper", None)
    starting = asyncio.create_task(runs.start(session.id, UserMessage(content="x"), None))
    await written.wait()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)

    async def ended():
        shown = (await server.http.get(f"/v1/sessions/{session.id}")).json()
        return [run["status"] for run in shown["runs"]] == ["completed"]

    await eventually(ended)


async def test_a_run_that_begins_while_its_session_is_deleted_stops_nobody(start):
    """A run's events belong to its session: without that they could never be written."""
    model = Paced("Done.")
    server = await start(model=model)
    run = await server.ask("helper", "one")
    session, sessions = run["session_id"], server.app.state.runs._sessions
    ended, begun = sessions.delete, {}

    async def delete(session_id):
        answer = await server.http.post(f"/v1/sessions/{session_id}/runs", json={"input": "two"})
        begun.update(answer.json())
        await ended(session_id)

    sessions.delete = delete
    deleted = await server.http.delete(f"/v1/sessions/{session}")
    model.let(2)
    other = await server.ask("helper", "three")
    async with asyncio.timeout(5):
        assert (await server.outcome(other))[-1]["output"] == "Done."
        assert (await server.outcome(begun))[-1]["output"] == "Done."
    assert (deleted.status_code, deleted.json()["error"]["code"]) == (409, "run_active")
    assert (await server.http.get(f"/v1/sessions/{session}")).status_code == 200


async def test_sessions_are_listed_in_pages_the_latest_first(start):
    server = await start()
    for number in range(5):
        await server.outcome(await server.ask("helper", f"Question {number}"))
    first = (await server.http.get("/v1/sessions?limit=3")).json()
    assert [s["title"] for s in first["sessions"]] == ["Question 4", "Question 3", "Question 2"]
    assert first["total"] == 5
    second = (await server.http.get(f"/v1/sessions?limit=3&after={first['next']}")).json()
    assert [s["title"] for s in second["sessions"]] == ["Question 1", "Question 0"]
    assert second["next"] is None


async def test_handoffs_and_swarms_are_served(start):
    billing = Agent(name="billing")
    agents = {
        "triage": Agent(name="triage", handoffs=[billing]),
        "pair": Swarm(agents=[Agent(name="a"), Agent(name="b")]),
    }
    server = await start(agents, ScriptedModel(call("transfer_to_billing"), "Paid.", "x", "y"))
    events = await server.outcome(await server.ask("triage", "Refund"))
    assert [e["target"] for e in events if e["type"] == "handoff"] == ["billing"]
    events = await server.outcome(await server.ask("pair", "Go"))
    assert events[-1]["output"] == "y"
    listed = (await server.http.get("/v1/agents")).json()["agents"]
    assert [(a["name"], a["kind"], a["handoffs"]) for a in listed] == [
        ("triage", "agent", ["billing"]),
        ("pair", "swarm", ["a", "b"]),
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/v1/agents/nobody/runs", {"input": "x"}, 404, "agents: helper"),
        ("POST", "/v1/agents/helper/runs", {"input": ""}, 422, "input"),
        ("POST", "/v1/agents/helper/runs", {"imput": "x"}, 422, "imput"),
        ("POST", "/v1/agents/helper/runs", {"input": "x", "session_id": "no"}, 404, "no session"),
        ("GET", "/v1/runs/none", None, 404, "no run 'none'"),
        ("GET", "/v1/sessions?after=x", None, 422, "after"),
        ("GET", "/v1/sessions?limit=0", None, 422, "limit"),
        ("GET", "/nowhere", None, 404, "Not Found"),
        ("PUT", "/v1/agents", None, 405, "Method Not Allowed"),
    ],
)
async def test_mistakes_are_told(start, method, path, body, status, says):
    server = await start()
    answer = await server.http.request(method, path, json=body)
    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]


async def test_a_body_that_is_no_json_or_too_long_is_refused(start):
    server = await start(max_body_bytes=1000)
    broken = await server.http.post("/v1/sessions", content=b"{")
    assert broken.status_code == 400
    long = await server.http.post("/v1/sessions", json={"agent": "x" * 2000})
    assert long.status_code == 413


async def test_streams_over_the_limit_are_refused_and_closed_ones_make_room(start):
    model = Paced("a")
    server = await start(model=model, max_streams=1, heartbeat_seconds=0.05)
    run = await server.ask("helper", "Spell")
    path = f"/v1/runs/{run['id']}/events"
    async with server.http.stream("GET", path) as first:
        lines = first.aiter_lines()  # kept: a forgotten one would close the stream
        await anext(lines)
        assert (await server.http.get(path)).status_code == 503

    async def has_room():
        async with server.http.stream("GET", path) as response:
            return response.status_code == 200

    await eventually(has_room)


async def test_the_agents_instructions_are_not_told(start):
    secret = Agent(name="helper", instructions="The password is xyzzy.", tools=[get_weather])
    server = await start({"helper": secret})
    assert "xyzzy" not in (await server.http.get("/v1/agents")).text
