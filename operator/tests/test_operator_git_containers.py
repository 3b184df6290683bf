"""Who of a task's pod has the git credential: two containers of its own, and never the worker."""

import json

import pytest
from support.observed import observed, spec

from orbiter_contracts import GitWorkspace
from orbiter_operator.pods.agent import CREDENTIALS
from orbiter_operator.pods.rules import pod_error
from orbiter_operator.pods.template import Object, WorkerDefaults
from orbiter_operator.tasks.job import build_job

DEFAULTS = WorkerDefaults(
    images=dict.fromkeys(CREDENTIALS, "worker:1"),
    pull_policy="IfNotPresent",
    redis_secret="orbiter-redis",
    service_account="orbiter-worker",
    resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}},
    grace_seconds=60,
    job_ttl_seconds=3600,
    template_fields=(
        *("spec.initContainers", "spec.volumes"),
        *(f"spec.containers[worker].{name}" for name in ("volumeMounts", "securityContext")),
    ),
)
URL = "https://example.com/r.git"
SECRET = {"credentialsSecretRef": {"name": "git-key"}}
PUSH = {**SECRET, "push": "Always"}


def pod(template: Object | None = None, agent: Object | None = None, **git: object) -> Object:
    task = spec(workspace={"git": {"url": URL, **git}}, podTemplate=template, agent=agent or {})
    assert pod_error(task.agent, task.workspace, task.pod_template or {}, DEFAULTS) is None
    made: Object = build_job(observed(spec=task), 1, "7-0", DEFAULTS)["spec"]["template"]["spec"]
    return made


def containers(found: Object) -> dict[str, Object]:
    return {item["name"]: item for item in [*found.get("initContainers", ()), *found["containers"]]}


def environment(container: Object) -> dict[str, str]:
    return {item["name"]: item.get("value", "") for item in container["env"]}


def mounts(container: Object) -> dict[str, Object]:
    return {item["name"]: item for item in container["volumeMounts"]}


def over(**fields: object) -> Object:
    return {"spec": {"containers": [{"name": "worker", **fields}]}}


def test_the_credential_is_mounted_where_git_is_and_nowhere_else():
    found = pod(**PUSH)
    volumes = {item["name"]: item for item in found["volumes"]}
    assert volumes["git-credentials"]["secret"] == {"secretName": "git-key", "defaultMode": 0o440}
    have = {name for name, item in containers(found).items() if "git-credentials" in mounts(item)}
    assert have == {"git-clone", "git-push"}
    worker = containers(found)["worker"]
    assert not [name for name in environment(worker) if "CREDENTIALS" in name]
    assert "git-key" not in json.dumps(worker)


def test_the_clone_ends_before_the_worker_starts_and_the_push_runs_beside_it():
    assert [item["name"] for item in pod(**PUSH)["initContainers"]] == ["git-clone", "git-push"]
    found = containers(pod(**PUSH))
    assert "restartPolicy" not in found["git-clone"]
    assert found["git-push"]["restartPolicy"] == "Always"
    assert (found["git-clone"]["args"], found["git-push"]["args"]) == (["clone"], ["push"])


def test_a_task_that_pushes_nothing_has_nobody_who_could():
    assert [item["name"] for item in pod(**SECRET)["initContainers"]] == ["git-clone"]


def test_a_repository_without_a_credential_is_the_workers_own_business():
    found = pod(push="Always")
    assert "initContainers" not in found
    assert "WORKER_HANDOVER_DIR" not in environment(found["containers"][0])
    assert [item["name"] for item in found["volumes"]] == ["home", "tmp", "workspace"]


def test_without_a_repository_there_is_nothing_of_git_in_a_pod():
    made = build_job(observed(spec=spec()), 1, "7-0", DEFAULTS)
    assert "git" not in json.dumps(made)
    assert "initContainers" not in made["spec"]["template"]["spec"]


def test_the_push_has_a_uid_of_its_own_and_nothing_of_the_workspace():
    found = containers(pod(**PUSH))
    assert found["git-push"]["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1001,
        "runAsGroup": 1001,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(mounts(found["git-push"])) == {"git-credentials", "git-handover", "git-private"}


def test_the_clone_is_made_by_the_workers_user_in_its_workspace():
    found = containers(pod(**PUSH))
    clone, worker = found["git-clone"], found["worker"]
    assert clone["securityContext"] == worker["securityContext"]
    assert mounts(clone)["workspace"] == mounts(worker)["workspace"]
    assert environment(clone)["WORKSPACE_DIR"] == environment(worker)["WORKSPACE_DIR"]


def test_the_worker_reads_what_is_left_for_it_and_cannot_change_it():
    worker = containers(pod(**PUSH))["worker"]
    assert mounts(worker)["git-handover"]["readOnly"] is True
    assert environment(worker)["WORKER_HANDOVER_DIR"] == "/run/git"
    assert "git-private" not in mounts(worker)


def test_both_are_told_the_repository_whatever_it_is_called():
    branch = "fix-$(HOME)-$$"
    found = containers(pod(**PUSH, branch=branch, ref="main"))
    for name in ("git-clone", "git-push"):
        text = environment(found[name])["GIT_WORKSPACE"]
        assert "$(HOME)" not in text.replace("$$", "")
        told = GitWorkspace.model_validate_json(text.replace("$$", "$"))
        assert told == GitWorkspace(url=URL, ref="main", branch=branch, push="Always")


def test_neither_has_anything_of_redis_or_of_the_agent():
    env = [{"name": "TOKEN", "value": "t"}]
    found = containers(pod(agent={"env": env, "credentialsSecretRef": {"name": "keys"}}, **PUSH))
    for name in ("git-clone", "git-push"):
        text = json.dumps(found[name])
        assert "REDIS_URL" not in text
        assert "keys" not in text
        assert "TOKEN" not in environment(found[name])


def test_image_network_and_certificates_of_a_template_are_theirs_too():
    template = over(
        image="mine:2",
        env=[{"name": "HTTPS_PROXY", "value": "http://proxy"}, {"name": "OTHER", "value": "x"}],
        volumeMounts=[{"name": "ca", "mountPath": "/ca"}],
    )
    template["spec"]["volumes"] = [{"name": "ca", "configMap": {"name": "ca"}}]
    found = containers(pod(template, **PUSH))
    for name in ("git-clone", "git-push"):
        assert found[name]["image"] == "mine:2"
        assert environment(found[name])["HTTPS_PROXY"] == "http://proxy"
        assert "OTHER" not in environment(found[name])
        assert mounts(found[name])["ca"] == {"name": "ca", "mountPath": "/ca", "readOnly": True}


def test_containers_that_a_template_adds_come_first():
    template = {"spec": {"initContainers": [{"name": "mine", "image": "i"}]}}
    names = [item["name"] for item in pod(template, **PUSH)["initContainers"]]
    assert names == ["mine", "git-clone", "git-push"]


@pytest.mark.parametrize("field", ["image", "resources", "securityContext"])
def test_a_template_that_takes_something_away_still_makes_a_pod(field: str):
    template = over(**{field: None})
    assert [item["name"] for item in pod(template, **PUSH)["initContainers"]] == [
        "git-clone",
        "git-push",
    ]


@pytest.mark.parametrize("field", ["volumeMounts", "env"])
def test_a_template_takes_no_list_away_by_which_the_worker_is_told(field: str):
    task = spec(workspace={"git": {"url": URL, **PUSH}}, podTemplate=over(**{field: None}))
    why = pod_error(task.agent, task.workspace, task.pod_template or {}, DEFAULTS)
    assert why is not None
    assert why.startswith(f"spec.podTemplate.spec.containers[worker].{field} is None, not a list")


def test_the_push_costs_little_and_has_every_limit_that_the_worker_has():
    found = containers(pod(**PUSH))
    assert found["git-clone"]["resources"] == DEFAULTS.resources
    assert found["git-push"]["resources"] == {
        "requests": {"cpu": "10m", "memory": "64Mi"},
        "limits": {"cpu": "2", "memory": "512Mi"},
    }


def test_no_spec_says_where_the_worker_finds_what_is_left_for_it():
    told = {"name": "WORKER_HANDOVER_DIR", "value": "/tmp"}
    for changes in ({"agent": {"env": [told]}}, {"podTemplate": over(env=[told])}):
        task = spec(**changes)
        why = pod_error(task.agent, task.workspace, task.pod_template or {}, DEFAULTS)
        assert "'WORKER_HANDOVER_DIR', set by Orbiter" in str(why)
