"""What the operator tells the outside world: metrics, probes and Events."""

import re
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
from prometheus_client import generate_latest
from support.fake_api import RefusedRequestError
from support.observed import NOW, UID, decide, observed, output, record, running, spec

from orbiter_contracts.po_state import PORotation, POState
from orbiter_contracts.usage import TaskUsage
from orbiter_operator.kube.client import ApiError
from orbiter_operator.kube.events import EventPoster, build_event
from orbiter_operator.kube.models import Event, is_object_name
from orbiter_operator.kube.names import Key
from orbiter_operator.metrics import GAUGES, OperatorMetrics
from orbiter_operator.namespaces.users import MAX_SHARED_CONNECTIONS, MAX_WORKERS_CONNECTIONS
from orbiter_operator.pods.allowlist import MAX_ITEMS
from orbiter_operator.runtime.health import Health, HealthServer
from orbiter_operator.sessions.models import SessionStatus
from orbiter_operator.settings import Settings
from orbiter_operator.streams.quota import MAX_FIELDS
from orbiter_operator.streams.users import MAX_CONNECTIONS


def shown(metrics):
    return generate_latest(metrics.registry).decode()


def test_a_finished_task_is_counted_by_phase_and_reason():
    metrics = OperatorMetrics()
    state = running(**record(output("failed", reason="OOMKilled")))
    metrics.tasks.changed(state, decide(state).status)
    text = shown(metrics)
    assert 'orbiter_tasks_finished_total{phase="Failed",reason="OOMKilled"} 1.0' in text
    assert "orbiter_task_duration_seconds_sum 72.0" in text


def test_the_way_to_running_is_measured():
    metrics = OperatorMetrics()
    state = running(created=NOW - timedelta(seconds=3))
    metrics.tasks.changed(observed(created=state.created), state.status)
    assert "orbiter_task_start_seconds_sum 3.0" in shown(metrics)


def test_the_cost_of_every_attempt_is_counted_once():
    metrics = OperatorMetrics()
    wish = spec(retry={"limit": 1})
    first = running(spec=wish, **record(output("failed")))
    between = decide(first).status
    metrics.tasks.changed(first, between)
    assert "orbiter_cost_usd_total 0.25" in shown(metrics)
    assert 'orbiter_tokens_total{direction="input"} 10.0' in shown(metrics)
    assert 'orbiter_task_retries_total{status="failed"} 1.0' in shown(metrics)
    again = between.model_copy(update={"usage": TaskUsage(cost_usd=0.75, input_tokens=10)})
    metrics.tasks.changed(first.model_copy(update={"status": between}), again)
    assert "orbiter_cost_usd_total 0.75" in shown(metrics)


def test_gauges_are_read_when_they_are_asked_for():
    metrics = OperatorMetrics()
    values = dict.fromkeys(GAUGES, 1.0)
    metrics.gauges(GAUGES, lambda: values)
    values["orbiter_tasks"] = 7.0
    assert "orbiter_tasks 7.0" in shown(metrics)


def test_everything_is_in_the_readme():
    text = (Path(__file__).parents[1] / "README.md").read_text()
    metrics = OperatorMetrics()
    metrics.gauges(GAUGES, lambda: dict.fromkeys(GAUGES, 0.0))
    names = {family.name for family in metrics.registry.collect()}
    for name in sorted(name for name in names if name.startswith("orbiter_")):
        assert name in text, f"{name} is not in operator/README.md"


@pytest.fixture
async def server():
    health, metrics = Health(), OperatorMetrics()
    async with HealthServer(health, metrics.registry, 0, 0) as made:
        made.health = health
        yield made


async def ask(port, path):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text()


async def test_the_probes_name_what_is_wrong(server):
    assert await ask(server.health_port, "/healthz") == (200, "ok")
    server.health.ready_if("redis", lambda: "does not answer")
    assert await ask(server.health_port, "/readyz") == (503, "redis: does not answer")
    assert await ask(server.health_port, "/healthz") == (200, "ok")
    server.health.alive_if("work queue", lambda: "stuck")
    assert (await ask(server.health_port, "/healthz"))[0] == 503


async def test_the_metrics_are_served_beside(server):
    status, text = await ask(server.metrics_port, "/metrics")
    assert status == 200
    assert "process_resident_memory_bytes" in text


def test_an_event_says_whom_it_is_about_and_has_one_name():
    task = {"metadata": {"name": "fix", "namespace": "team", "uid": UID}}
    event = Event(kind="Warning", reason="Failed", message="because", attempt=1)
    first, second = (build_event(task, event, NOW, "operator-0") for _ in range(2))
    assert first["metadata"]["name"] == second["metadata"]["name"]
    assert first["involvedObject"]["uid"] == UID
    assert (first["type"], first["reason"]) == ("Warning", "Failed")
    other = build_event(task, event.model_copy(update={"attempt": 2}), NOW, "operator-0")
    assert other["metadata"]["name"] != first["metadata"]["name"]


def test_an_events_name_is_one_that_the_api_server_takes():
    """An object's name may have 253 characters, and an Event's no more."""
    names = set()
    for name in ("a" * 253, "a" * 252 + "b", "a" * 235 + ".-" + "b" * 16, "short"):
        task = {"metadata": {"name": name, "namespace": "team", "uid": f"{UID}/{name}"}}
        event = Event(kind="Warning", reason="Failed", message="because", attempt=1)
        names.add(build_event(task, event, NOW, "operator-0")["metadata"]["name"])
    assert len(names) == 4
    assert all(is_object_name(name) for name in names)


@pytest.mark.parametrize(("status", "ends"), [(422, False), (400, False), (500, True), (429, True)])
async def test_an_event_that_is_refused_keeps_no_status_from_being_written(api, kube, status, ends):
    """It tells people, and trying again would not mend it: the status behind it has to go on."""

    async def refuse(verb, plural, body):
        raise RefusedRequestError(status, "Invalid", "a webhook does not like it")

    api.before = refuse
    event = Event(kind="Warning", reason="Failed", message="because", attempt=1)
    task = {"metadata": {"name": "fix", "namespace": "team", "uid": UID}}
    with pytest.raises(ApiError) if ends else nullcontext():
        await EventPoster(kube, "operator-0").post(task, event, NOW)


def test_a_workers_words_are_no_time_series():
    """Why a session was rotated its worker says, and an agent can say anything in its place."""
    metrics = OperatorMetrics()
    for number in range(200):
        reason = ("Idle", "Tokens", f"word {number}")[number % 3]
        rotation = PORotation(reason=reason, to="s", at=NOW)
        queue = SimpleNamespace(state=POState(rotations=1, rotation=rotation))
        agent = SimpleNamespace(type="claude", model=None)
        session = SimpleNamespace(
            namespace="team", spec=SimpleNamespace(agent=agent), status=SessionStatus(), queue=queue
        )
        metrics.sessions.changed(Key("team", "a"), session, SessionStatus(rotations=1))
    found = r'orbiter_session_rotations_total\{reason="(.*)"\} (.*)'
    series = re.findall(found, shown(metrics))
    assert dict(series) == {"Idle": "67.0", "Tokens": "67.0", "Other": "66.0"}


def test_the_page_on_security_has_the_figures_of_the_code():
    page = " ".join((Path(__file__).parents[2] / "docs" / "security.md").read_text().split())
    shared = f"one that a namespace's programs share {MAX_SHARED_CONNECTIONS:,}"
    workers = f"that of its developer workers {MAX_WORKERS_CONNECTIONS:,}"
    assert f"at most {MAX_CONNECTIONS} connections, {shared}, {workers}." in page
    assert f"more than {MAX_FIELDS:,} fields counts as more than any quota" in page
    assert f"lists has at most {MAX_ITEMS} items" in page
    quota = Settings.model_fields["redis_quota_bytes"].default
    assert f"`redis.quotaBytesPerNamespace`: {quota >> 20} MiB;" in page
