"""How long finished tasks are kept: what they say, else what the installation says."""

import pytest
from support.eventually import eventually
from support.observed import spec

from orbiter_contracts import DeveloperWorkerInput, encode
from orbiter_contracts.queues import BARE

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("own", "installation", "kept"), [(None, None, None), (None, 5, 5), (0, 5, 0), (9, 5, 9)]
)
def test_what_a_task_says_comes_first(own, installation, kept):
    told = spec(ttlSecondsAfterFinished=own)
    assert told.kept_for(installation).ttl_seconds_after_finished == kept


async def test_a_finished_task_that_says_nothing_goes_when_the_installation_says(world):
    await world.start_operator(task_ttl_seconds=0)
    world.apply("mine", "ok", ttlSecondsAfterFinished=3600)
    world.apply("gone", "ok")
    await world.until("mine", "Completed")
    await eventually(lambda: world.api.get("agenttasks", "team", "gone") is None)
    assert world.api.get("agenttasks", "team", "mine") is not None


async def test_one_that_finished_before_counts_too(world):
    operator = await world.start_operator()
    world.apply("old", "ok")
    await world.until("old", "Completed")
    await operator.end()
    await world.start_operator(task_ttl_seconds=0)
    await eventually(lambda: world.api.get("agenttasks", "team", "old") is None)


async def test_adopted_tasks_are_kept_as_long_as_is_said_of_them(world):
    await world.start_operator(adopt_namespace="team", adopt_ttl_seconds=7200, task_ttl_seconds=0)
    task = DeveloperWorkerInput(task_id="foreign", prompt="ok")
    await world.redis.xadd(BARE.developer_input, encode(task))
    name = await eventually(lambda: world.adopted("foreign"))
    await world.until(name, "Completed")
    obj = world.api.get("agenttasks", "team", name)
    assert obj["spec"]["ttlSecondsAfterFinished"] == 7200
