"""Artifacts as the operator sees them: in the Job, in the message, and in the status."""

import pytest
from pydantic import ValidationError
from support.observed import NOW, decide, job, observed, output, pod, record, spec

from orbiter_contracts import ArtifactsReport
from orbiter_contracts.object_store import SECRET_KEYS, StoreAddress
from orbiter_contracts.stored_transcripts import TranscriptReport
from orbiter_operator.__main__ import main
from orbiter_operator.kube.models import read_model
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.sessions.deployment import build_template
from orbiter_operator.sessions.models import SessionSpec
from orbiter_operator.settings import Settings
from orbiter_operator.tasks.job import build_job, build_message
from orbiter_operator.tasks.models import TaskSpec

STORE = StoreAddress(endpoint="https://s3.example.com", bucket="agents", prefix="x")
KEPT = ArtifactsReport(count=2, size_bytes=7, names=["a", "b"], store=STORE)


def told(**settings):
    """The variables of the worker of a task that names artifacts."""
    defaults = WorkerDefaults.of(Settings(**settings))
    task = observed(spec=spec(artifacts=["out"]))
    [container] = build_job(task, 1, "1-0", defaults)["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item for item in container["env"]}


def ended_with(report, status="success"):
    return decide(
        observed(jobs=(job(),), pods=(pod(),), **record(output(status, artifacts=report)))
    ).status


def test_a_worker_that_keeps_artifacts_is_told_of_the_store_and_of_its_secret():
    env = told(artifacts_store=STORE, artifacts_secret_name="keys")
    assert env["ARTIFACTS_ENDPOINT"]["value"] == "https://s3.example.com"
    assert env["ARTIFACTS_PREFIX"]["value"] == "x"
    for name, key in SECRET_KEYS.items():
        reference = {"name": "keys", "key": key, "optional": True}
        assert env[name] == {"name": name, "valueFrom": {"secretKeyRef": reference}}
    names = list(env)
    assert {*names[-2:]} == {*SECRET_KEYS}  # no variable before them may contain their values


def test_without_a_store_there_are_no_credentials():
    env = told()
    assert env["ARTIFACTS_RETENTION_SECONDS"]["value"] == "604800"
    assert not {*SECRET_KEYS} & env.keys()


def test_who_keeps_none_knows_of_the_store_for_its_transcript():
    defaults = WorkerDefaults.of(Settings(artifacts_store=STORE))
    task = observed()
    [container] = build_job(task, 2, "1-0", defaults)["spec"]["template"]["spec"]["containers"]
    env = {item["name"]: item for item in container["env"]}
    head = f"x/{task.namespace}/tasks/{task.uid}/2/transcript"
    assert env["ARTIFACTS_TRANSCRIPT"]["value"] == head
    assert {*SECRET_KEYS} <= env.keys()
    assert [*env][-2:] == [*SECRET_KEYS]


def test_a_session_is_told_of_it_too():
    defaults = WorkerDefaults.of(Settings(artifacts_store=STORE))
    whole = SessionSpec.model_validate({"userId": 7})
    redis = (defaults.redis_secret, "po-url")
    pod = build_template("team", "alice", "u1", "team.alice", whole, defaults, redis)["spec"]
    env = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
    assert env["ARTIFACTS_TRANSCRIPT"] == "x/team/sessions/u1/transcript"
    assert env["ARTIFACTS_BUCKET"] == "agents"
    assert {*SECRET_KEYS} <= env.keys()


@pytest.mark.parametrize("settings", [{}, {"artifacts_transcripts": False}])
def test_without_a_store_or_the_wish_no_session_knows_of_it(settings):
    store = None if not settings else STORE
    defaults = WorkerDefaults.of(Settings(artifacts_store=store, **settings))
    whole = SessionSpec.model_validate({"userId": 7})
    redis = (defaults.redis_secret, "po-url")
    pod = build_template("team", "alice", "u1", "team.alice", whole, defaults, redis)
    assert "ARTIFACTS_" not in str(pod)


def test_what_became_of_the_transcript_is_in_the_status_and_stays():
    stored = TranscriptReport(events=7, size_bytes=99, store=STORE)
    ended = record(output("success", transcript=stored))
    status = decide(observed(jobs=(job(),), pods=(pod(),), **ended)).status
    shown = status.to_api()["transcript"]
    assert (shown["attempt"], shown["reason"], shown["events"], shown["bytes"]) == (
        *(1, "Stored"),
        *(7, 99),
    )
    assert shown["store"]["prefix"] == "x"
    silent = observed(status=status.model_copy(update={"phase": "Running"}), jobs=(job(),))
    told = decide(silent.model_copy(update=dict(record(output("success"))))).status
    assert told.transcript == status.transcript


def test_a_store_that_did_not_take_the_transcript_fails_no_task():
    refused = TranscriptReport(reason="StoreRefused", message="the store refuses\nit", store=STORE)
    ended = record(output("success", transcript=refused))
    status = decide(observed(jobs=(job(),), pods=(pod(),), **ended)).status
    assert status.phase == "Completed"
    assert (status.transcript.reason, status.transcript.message) == (
        *("StoreRefused", "the store refuses it"),
    )


def test_who_keeps_none_knows_nothing_of_the_store_where_transcripts_are_not_wanted():
    settings = Settings(artifacts_store=STORE, artifacts_transcripts=False)
    defaults = WorkerDefaults.of(settings)
    template = build_job(observed(), 1, "1-0", defaults)["spec"]["template"]
    assert "ARTIFACTS_ENDPOINT" not in str(template)
    assert "secret-access-key" not in str(template)


def test_no_spec_may_name_the_secret_of_the_store():
    assert "keys" in WorkerDefaults.of(Settings(artifacts_secret_name="keys")).own_secrets


def test_a_store_without_tls_has_to_be_wanted():
    plain = STORE.model_copy(update={"endpoint": "http://minio.storage.svc:9000"})
    with pytest.raises(ValidationError, match="has no TLS"):
        Settings(artifacts_store=plain)
    assert Settings(artifacts_store=plain, artifacts_insecure=True).artifacts_store == plain


def test_a_store_without_tls_is_told_in_one_line_that_names_what_to_set(monkeypatch, capsys):
    plain = STORE.model_copy(update={"endpoint": "http://minio.storage.svc:9000"})
    monkeypatch.setenv("ORBITER_ARTIFACTS_STORE", plain.model_dump_json())
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("orbiter-operator: ORBITER_ARTIFACTS_INSECURE: http://minio")


def test_the_message_names_them():
    task = observed(spec=spec(artifacts=["out/*.md"]))
    assert build_message(task, 1, "do").artifacts == ["out/*.md"]


def test_a_pattern_that_leads_out_makes_the_spec_unreadable():
    _, why = read_model(TaskSpec, {"prompt": "x", "artifacts": ["../a"]})
    assert why is not None
    assert why.startswith("spec.artifacts.0: ")


def test_what_was_kept_is_in_the_status():
    status = ended_with(KEPT)
    assert status.phase == "Completed"
    shown = status.to_api()["artifacts"]
    assert (shown["attempt"], shown["count"], shown["bytes"]) == (1, 2, 7)
    assert shown["names"] == ["a", "b"]
    assert shown["store"]["bucket"] == "agents"
    assert status.condition("ArtifactsKept").status == "True"


@pytest.mark.parametrize("status", ["success", "failed"])
def test_what_was_not_kept_is_a_condition_and_changes_nothing_else(status):
    report = ArtifactsReport(reason="StoreRefused", message="the store refuses")
    told, without = ended_with(report, status), ended_with(None, status)
    assert (told.phase, told.reason) == (without.phase, without.reason)
    condition = told.condition("ArtifactsKept")
    assert (condition.status, condition.reason) == ("False", "StoreRefused")
    assert condition.message == "the store refuses"
    assert without.condition("ArtifactsKept") is None


def test_a_reason_that_kubernetes_would_refuse_is_another():
    report = ArtifactsReport(reason="no word", message="x" * 5000)
    condition = ended_with(report).condition("ArtifactsKept")
    assert condition.reason == "Failed"
    assert len(condition.message) <= 1024


def test_the_condition_stays_while_another_attempt_works():
    task = observed(spec=spec(artifacts=["a"], retry={"limit": 1}))
    failed = decide(
        task.model_copy(update=dict(record(output("error", artifacts=KEPT))) | {"jobs": (job(),)})
    ).status
    assert failed.phase == "Pending"
    assert failed.condition("ArtifactsKept").status == "True"
    again = observed(spec=task.spec, status=failed)
    status = decide(again, after=(NOW - NOW).total_seconds()).status
    assert status is None or status.condition("ArtifactsKept").status == "True"
