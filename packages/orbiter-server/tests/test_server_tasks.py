"""Tasks over HTTP: handed in, followed, asked about, answered, cancelled, listed."""

import json

import pytest
from support.eventually import eventually

from orbiter import Agent, tool
from orbiter.models import ScriptedModel, call
from orbiter.tasks import ask_user

from .conftest import Paced

# behind a real socket, each with a server of its own
pytestmark = pytest.mark.integration


async def submit(server, text="Do it", agent="helper"):
    answer = await server.http.post("/v1/tasks", json={"input": text, "agent": agent})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


async def state_of(server, key, state):
    async def reached():
        task = (await server.http.get(f"/v1/tasks/{key}")).json()
        return task if task["state"] == state else None

    return await eventually(reached)


async def test_a_task_is_done_and_its_events_can_be_followed_from_any(start):
    server = await start(model=ScriptedModel("Done."))
    key = await submit(server)
    events = [event async for event in server.events(f"/v1/tasks/{key}/events")]
    assert events[-1]["payload"] == {"state": "completed"}
    assert (await server.http.get(f"/v1/tasks/{key}")).json()["result"] == "Done."
    rest = [event async for event in server.events(f"/v1/tasks/{key}/events", last=1)]
    assert rest == events[1:]


async def test_a_task_can_ask_and_be_answered(start):
    waiter = Agent(name="waiter", tools=[ask_user])
    model = ScriptedModel(call("ask_user", question="For how many?"), "A table for four.")
    server = await start({"waiter": waiter}, model)
    key = await submit(server, agent="waiter")
    assert (await state_of(server, key, "input_required"))["question"] == "For how many?"
    answered = await server.http.post(f"/v1/tasks/{key}/answer", json={"text": "Four."})
    assert answered.status_code == 200
    assert (await state_of(server, key, "completed"))["result"] == "A table for four."
    again = await server.http.post(f"/v1/tasks/{key}/answer", json={"text": "Five."})
    assert again.status_code == 409


def clerk_of(did):
    """An agent with a tool that a person has to approve."""

    @tool(approval=True)
    def refund(order: int) -> str:
        """Give money back."""
        did.append(order)
        return "refunded"

    return Agent(name="clerk", tools=[refund])


async def test_a_tool_that_waits_is_asked_about_and_approved(start):
    did = []
    clerk = clerk_of(did)
    server = await start({"clerk": clerk}, ScriptedModel(call("refund", order=7), "Done."))
    key = await submit(server, agent="clerk")
    asked = await state_of(server, key, "input_required")
    request = asked["input_request"]
    assert (request["kind"], request["calls"][0]["arguments"]) == ("approval", {"order": 7})
    answer = f"/v1/tasks/{key}/answer"
    wrong = json.dumps({"id": request["id"], "decision": "approve", "digest": "0" * 64})
    refused = await server.http.post(answer, json={"text": wrong})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "no_answer")
    right = wrong.replace("0" * 64, request["calls"][0]["digest"])
    assert (await server.http.post(answer, json={"text": right})).status_code == 200
    assert (await state_of(server, key, "completed"))["result"] == "Done."
    assert did == [7]
    told = [event["payload"] async for event in server.events(f"/v1/tasks/{key}/events")]
    assert not any("paused" in payload for payload in told)


async def test_an_answer_that_names_no_request_approves_no_later_one(start):
    did = []
    clerk = clerk_of(did)
    model = ScriptedModel(call("refund", order=7), call("refund", order=900), "Done.")
    server = await start({"clerk": clerk}, model)
    key = await submit(server, agent="clerk")
    first = (await state_of(server, key, "input_required"))["input_request"]["id"]
    answer = f"/v1/tasks/{key}/answer"
    body = {"text": "approve", "request_id": first}
    assert (await server.http.post(answer, json=body)).status_code == 200
    await eventually(lambda: did == [7])
    second = (await state_of(server, key, "input_required"))["input_request"]["id"]
    for late in (body, {"text": "approve"}):
        refused = await server.http.post(answer, json=late)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "other_request")
        assert second in refused.json()["error"]["message"]
    assert did == [7]
    named = {"text": "approve", "request_id": second}
    assert (await server.http.post(answer, json=named)).status_code == 200
    assert (await state_of(server, key, "completed"))["result"] == "Done."
    assert did == [7, 900]


async def test_a_task_can_be_cancelled(start):
    server = await start(model=Paced("never"))
    key = await submit(server)
    await state_of(server, key, "running")
    cancelled = await server.http.post(f"/v1/tasks/{key}/cancel")
    assert cancelled.json()["state"] == "cancelled"


async def test_tasks_are_listed_in_pages_by_state(start):
    server = await start(model=ScriptedModel("Done.", repeat=True))
    keys = [await submit(server, f"{n} " * 200) for n in range(3)]
    for key in keys:
        await state_of(server, key, "completed")
    page = (await server.http.get("/v1/tasks?limit=2&state=completed")).json()
    assert [task["id"] for task in page["tasks"]] == keys[:0:-1]
    assert page["total"] == 3
    assert len(page["tasks"][0]["input"]) == 200
    rest = (await server.http.get(f"/v1/tasks?limit=2&after={page['next']}")).json()
    assert [task["id"] for task in rest["tasks"]] == keys[:1]
    assert (await server.http.get("/v1/tasks?state=failed")).json()["total"] == 0
    assert (await server.http.get("/v1/tasks?after=x")).status_code == 422


async def test_unknown_tasks_and_agents_are_told(start):
    server = await start()
    for method, path in [("GET", ""), ("POST", "/cancel"), ("GET", "/events")]:
        assert (await server.http.request(method, f"/v1/tasks/none{path}")).status_code == 404
    answer = await server.http.post("/v1/tasks/none/answer", json={"text": "x"})
    assert answer.status_code == 404
    refused = await server.http.post("/v1/tasks", json={"input": "x", "agent": "nobody"})
    assert refused.status_code == 404
