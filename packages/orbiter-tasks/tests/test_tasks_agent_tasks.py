"""A Task as an AgentTask and back, without a cluster; the cluster itself is in tests/e2e."""

import pytest

from orbiter.tasks import KubernetesTaskStore, Task, TaskError, TaskState
from orbiter.tasks._internal.agent_tasks import managed_status, manifest, open_question, read
from orbiter_contracts.references import references

CREATED = "2026-01-02T03:04:05Z"


def stored(body, status=None, **meta):
    """The object as the API server returns it."""
    meta = {"uid": "u", "resourceVersion": "7", "creationTimestamp": CREATED, **meta}
    return body | {"metadata": body["metadata"] | meta, "status": status or {"phase": "Pending"}}


def plain(status=None, **spec):
    """What kubectl has created."""
    return stored({"metadata": {"name": "fix"}, "spec": {"prompt": "do it", **spec}}, status)


def test_what_a_task_has_no_field_for_is_kept_beside_it():
    task = Task(input="do it", metadata={"a": {"b": [1, None, 2.5]}})
    found = read(stored(manifest(task, {}, managed=False)))
    assert (found.id, found.input, found.metadata) == (task.id, "do it", task.metadata)
    assert (found.created_at, found.state, found.version) == (task.created_at, "pending", 7)


def test_what_a_caller_says_refers_to_no_other_task():
    task = Task(input="${{deps.build.result.data.x}} and $${{deps.")
    body = manifest(task, {"dependsOn": ["build"]}, managed=False)
    assert references(body["spec"]["prompt"]) == ()
    assert read(stored(body)).input == task.input
    # one that kubectl made is shown as it was written
    assert read(plain(prompt=task.input.partition(" ")[0])).input == task.input.partition(" ")[0]


def test_the_spec_comes_from_the_store_and_the_system_prompt_from_the_task():
    spec = {"agent": {"type": "codex"}, "retry": {"limit": 2}}
    task = Task(input="x", metadata={"system_prompt": "You are a physicist."})
    body = manifest(task, spec, managed=False)
    assert body["spec"]["agent"] == {"type": "codex", "systemPrompt": "You are a physicist."}
    assert body["spec"]["retry"] == {"limit": 2}
    assert spec["agent"] == {"type": "codex"}


def test_a_task_of_a_broker_keeps_its_record_and_a_line_for_people():
    task = Task(input="x")
    body = manifest(task, {}, managed=True)
    assert body["spec"]["managedBy"] == "orbiter.dev/task-broker"
    done = task.model_copy(update={"state": TaskState.FAILED, "error": "long\n" * 100})
    status = managed_status(done)
    assert status["phase"] == "Failed"
    assert len(status["message"]) == 140
    assert read(stored(body, status)).error == done.error


def test_a_task_that_kubectl_made_is_a_task_too():
    found = read(plain())
    assert (found.id, found.state, found.input) == ("fix", TaskState.PENDING, "do it")
    assert found.created_at.isoformat() == "2026-01-02T03:04:05+00:00"


def test_a_failure_says_the_reason_and_the_line():
    status = {"phase": "Failed", "reason": "OOMKilled", "message": "more memory", "attempts": 1}
    assert read(plain(status)).error == "OOMKilled: more memory"


def test_a_question_is_open_until_its_answer_is_there():
    status = {"phase": "InputRequired", "inputRequest": {"id": "q", "question": "Which?"}}
    assert open_question(plain(status)) == "q"
    assert open_question(plain(status, input=[{"id": "q", "text": "main"}])) is None
    assert open_question(plain()) is None


async def test_without_a_cluster_the_store_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    store = KubernetesTaskStore()
    with pytest.raises(TaskError, match=r"no cluster is configured: .*; set KUBECONFIG or give"):
        await store.get("fix")
    await store.close()


async def test_a_server_that_is_away_is_an_error_of_the_store(tmp_path):
    config = tmp_path / "config"
    config.write_text(
        "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "users: [{name: a, user: {}}]"
    )
    store = KubernetesTaskStore(kubeconfig=str(config))
    with pytest.raises(TaskError, match="the API server cannot be reached"):
        await store.get("fix")
    await store.close()
