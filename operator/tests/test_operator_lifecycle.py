"""A whole AgentTask through the real program, a real Redis and a fake API server."""

import pytest

pytestmark = pytest.mark.integration


async def test_a_task_becomes_a_job_and_its_output_becomes_the_status(world):
    await world.start_operator()
    world.apply("fix-login")
    status = await world.until("fix-login", "Completed")
    assert status["result"]["summary"] == "all done"
    assert status["result"]["commitSHA"] == "c0ffee"
    assert status["usage"]["costUSD"] == 0.01
    assert status["jobName"] == "fix-login-1"
    assert status["attempts"] == 1
    assert world.phases("fix-login")[-1] == "Completed"
