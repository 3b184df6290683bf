"""Whatever a client sends, it is answered in words, and so is whoever comes next."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.strange_values import WRITTEN, objects, with_fields, written

from orbiter import Agent
from orbiter.models import ScriptedModel

pytestmark = pytest.mark.integration
NAMES = ["agent", "input", "images", "session_id", "request_id", "messages", "model", "tools"]
NAMES += ["stream", "metadata", "text", "system_prompt", "priority"]
PATHS = ["/v1/agents/helper/runs", "/v1/sessions", "/v1/sessions/x/runs", "/v1/chat/completions"]
PATHS += ["/v1/tasks", "/v1/tasks/x/answer", "/v1/cluster/tasks"]
BODIES = (
    st.binary(max_size=60)
    | objects(NAMES)
    | (WRITTEN | with_fields(NAMES).map(written)).map(lambda t: t.encode("utf-8", "surrogatepass"))
)


@pytest.fixture
async def server(start):
    return await start({"helper": Agent(name="helper")}, model=ScriptedModel("ok", repeat=True))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(PATHS), BODIES)
async def test_a_body_of_anything_is_answered_and_so_is_the_next(server, path, body):
    json = {"content-type": "application/json"}
    answer = await server.http.post(path, content=body, headers=json)
    assert 400 <= answer.status_code < 500 or answer.is_success, answer.text
    assert answer.json()
    assert (await server.http.get("/healthz")).is_success
