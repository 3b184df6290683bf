"""Conversations whose agent has tools that wait for a person: the next message is the answer."""

import asyncio
import json

import pytest

from orbiter import Agent, tool
from orbiter.models import ScriptedModel, call

from .conftest import running

ASKED = {"tool": "refund", "arguments": {"order": 7}}


class Shop:
    def __init__(self):
        self.did = []

    @tool(approval=True)
    def refund(self, order: int) -> str:
        """Give money back."""
        self.did.append(order)
        return "refunded"

    def agents(self):
        return {"clerk": Agent(name="clerk", tools=[self.refund])}


@pytest.fixture
def shop():
    return Shop()


async def waiting(server, session):
    """The id of what a session asks now, as its latest run tells."""
    runs = (await server.http.get(f"/v1/sessions/{session}")).json()["runs"]
    return next((request["id"] for request in runs[-1]["input_requests"]), None)


async def say(server, text, session=None, request_id=""):
    where = "/v1/agents/clerk/runs" if session is None else f"/v1/sessions/{session}/runs"
    if request_id == "":
        request_id = await waiting(server, session) if session else None
    begun = await server.http.post(where, json={"input": text, "request_id": request_id})
    if begun.status_code >= 400:
        return begun.status_code, begun.json()["error"]
    run = begun.json()
    events = [event async for event in server.events(f"/v1/runs/{run['id']}/events")]
    return (await server.http.get(f"/v1/runs/{run['id']}")).json(), events


async def test_a_run_waits_and_the_next_message_decides(start, shop):
    model = ScriptedModel(call("refund", order=7), "Done.", "Bye.")
    server = await start(shop.agents(), model)
    first, events = await say(server, "Refund order 7")
    assert (first["status"], first["stop_reason"]) == ("completed", "input_required")
    (request,) = first["input_requests"]
    assert {k: request["calls"][0][k] for k in ASKED} == ASKED
    assert [e["request"]["id"] for e in events if e["type"] == "input_request"] == [request["id"]]
    session = first["session_id"]
    assert shop.did == []
    last, events = await say(server, 'approve {"order": 8}', session)
    assert (last["output"], last["stop_reason"], shop.did) == ("Done.", "completed", [8])
    assert "input_request" not in [event["type"] for event in events]
    kept = (await server.http.get(f"/v1/sessions/{session}")).json()["messages"]
    assert [m["role"] for m in kept] == ["user", "assistant", "tool", "assistant"]
    assert [m["content"] for m in kept if m["role"] == "user"] == ["Refund order 7"]
    assert (await say(server, "Thank you", session))[0]["output"] == "Bye."
    assert len(model.requests[-1].messages) == 5


async def test_an_answer_is_to_the_request_that_was_shown_and_to_no_other(start, shop):
    model = ScriptedModel([call("refund", order=7), call("refund", order=9)], "Done.")
    server = await start(shop.agents(), model)
    first, _ = await say(server, "Refund both")
    session, (one, other) = first["session_id"], first["input_requests"]
    status, error = await say(server, "approve", session, request_id=None)
    assert (status, error["code"], error["param"]) == (422, "no_answer", "request_id")
    status, error = await say(server, "approve", session, request_id=other["id"])
    assert (status, error["code"]) == (409, "other_request")
    await say(server, "deny", session, request_id=one["id"])
    # typed while the first was shown, in another window
    status, error = await say(server, "approve", session, request_id=one["id"])
    assert (status, error["code"]) == (409, "other_request")
    assert other["id"] in error["message"]
    last, _ = await say(server, "approve", session, request_id=other["id"])
    assert (last["output"], shop.did) == ("Done.", [9])
    status, error = await say(server, "approve", session, request_id=other["id"])
    assert (status, "somebody has answered it" in error["message"]) == (409, True)
    assert len(model.requests) == 2


async def test_an_answer_in_json_names_its_request_itself(start, shop):
    server = await start(shop.agents(), ScriptedModel(call("refund", order=7), "Done."))
    first, _ = await say(server, "Refund order 7")
    (request,) = first["input_requests"]
    answer = {"id": request["id"], "decision": "approve"}
    last, _ = await say(server, json.dumps(answer), first["session_id"], request_id=None)
    assert (last["output"], shop.did) == ("Done.", [7])


async def test_no_client_sees_the_paused_run(start, shop):
    server = await start(shop.agents(), ScriptedModel(call("refund", order=7)))
    first, events = await say(server, "Refund order 7")
    whole = (await server.http.get(f"/v1/sessions/{first['session_id']}")).text
    assert '"paused"' not in json.dumps([first, events]) + whole


async def test_what_is_no_answer_is_refused_and_what_waits_goes_on_waiting(start, shop):
    server = await start(shop.agents(), ScriptedModel(call("refund", order=7), "Then not."))
    first, _ = await say(server, "Refund order 7")
    session, (request,) = first["session_id"], first["input_requests"]
    assert (await say(server, "perhaps", session))[1]["code"] == "no_answer"
    wrong = json.dumps({"id": request["id"], "decision": "approve", "digest": "0" * 64})
    status, error = await say(server, wrong, session)
    assert (status, "to another call" in error["message"]) == (422, True)
    last, _ = await say(server, "no, it is too late", session)
    assert (last["output"], shop.did) == ("Then not.", [])


async def test_several_things_are_asked_one_after_the_other(start, shop):
    model = ScriptedModel([call("refund", order=7), call("refund", order=9)], "Done.")
    server = await start(shop.agents(), model)
    first, _ = await say(server, "Refund both")
    session = first["session_id"]
    second, events = await say(server, "approve", session)
    assert second["stop_reason"] == "input_required"
    assert second["input_requests"] == first["input_requests"][1:]
    assert [event["type"] for event in events] == ["input_request", "end"]
    last, _ = await say(server, "deny", session)
    assert (last["output"], shop.did) == ("Done.", [7])


async def test_arguments_that_do_not_fit_are_asked_about_again(start, shop):
    server = await start(shop.agents(), ScriptedModel(call("refund", order=7), "Done."))
    session = (await say(server, "Refund order 7"))[0]["session_id"]
    refused, _ = await say(server, 'approve {"order": "many"}', session)
    assert (refused["status"], "does not take" in refused["error"]) == ("failed", True)
    assert (await say(server, "approve", session))[0]["output"] == "Done."
    assert shop.did == [7]


async def test_chat_completions_say_that_they_cannot_ask(start, shop):
    server = await start(shop.agents(), ScriptedModel(call("refund", order=7)))
    body = {"model": "clerk", "messages": [{"role": "user", "content": "Refund order 7"}]}
    answer = await server.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 502
    assert "waits for a person, whom a session can ask" in answer.json()["error"]["message"]
    assert shop.did == []


async def test_a_server_that_stops_in_the_middle_asks_once_more(tmp_path):
    begun = asyncio.Event()
    did = []

    @tool(approval=True)
    async def refund(order: int) -> str:
        """Give money back."""
        did.append(order)
        begun.set()
        await asyncio.Event().wait()
        return "refunded"

    agents = {"clerk": Agent(name="clerk", tools=[refund])}
    async with running(tmp_path, agents, ScriptedModel(call("refund", order=7))) as server:
        session = (await say(server, "Refund order 7"))[0]["session_id"]
        where = f"/v1/sessions/{session}/runs"
        answer = {"input": "approve", "request_id": await waiting(server, session)}
        run = (await server.http.post(where, json=answer)).json()
        await begun.wait()
    async with running(tmp_path, agents, ScriptedModel("Then not.")) as server:
        [_ async for _ in server.events(f"/v1/runs/{run['id']}/events")]
        left = (await server.http.get(f"/v1/runs/{run['id']}")).json()
        assert (left["status"], "may have run already" in left["error"]) == ("failed", True)
        assert [one["calls"][0]["tool"] for one in left["input_requests"]] == ["refund"]
        assert (await say(server, "deny", session))[0]["output"] == "Then not."
    assert did == [7]
