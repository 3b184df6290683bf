"""A task's trace: which spans there are when, and that a real collector has them."""

from datetime import datetime, timedelta

import pytest
from support.collector import running_collector
from support.eventually import eventually
from support.go_programs import BUILD_SECONDS
from support.observed import NOW, UID, decide, job, observed, output, record, spec
from support.ports import free_port

from orbiter_contracts import Usage
from orbiter_contracts.tracing import Step, agent_span, span_of, trace_of
from orbiter_operator.kube.names import TRACE
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.settings import Settings
from orbiter_operator.tasks.job import build_job
from orbiter_operator.tasks.models import TaskStatus
from orbiter_operator.tasks.trace import spans

OWN = trace_of(UID)
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
USED = Usage(input_tokens=7, output_tokens=3, cost_usd=0.5, turns=2)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def answered(status="success", *, before=None, attempt=1, facts=None, **says):
    """The spans that are written when a task's attempt, begun at 10 s, is answered at 60 s."""
    fields = {"started_at": at(20), "finished_at": at(50), "duration_ms": 30_000, "usage": USED}
    seen = observed(
        **{"trace": OWN, "spec": spec(agent={"type": "claude", "model": "opus"})} | (facts or {}),
        status=before or TaskStatus(phase="Running", attempts=1, start_time=at(15)),
        jobs=(job(attempt, created=at(10)),),
        **record(output(status, **(fields | says)), attempt=attempt),
    )
    decided = decide(seen, after=60).status
    assert decided is not None
    return spans(seen, decided, at(60))


def tree(written):
    """Name of each span and of the one above it."""
    names = {span.span_id: span.name for span in written}
    return [(span.name, names.get(span.parent_id, "")) for span in written]


def test_a_task_that_succeeds_at_once_has_one_tree():
    step = Step(name="Bash", kind="tool", started_at=at(25), duration_ms=5000, failed=True)
    phase = Step(name="prepare workspace", started_at=at(18), duration_ms=2000)
    written = answered(steps=[phase, step])
    assert tree(written) == [
        ("queued", "agenttask"),
        ("invoke_agent claude", "attempt"),
        ("prepare workspace", "attempt"),
        ("execute_tool Bash", "invoke_agent claude"),
        ("attempt", "agenttask"),
        ("agenttask", ""),
    ]
    times = {span.name: (span.started_at, span.ended_at) for span in written}
    assert times == {
        "queued": (NOW, at(10)),
        "invoke_agent claude": (at(20), at(50)),
        "prepare workspace": (at(18), at(20)),
        "execute_tool Bash": (at(25), at(30)),
        "attempt": (at(10), at(50)),
        "agenttask": (NOW, at(50)),
    }
    assert {span.trace_id for span in written} == {OWN.trace_id}
    by_name = {span.name: span for span in written}
    assert by_name["invoke_agent claude"].span_id == agent_span(UID, 1)
    assert by_name["invoke_agent claude"].attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "claude",
        "gen_ai.request.model": "opus",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "orbiter.cost_usd": 0.5,
    }
    assert by_name["agenttask"].attributes["orbiter.task.phase"] == "Completed"
    assert [span.name for span in written if span.error] == ["execute_tool Bash"]
    services = {span.name: span.service for span in written}
    assert services["attempt"] == services["agenttask"] == "orbiter-operator"
    assert services["invoke_agent claude"] == services["execute_tool Bash"] == "orbiter-worker"


def test_an_attempt_that_is_tried_again_has_its_span_and_the_task_none_yet():
    retry = {"facts": {"spec": spec(retry={"limit": 1})}}
    written = answered("failed", reason="AgentError", error="no", **retry)
    assert [name for name, _ in tree(written)] == ["queued", "invoke_agent claude", "attempt"]
    assert written[-1].error
    second = answered(
        before=TaskStatus(phase="Running", attempts=2, start_time=at(5)), attempt=2, **retry
    )
    assert [name for name, _ in tree(second)] == ["invoke_agent claude", "attempt", "agenttask"]
    assert not {span.span_id for span in second} & {span.span_id for span in written}


def test_a_question_ends_an_attempt_and_is_no_error():
    written = answered("input_required")
    assert [name for name, _ in tree(written)] == ["queued", "invoke_agent claude", "attempt"]
    assert not any(span.error for span in written)


def test_a_task_that_never_began_has_its_own_span_alone():
    seen = observed(trace=OWN, spec=spec(desiredState="Cancelled"))
    decided = decide(seen, after=5).status
    assert decided is not None
    assert tree(spans(seen, decided, at(5))) == [("agenttask", "")]
    assert decided.trace_id == OWN.trace_id


def test_nothing_is_written_twice_nor_where_there_is_no_trace():
    seen = observed(trace=OWN, **record(output()))
    done = TaskStatus(phase="Completed", attempts=1, result={"status": "success"})
    again = seen.model_copy(update={"status": done})
    assert spans(again, done, at(60)) == []
    untraced = answered(facts={"trace": None})
    assert untraced == []


@pytest.mark.parametrize(
    ("begins", "milliseconds"),
    [(at(-1e9), 0), (at(1e9), 5), (at(25), 2**53 - 1), (at(-5), 2**53 - 1)],
)
def test_a_workers_times_are_within_its_attempt(begins, milliseconds):
    step = Step(name="Bash", kind="tool", started_at=begins, duration_ms=milliseconds)
    written = answered(started_at=begins, finished_at=at(1e10), steps=[step])
    for span in written:
        assert NOW <= span.started_at <= span.ended_at <= at(60)


def test_a_worker_that_died_has_no_turn_to_show():
    written = answered(
        "failed", reason="WorkerCrashed", duration_ms=None, worker_id=None, usage=None
    )
    assert [name for name, _ in tree(written)] == ["queued", "attempt", "agenttask"]


def test_the_worker_is_told_where_its_agent_stands():
    defaults = WorkerDefaults.of(Settings())
    for trace, told in ((OWN, f"00-{OWN.trace_id}-{agent_span(UID, 1)}-01"), (None, None)):
        made = build_job(observed(trace=trace), 1, "1-0", defaults)
        variables = made["spec"]["template"]["spec"]["containers"][0]["env"]
        found = {item["name"]: item.get("value") for item in variables}
        assert found.get("TRACEPARENT") == told


@pytest.mark.integration
@pytest.mark.timeout(BUILD_SECONDS + 120)
async def test_a_collector_has_one_trace_of_each_task(world, tmp_path):
    directory = tmp_path / "collector"
    directory.mkdir()
    with running_collector(directory) as collector:
        operator = await world.start_operator(otlp_endpoint=collector.url)
        done = world.apply("done")
        world.apply("again", "fail", retry={"limit": 1, "backoffSeconds": 1})
        theirs = world.apply("theirs")
        world.api.patch(
            "agenttasks", "team", "theirs", {"metadata": {"annotations": {TRACE: PARENT}}}
        )
        for name, phase in (("done", "Completed"), ("again", "Failed"), ("theirs", "Completed")):
            await world.until(name, phase)
        await operator.end(15)  # what is not sent yet is sent before it leaves
        roots = await eventually(
            lambda: (
                (found := [span for span in collector.spans if span.name == "agenttask"])
                and len(found) == 3
                and found
            )
        )
        uid = done["metadata"]["uid"]
        trace = world.status("done")["traceId"]
        assert trace == trace_of(uid).trace_id
        mine = [span for span in collector.spans if span.trace_id == trace]
        assert {span.name for span in mine} == {
            *("agenttask", "queued", "attempt", "invoke_agent claude", "execute_tool Bash")
        }
        assert {span.resource["service.name"] for span in mine} == {
            *("orbiter-operator", "orbiter-worker")
        }
        ids = {span.span_id for span in mine}
        assert len(ids) == len(mine)
        assert [span.name for span in mine if span.parent_id not in ids] == ["agenttask"]
        failed = next(root for root in roots if root.status == "error")
        attempts = [
            span
            for span in collector.spans
            if span.trace_id == failed.trace_id and span.name == "attempt"
        ]
        assert [span.attributes["orbiter.attempt"] for span in attempts] == [1, 2]
        [joined] = [root for root in roots if root.trace_id == PARENT.split("-")[1]]
        assert joined.parent_id == PARENT.split("-")[2]
        assert joined.span_id == span_of(theirs["metadata"]["uid"])


@pytest.mark.integration
async def test_a_collector_that_is_away_keeps_no_task_waiting_and_no_operator_from_leaving(world):
    operator = await world.start_operator(otlp_endpoint=f"http://127.0.0.1:{free_port()}")
    world.apply("done")
    status = await world.until("done", "Completed")
    assert len(status["traceId"]) == 32
    assert await operator.end(15) == 0


@pytest.mark.integration
async def test_without_a_collector_there_is_no_trace(world):
    await world.start_operator()
    world.apply("done")
    assert "traceId" not in await world.until("done", "Completed")
