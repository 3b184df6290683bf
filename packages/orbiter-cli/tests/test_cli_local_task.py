"""A task with no cluster: attempts, questions, and what becomes of it."""

import pytest
from support.local_tasks import Run

from orbiter_contracts import AgentVerdict, DeveloperWorkerOutput, Usage


def output(status="success", **fields):
    usage = Usage(input_tokens=10, output_tokens=1, cost_usd=0.5, turns=1)
    made = DeveloperWorkerOutput(request_id="r", task_id="t", status=status, usage=usage, **fields)
    if status == "success":
        made = made.model_copy(update={"verdict": AgentVerdict(summary="all done")})
    return made


def question(text="Which?"):
    return output("input_required", verdict=AgentVerdict(status="input_required", question=text))


async def test_a_task_is_completed_with_what_it_cost():
    run = Run(output())
    status = await run.go()
    assert (status.phase, status.reason, status.message) == ("Completed", "Succeeded", "all done")
    assert status.usage.cost_usd == 0.5
    assert run.shown == ["Running", "Completed"]


async def test_an_answer_is_the_next_prompt_and_no_failure():
    run = Run(question(), question("And?"), output(), answers=["main", "squash"])
    status = await run.go()
    assert run.prompts == ["do it", "main", "squash"]
    assert (status.phase, status.attempts, status.usage.turns) == ("Completed", 3, 3)
    assert run.pauses == []


async def test_a_question_nobody_answers_stays_open():
    status = await Run(question()).go()
    assert (status.phase, status.message) == ("InputRequired", "Which?")
    assert status.to_api()["inputRequest"] == {"question": "Which?"}


async def test_failures_are_repeated_as_the_retry_policy_says():
    failed = output("failed", reason="AgentError", error="no\nlast line")
    run = Run(failed, question(), failed, failed, answers=["main"], limit=2)
    status = await run.go()
    assert run.prompts == ["do it", "do it", "main", "main"]
    assert run.pauses == [10, 20]
    assert (status.phase, status.reason) == ("Failed", "AgentError")
    assert status.message == "no … last line"
    assert status.detail == "no\nlast line"


@pytest.mark.parametrize(
    ("made", "phase", "reason"),
    [
        (None, "Failed", "WorkerCrashed"),
        (output("timeout"), "Failed", "AgentTimeout"),
        (output("error"), "Failed", "AgentError"),
        (output("cancelled"), "Cancelled", "Cancelled"),
    ],
)
async def test_what_is_no_success_has_a_reason(made, phase, reason):
    status = await Run(made).go()
    assert (status.phase, status.reason) == (phase, reason)
