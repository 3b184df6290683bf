"""What a tool waits for is published as it is, or people are asked by the question alone."""

from typing import Any

import pytest

from orbiter_contracts import AgentVerdict, DeveloperWorkerOutput, InputCall, InputRequest
from orbiter_contracts.bounds import MAX_OUTPUT_BYTES
from orbiter_contracts.input_requests import digest
from worker_wrapper.redact import Redactor
from worker_wrapper.turn.publishing import publishable


def waiting(*arguments: dict[str, Any]) -> DeveloperWorkerOutput:
    calls = tuple(InputCall(tool="t", arguments=one, digest=digest("t", one)) for one in arguments)
    request = InputRequest(id="x", kind="approval", calls=calls)
    verdict = AgentVerdict(status="input_required", question="May it?", request=request)
    return DeveloperWorkerOutput(
        request_id="r-1", task_id="t-1", status="input_required", verdict=verdict
    )


@pytest.mark.parametrize(
    "arguments",
    [
        [{"url": "https://shop-dsn-1@host"}],
        [{"deep": [{"shop-dsn-1": None}]}],
        [{"n": number, "text": "x" * 200_000} for number in range(128)],
    ],
)
def test_a_request_with_a_secret_or_without_an_end_is_left_out(arguments: list[Any]) -> None:
    told = publishable(waiting(*arguments), Redactor(["shop-dsn-1"]))
    assert "shop-dsn-1" not in told.model_dump_json()
    assert len(told.model_dump_json()) <= MAX_OUTPUT_BYTES
    assert told.verdict is not None
    assert (told.verdict.request, told.verdict.question) == (None, "May it?")
    assert ["the verdict's request was left out" in one for one in told.warnings] == [True]


def test_any_other_request_is_published_as_it_is() -> None:
    asked = waiting({"order": 7, "note": None, "amount": 25.0})
    assert publishable(asked, Redactor(["shop-dsn-1"])) == asked
