"""Objects that leave little room for their status: each task ends, or an Event says why not."""

import pytest
from support.eventually import eventually
from support.fake_api import RefusedRequestError
from support.running_sessions import DEFAULTS

from orbiter_contracts.queues import BARE, OPERATOR_GROUP
from orbiter_operator.tasks.models import LARGEST_SPEC, stored_bytes
from orbiter_operator.tasks.observe import read_spec


@pytest.mark.parametrize(
    ("text", "size"),
    [("a", 3), ("<>&", 20), ("\u2028\u2029", 14), ("\x01", 8), ("\u00e4", 4), ("\b", 8), ("\n", 4)],
)
def test_a_text_is_as_large_as_the_api_server_stores_it(text, size):
    assert stored_bytes(text) == size


def test_a_spec_that_leaves_no_room_for_its_status_is_refused_with_a_sentence():
    assert read_spec({"prompt": "a" * 262_144}, DEFAULTS)[1] is None
    why = read_spec({"prompt": "<" * 262_144}, DEFAULTS)[1]
    assert why is not None
    assert "promptFrom" in why
    assert str(LARGEST_SPEC) in why


@pytest.mark.integration
async def test_a_task_with_room_for_the_smallest_status_ends(world):
    async def refuse(verb, plural, body):
        status = (body or {}).get("status") or {}
        if plural == "agenttasks" and (status.get("result") or status.get("conditions")):
            raise RefusedRequestError(500, "InternalError", "etcdserver: request is too large")

    world.api.before = refuse
    await world.start_operator()
    world.apply("tight", "ok")
    status = await world.until("tight", "Completed")
    assert status["reason"] == "Succeeded"


@pytest.mark.integration
async def test_a_task_without_room_for_any_status_is_told_by_an_event_and_not_tried_for_ever(world):
    async def refuse(verb, plural, body):
        if plural == "agenttasks" and (body or {}).get("status"):
            raise RefusedRequestError(500, "InternalError", "etcdserver: request is too large")

    world.api.before = refuse
    operator = await world.start_operator()
    world.apply("full", "ok")
    await eventually(lambda: "StatusTooLarge" in world.events("full"))

    async def acknowledged():
        groups = await world.redis.xinfo_groups(BARE.developer_output)
        ours = next(group for group in groups if group["name"] == OPERATOR_GROUP)
        return ours["entries-read"] == 1 and ours["pending"] == 0

    await eventually(acknowledged)
    await eventually(lambda: world.events("full").count("StatusTooLarge") == 1)
    assert "will try again" not in operator.log.read_text()
