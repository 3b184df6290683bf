"""One trace per task, on the cluster: the real Claude Code's work at a real collector."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.collector import CollectedSpan, Collector, running_collector
from support.go_programs import BUILD_SECONDS
from support.installation import on_the_node
from support.world import NAMESPACE, SYSTEM, World, task

pytestmark = pytest.mark.timeout(BUILD_SECONDS + 300)
CHART = Path(__file__).resolve().parents[2] / "helm" / "orbiter"
TIMEOUT = ("--wait", "--timeout", "120s")
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PROMPT = "[[bash: echo verses > poem; cat poem]]\n[[result]]"


@pytest.fixture(scope="module")
def collector(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """Where the operator reaches it: on the node. The installation is told of it meanwhile."""
    address, within = on_the_node(world.cluster)
    directory = tmp_path_factory.mktemp("collector")
    with running_collector(directory, address=address, wrapped=within) as running:
        peers = [{"ipBlock": {"cidr": f"{address}/32"}}]
        port = int(running.url.rpartition(":")[2])
        values = {"endpoint": running.url, "peers": peers, "port": port}
        words = ("upgrade", "orbiter", str(CHART), "-n", SYSTEM, "--reuse-values")
        world.cluster.helm(*words, "--set-json", f"tracing={json.dumps(values)}", *TIMEOUT)
        try:
            yield running
        finally:
            world.cluster.helm("rollback", "orbiter", "-n", SYSTEM, *TIMEOUT)


def trace_of(world: World, collector: Collector, trace: str) -> list[CollectedSpan]:
    """All spans of a trace whose task has ended."""

    def complete() -> list[CollectedSpan]:
        found = [span for span in collector.spans if span.trace_id == trace]
        return found if "agenttask" in [span.name for span in found] else []

    return world.until(f"trace {trace}", complete)


def test_a_task_is_one_trace_over_operator_worker_turn_and_tools(
    world: World, collector: Collector
) -> None:
    world.apply(task("traced", PROMPT))
    status = world.wait("traced", "Completed")
    found = trace_of(world, collector, status["traceId"])
    by_id = {span.span_id: span for span in found}
    assert len(by_id) == len(found)
    above = {span.name: by_id[span.parent_id].name for span in found if span.parent_id in by_id}
    assert above == {
        "queued": "agenttask",
        "attempt": "agenttask",
        "prepare workspace": "attempt",
        "invoke_agent claude": "attempt",
        "execute_tool Bash": "invoke_agent claude",
        "finish workspace": "attempt",
    }
    [turn] = [span for span in found if span.name == "invoke_agent claude"]
    assert turn.resource["service.name"] == "orbiter-worker"
    assert turn.attributes["gen_ai.usage.output_tokens"] > 0
    [root] = [span for span in found if not span.parent_id]
    assert root.attributes["k8s.namespace.name"] == NAMESPACE
    assert root.attributes["orbiter.task.phase"] == "Completed"


def test_a_task_joins_the_trace_it_is_part_of_and_tells_its_agent(
    world: World, collector: Collector
) -> None:
    made = task("joins", '[[bash: echo "told $TRACEPARENT"]]\n[[say: {output}]]\n[[result]]')
    made["metadata"]["annotations"] = {"orbiter.dev/traceparent": PARENT}
    world.apply(made)
    status = world.wait("joins", "Completed")
    _, trace, parent, _ = PARENT.split("-")
    assert status["traceId"] == trace
    found = trace_of(world, collector, trace)
    [root] = [span for span in found if span.name == "agenttask"]
    assert root.parent_id == parent
    [turn] = [span for span in found if span.name.startswith("invoke_agent")]
    assert f"told 00-{trace}-{turn.span_id}-01" in status["result"]["summary"]
