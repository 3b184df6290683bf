"""What `helm test` runs: one task, from end to end, and a sentence when it does not come to one."""

import kopf
import pytest

from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.connection import Credentials
from orbiter_operator.smoke_test import ANSWER, TrialError, manifest, try_task

NAMESPACE = "team"


@pytest.mark.integration
async def test_a_task_that_completes_is_told_and_gone(world, kube_of_the_world: Kube) -> None:
    await world.start_operator(worker_images='{"orbiter": "an/image:1"}')
    said = await try_task(kube_of_the_world, NAMESPACE, "trial", patience=20)
    assert said
    assert world.api.get("agenttasks", NAMESPACE, "trial") is None


async def test_one_that_nobody_takes_up_stays_and_is_told_with_what_to_do(api, kube: Kube) -> None:
    with pytest.raises(
        TrialError, match=r"team/trial is Pending .*nobody has seen it yet.*describe"
    ):
        await try_task(kube, NAMESPACE, "trial", patience=0.05)
    assert api.get("agenttasks", NAMESPACE, "trial") is not None


def test_the_model_asks_nobody_and_answers_its_name() -> None:
    assert manifest("x")["spec"]["agent"]["model"] == f"scripted:{ANSWER}"


@pytest.fixture
async def kube_of_the_world(world):
    connection = kopf.ConnectionInfo(server=world.api.url)
    async with Kube(Credentials(lambda: connection)) as made:
        yield made
