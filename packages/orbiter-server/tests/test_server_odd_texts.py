"""Whatever tools answer is kept and told: nobody else's run has to wait for it."""

import asyncio

import pytest

from orbiter import Agent, tool
from orbiter.models import ScriptedModel, call

# behind a real socket, with a server of its own
pytestmark = pytest.mark.integration
HALF = "file \udce4.txt"
WHOLE = "file \ufffd.txt"


@tool
def list_files() -> str:
    """List files, as Python has names that are no UTF-8."""
    return HALF


@tool
def look_up(name: str) -> str:
    """Fail, with such a name in the words."""
    raise OSError(f"no {HALF}")


def agents():
    return {"helper": Agent(name="helper", tools=[list_files, look_up])}


async def test_half_a_character_is_replaced_and_the_run_ends(start):
    model = ScriptedModel(call("list_files"), call("look_up", name="a"), "Two.", repeat=True)
    server = await start(agents(), model=model)
    async with asyncio.timeout(10):
        events = await server.outcome(run := await server.ask("helper", "Which?"))
        results = [event for event in events if event["type"] == "tool_result"]
        assert results[0]["content"] == WHOLE
        assert WHOLE in results[1]["error"]
        assert (events[-1]["status"], events[-1]["output"]) == ("completed", "Two.")
        session = (await server.http.get(f"/v1/sessions/{run['session_id']}")).json()
        assert [message["content"] for message in session["messages"]][2] == WHOLE
        again = await server.ask("helper", "And now?", session_id=run["session_id"])
        assert (await server.outcome(again))[-1]["status"] == "completed"


async def test_what_a_clients_tool_comes_after_is_kept(start):
    model = ScriptedModel(call("list_files"), call("ask", name="a"), "Done.")
    server = await start(agents(), model=model)
    said = [{"role": "user", "content": "Which?"}]
    function = {"name": "ask", "parameters": {"type": "object", "properties": {}}}
    body = {"model": "helper", "tools": [{"type": "function", "function": function}]}
    asked = await server.http.post("/v1/chat/completions", json={**body, "messages": said})
    assert asked.status_code == 200, asked.text
    message = asked.json()["choices"][0]["message"]
    [wanted] = message["tool_calls"]
    said += [message, {"role": "tool", "tool_call_id": wanted["id"], "content": "yes"}]
    done = await server.http.post("/v1/chat/completions", json={**body, "messages": said})
    assert done.json()["choices"][0]["message"]["content"] == "Done."
    told = [one.content for one in model.requests[-1].messages if one.role == "tool"]
    assert told == [WHOLE, "yes"]
