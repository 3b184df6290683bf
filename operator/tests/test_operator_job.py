"""The Job of an attempt: safe by default, told who it is, and open to the user's template."""

import json

import pytest
from support.observed import NOW, UID, observed, spec

from orbiter_contracts.attempts import request_id
from orbiter_operator.kube.models import Condition
from orbiter_operator.kube.names import job_name
from orbiter_operator.pods.agent import CREDENTIALS
from orbiter_operator.pods.rules import image_error, installation_error, pod_error
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.tasks.job import build_job
from orbiter_operator.tasks.models import TaskStatus
from orbiter_operator.tasks.observed import Adopted

DEFAULTS = WorkerDefaults(
    images=dict.fromkeys(CREDENTIALS, "worker:1"),
    pull_policy="IfNotPresent",
    redis_secret="orbiter-redis",
    service_account="orbiter-worker",
    resources={"limits": {"memory": "1Gi"}},
    grace_seconds=60,
    job_ttl_seconds=3600,
)


def built(attempt=1, **changes):
    """The Job of a task whose spec has these fields."""
    return build_job(observed(spec=spec(**changes)), attempt, "7-0", DEFAULTS)


def pod_spec(**changes):
    return built(**changes)["spec"]["template"]["spec"]


def container(**changes):
    return pod_spec(**changes)["containers"][0]


def environment(**changes):
    """The worker's variables by name: the value, or where it is kept."""
    return {
        item["name"]: item.get("value", item.get("valueFrom"))
        for item in container(**changes)["env"]
    }


def test_the_job_runs_once_and_never_again():
    job = built(timeoutSeconds=1800)["spec"]
    assert job["backoffLimit"] == 0
    assert job["podReplacementPolicy"] == "Failed"
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert "activeDeadlineSeconds" not in job
    assert job["template"]["spec"]["activeDeadlineSeconds"] == 4200
    assert job["ttlSecondsAfterFinished"] == 3600


def test_the_job_belongs_to_its_task():
    meta = built()["metadata"]
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("AgentTask", "fix", UID)
    assert meta["labels"]["orbiter.dev/agenttask"] == "fix"
    assert meta["labels"]["app.kubernetes.io/managed-by"] == "orbiter"


def test_the_worker_meets_the_restricted_pod_security_standard():
    pod = pod_spec()
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_worker_gets_no_token_and_no_service_variables():
    assert pod_spec()["automountServiceAccountToken"] is False
    assert pod_spec()["enableServiceLinks"] is False


def test_the_worker_is_told_which_attempt_it_is():
    given = environment()
    assert given["WORKER_ID"] == "team.fix-1"
    assert given["WORKER_TYPE"] == "developer"
    assert given["TASK_ENTRY_ID"] == "7-0"
    assert given["TASK_RECORD"] == f"agenttask:{UID}:1"
    assert given["TASK_NAME"] == "team/fix"
    assert given["TASK_ATTEMPT"] == "1"
    assert given["TERMINATION_GRACE_SECONDS"] == "60"


def test_redis_is_reached_through_the_secret_of_the_namespace():
    reference = {"secretKeyRef": {"name": "orbiter-redis", "key": "developer-url"}}
    assert environment()["REDIS_URL"] == reference


def test_the_worker_is_told_which_variables_come_from_secrets():
    dsn = {"name": "SHOP_DSN", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "dsn"}}}
    agent = {
        "type": "codex",
        "credentialsSecretRef": {"name": "keys"},
        "env": [dsn, {"name": "MODE", "value": "test"}, {"name": "SECRET_ENV", "value": "none"}],
    }
    given = environment(agent=agent)["SECRET_ENV"].split(",")
    assert given == ["OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL", "SHOP_DSN", "REDIS_URL"]


def test_the_worker_is_told_of_mcp_servers_and_has_their_secrets_as_variables():
    reference = {"secretKeyRef": {"name": "docs", "key": "token"}}
    headers = [{"name": "Authorization", "valueFrom": reference}]
    server = {"name": "docs", "url": "https://docs.example.com/mcp", "headers": headers}
    given = environment(agent={"mcpServers": [server]})
    [told] = json.loads(given["AGENT_MCP_SERVERS"])
    assert told["headers"] == [
        {"name": "Authorization", "valueFrom": {"variable": "AGENT_MCP_SECRET_1"}}
    ]
    assert given["AGENT_MCP_SECRET_1"] == reference
    assert given["SECRET_ENV"] == "AGENT_MCP_SECRET_1,REDIS_URL"
    assert "AGENT_MCP_SERVERS" not in environment()


def test_instructions_and_skills_are_a_variable_and_volumes_of_their_config_maps():
    skills = [{"name": "notes", "configMapRef": {"name": "house-notes"}}]
    agent = {"instructions": {"text": "cost $(HOME)"}, "skills": skills}
    given, pod = environment(agent=agent), pod_spec(agent=agent)
    assert given["AGENT_INSTRUCTIONS"] == "cost $$(HOME)"
    assert given["AGENT_SKILLS_DIR"] == "/run/agent-skills"
    mount = {"name": "agent-skill-notes", "mountPath": "/run/agent-skills/notes", "readOnly": True}
    assert mount in pod["containers"][0]["volumeMounts"]
    assert {"name": "agent-skill-notes", "configMap": {"name": "house-notes"}} in pod["volumes"]
    agent = {"instructions": {"configMapKeyRef": {"name": "house", "key": "rules"}}}
    given, pod = environment(agent=agent), pod_spec(agent=agent)
    assert given["AGENT_INSTRUCTIONS_FILE"] == "/run/agent-instructions/instructions.md"
    items = [{"key": "rules", "path": "instructions.md"}]
    volume = {"name": "agent-instructions", "configMap": {"name": "house", "items": items}}
    assert volume in pod["volumes"]
    assert "AGENT_INSTRUCTIONS" not in given


def test_credentials_from_a_whole_secret_count_as_coming_from_one():
    whole = {"name": "worker", "envFrom": [{"secretRef": {"name": "keys"}}]}
    given = environment(podTemplate={"spec": {"containers": [whole]}})["SECRET_ENV"]
    assert "ANTHROPIC_API_KEY" in given.split(",")
    whole["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    assert environment(podTemplate={"spec": {"containers": [whole]}})["SECRET_ENV"] == "REDIS_URL"


def test_the_agents_settings_become_variables_and_what_is_not_set_stays_away():
    agent = {"type": "claude", "model": "m", "maxTurns": 9, "maxCostUSD": 1.5}
    given = environment(agent=agent)
    assert (given["AGENT_MODEL"], given["AGENT_MAX_TURNS"]) == ("m", "9")
    assert given["AGENT_MAX_COST_USD"] == "1.5"
    assert "AGENT_SYSTEM_PROMPT" not in given
    assert "AGENT_ENV" not in given


@pytest.mark.parametrize("kind", sorted(CREDENTIALS))
def test_credentials_are_referred_to_by_name_and_may_be_missing(kind):
    agent = {"type": kind, "credentialsSecretRef": {"name": "keys"}}
    given = environment(agent=agent)
    for name in CREDENTIALS[kind]:
        assert given[name]["secretKeyRef"] == {"name": "keys", "key": name, "optional": True}


def test_further_variables_reach_the_agent_and_are_listed_for_the_wrapper():
    token = {"secretKeyRef": {"name": "s", "key": "k"}}
    env = [{"name": "TEAM", "value": "blue"}, {"name": "TOKEN", "valueFrom": token}]
    given = environment(agent={"env": env})
    assert given["TEAM"] == "blue"
    assert given["TOKEN"] == token
    assert given["AGENT_ENV"] == "TEAM,TOKEN"


def test_an_agent_file_of_a_configmap_is_mounted_and_named():
    source = {"configMapKeyRef": {"name": "agents", "key": "reviewer"}}
    agent = {"agent": {"type": "orbiter", "fileFrom": source}}
    assert environment(**agent)["AGENT_FILE"] == "/run/agent/agent.yaml"
    mounts = {item["name"]: item for item in container(**agent)["volumeMounts"]}
    assert mounts["agent"] == {"name": "agent", "mountPath": "/run/agent", "readOnly": True}
    (volume,) = [item for item in pod_spec(**agent)["volumes"] if item["name"] == "agent"]
    items = [{"key": "reviewer", "path": "agent.yaml"}]
    assert volume["configMap"] == {"name": "agents", "items": items}


def sessions_and_keys(**changes):
    """What the first four attempts are told of their agent's session."""
    for number in (1, 2, 3, 4):
        pod = built(number, **changes)["spec"]["template"]["spec"]
        given = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
        yield given["SESSION_ID"], given["SNAPSHOT_KEY"]


def test_an_attempt_after_a_failure_begins_a_session_of_its_own():
    sessions, keys = zip(*sessions_and_keys(), strict=True)
    assert sessions == tuple(request_id(UID, number) for number in (1, 2, 3, 4))
    assert set(keys) == {f"agenttask:{UID}:snapshot"}


def test_attempts_after_a_question_go_on_with_the_session_that_asked():
    answers = [{"id": request_id(UID, 2), "text": "main"}]
    sessions, _ = zip(*sessions_and_keys(input=answers), strict=True)
    assert sessions == tuple(request_id(UID, number) for number in (1, 2, 2, 2))


def test_a_workspace_can_be_a_volume_that_stays():
    workspace = {"persistentVolumeClaim": {"claimName": "repo"}}
    volumes = {item["name"]: item for item in pod_spec(workspace=workspace)["volumes"]}
    assert volumes["workspace"]["persistentVolumeClaim"] == {"claimName": "repo"}


def test_a_queue_of_kueue_lets_the_job_in():
    job = built(queueName="team-queue")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-queue"
    assert job["spec"]["suspend"] is True


def test_the_users_template_is_laid_over_ours():
    template = {
        "metadata": {"labels": {"cost-center": "7"}, "annotations": {"note": "hi"}},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "containers": [
                {
                    "name": "worker",
                    "resources": {"limits": {"memory": "4Gi"}},
                    "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
                },
                {"name": "helper", "image": "helper:1"},
            ],
        },
    }
    made = built(podTemplate=template)["spec"]["template"]
    worker, helper = made["spec"]["containers"]
    assert worker["resources"]["limits"]["memory"] == "4Gi"
    assert {mount["mountPath"] for mount in worker["volumeMounts"]} >= {"/tmp", "/cache"}
    assert helper["name"] == "helper"
    assert made["metadata"]["labels"]["cost-center"] == "7"
    assert made["spec"]["nodeSelector"] == {"disk": "ssd"}


EVERYBODYS = {
    "metadata": {"labels": {"cost-center": "0"}},
    "spec": {
        "nodeSelector": {"pool": "agents"},
        "runtimeClassName": "gvisor",
        "volumes": [{"name": "ca", "configMap": {"name": "company-ca"}}],
        "containers": [
            {
                "name": "worker",
                "env": [
                    {"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
                    {"name": "NO_PROXY", "value": ".svc"},
                    {"name": "HOME", "value": "/"},
                ],
                "volumeMounts": [{"name": "ca", "mountPath": "/etc/company", "readOnly": True}],
            }
        ],
    },
}


def test_the_installations_template_lies_under_every_task_and_says_more_than_a_task_may():
    defaults = DEFAULTS._replace(pod_template=EVERYBODYS)
    own = {
        "metadata": {"labels": {"cost-center": "7"}},
        "spec": {"nodeSelector": {"disk": "ssd"}},
    }
    seen = observed(
        spec=spec(
            agent={"type": "claude", "env": [{"name": "NO_PROXY", "value": "*"}]}, podTemplate=own
        )
    )
    assert installation_error(defaults) is None
    assert pod_error(seen.spec.agent, seen.spec.workspace, own, defaults) is None
    made = build_job(seen, 1, "7-0", defaults)["spec"]["template"]
    (worker,) = made["spec"]["containers"]
    told = {item["name"]: item.get("value") for item in worker["env"]}
    assert (told["HTTPS_PROXY"], told["NO_PROXY"]) == ("http://proxy:3128", "*")
    assert (told["HOME"], told["WORKSPACE_DIR"]) == ("/home/agent", "/workspace")
    assert {"/etc/company", "/workspace"} <= {item["mountPath"] for item in worker["volumeMounts"]}
    assert {"ca", "workspace"} <= {item["name"] for item in made["spec"]["volumes"]}
    assert made["spec"]["nodeSelector"] == {"pool": "agents", "disk": "ssd"}
    assert made["spec"]["runtimeClassName"] == "gvisor"
    assert made["metadata"]["labels"]["cost-center"] == "7"
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize("field", ["env", "volumeMounts", "resources"])
def test_an_installations_template_may_have_nulls(field):
    """Ours are taken away by it, but those that the worker cannot do without are said anew."""
    defaults = DEFAULTS._replace(
        pod_template={"spec": {"containers": [{"name": "worker", field: None}]}},
        redis_ca_key="ca.crt",
    )
    assert installation_error(defaults) is None
    [worker] = build_job(observed(), 1, "7-0", defaults)["spec"]["template"]["spec"]["containers"]
    assert "REDIS_URL" in {item["name"] for item in worker["env"]}
    assert "/etc/orbiter/redis" in {item["mountPath"] for item in worker["volumeMounts"]}


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ({"containers": []}, "podTemplate.default.containers is"),
        ({"spec": []}, "podTemplate.default.spec is"),
        ({"spec": {"containers": None}}, "not a list of items with a name each"),
        ({"spec": {"shareProcessNamespace": True}}, "see the worker's processes"),
        ({"spec": {"containers": [{"name": "worker", "args": ["-c"]}]}}, "what the worker's"),
        (
            {"spec": {"containers": [{"name": "worker", "env": [{"name": "REDIS_URL"}]}]}},
            "set by Orbiter",
        ),
        (
            {"spec": {"volumes": [{"name": "x", "secret": {"secretName": "orbiter-redis"}}]}},
            "a Secret of Orbiter itself",
        ),
        (
            {"spec": {"volumes": [{"name": "git-handover", "hostPath": {"path": "/"}}]}},
            "where other pods can write",
        ),
        ({"metadata": {"labels": {"orbiter.dev/agenttask": "x"}}}, "labels[orbiter.dev/agenttask]"),
    ],
)
def test_an_installations_template_by_which_no_worker_is_safe_is_refused(template, reason):
    problem = installation_error(DEFAULTS._replace(pod_template=template))
    assert reason in (problem or "")
    assert "spec.podTemplate" not in (problem or "")


def test_the_users_template_cannot_make_the_worker_somebody_else():
    env = [{"name": "WORKER_ID", "value": "evil"}, {"name": "REDIS_URL", "value": "redis://x"}]
    template = {
        "metadata": {"labels": {"orbiter.dev/agenttask": "other"}},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "worker", "env": env}]},
    }
    made = built(podTemplate=template)["spec"]["template"]
    given = {item["name"]: item for item in made["spec"]["containers"][0]["env"]}
    assert given["WORKER_ID"]["value"] == "team.fix-1"
    assert "value" not in given["REDIS_URL"]
    assert made["metadata"]["labels"]["orbiter.dev/agenttask"] == "fix"
    assert made["spec"]["restartPolicy"] == "Never"


def test_a_longer_grace_period_is_told_to_the_worker():
    template = {"spec": {"terminationGracePeriodSeconds": 300}}
    assert environment(podTemplate=template)["TERMINATION_GRACE_SECONDS"] == "300"


def test_null_in_the_users_template_removes_ours():
    template = {"spec": {"securityContext": {"fsGroup": None}}}
    assert "fsGroup" not in pod_spec(podTemplate=template)["securityContext"]


@pytest.mark.parametrize(
    "resources", [None, {"limits": None}, {"limits": {"memory": None}}, {"requests": {"cpu": "1"}}]
)
def test_null_in_the_users_template_does_not_remove_a_limit(resources):
    defaults = DEFAULTS._replace(
        resources={"requests": {"memory": "256Mi"}, "limits": {"memory": "2Gi"}}
    )
    worker = {"name": "worker", "resources": resources}
    task = spec(podTemplate={"spec": {"containers": [worker]}})
    job = build_job(observed(spec=task), 1, "7-0", defaults)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": "2Gi"}
    assert container["resources"]["requests"]["memory"] == "256Mi"


def test_building_a_job_changes_neither_the_spec_nor_the_defaults():
    before = spec(podTemplate={"spec": {"containers": [{"name": "worker", "env": []}]}})
    copy = before.model_copy(deep=True)
    build_job(observed(spec=before), 1, "7-0", DEFAULTS)
    assert before == copy


def test_job_names_are_short_enough_and_stay_different():
    first, second = job_name("a" * 63, 1), job_name("a" * 62 + "b", 1)
    assert len(first) == len(second) == 63
    assert first != second
    assert job_name("fix", 12) == "fix-12"


def test_an_agent_without_an_image_is_explained():
    given = image_error(spec(agent={"type": "cursor"}).agent, {"claude": "c:1"})
    assert "'cursor'" in given
    assert "claude" in given
    assert "ORBITER_WORKER_IMAGES" in given


def test_an_adopted_task_runs_its_own_entry():
    state = observed(adopted=Adopted(entry="9-9", request_id="theirs"))
    env = build_job(state, 1, "9-9", DEFAULTS)["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "TASK_ENTRY_ID", "value": "9-9"} in env


def test_a_redis_with_a_ca_of_its_own_gives_workers_the_certificate_and_nothing_else():
    overlay = {
        "spec": {
            "volumes": [{"name": "mine", "emptyDir": {}}],
            "containers": [
                {
                    "name": "worker",
                    "volumeMounts": [{"name": "mine", "mountPath": "/etc/orbiter/redis"}],
                }
            ],
        }
    }
    defaults = DEFAULTS._replace(redis_ca_key="ca.crt")
    facts = observed(spec=spec(podTemplate=overlay))
    pod = build_job(facts, 1, "7-0", defaults)["spec"]["template"]["spec"]
    [volume] = [item for item in pod["volumes"] if item["name"] == "redis-ca"]
    assert volume["secret"]["secretName"] == "orbiter-redis"
    assert volume["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    mounts = pod["containers"][0]["volumeMounts"]
    places = [mount for mount in mounts if mount["mountPath"] == "/etc/orbiter/redis"]
    assert places == [{"name": "redis-ca", "mountPath": "/etc/orbiter/redis", "readOnly": True}]
    assert "redis-ca" not in {item["name"] for item in pod_spec()["volumes"]}


def test_a_pod_that_the_cluster_takes_is_not_the_jobs_failure():
    condition = [{"type": "DisruptionTarget", "status": "True"}]
    for policy in ("Resume", "Restart"):
        job = built(disruption={"policy": policy})["spec"]
        assert job["podFailurePolicy"] == {
            "rules": [{"action": "Ignore", "onPodConditions": condition}]
        }
    assert "podFailurePolicy" not in built(disruption={"policy": "Fail"})["spec"]


def test_the_worker_is_told_how_often_to_keep_its_work_and_what_for():
    given = environment(disruption={"policy": "Restart", "checkpointSeconds": 7})
    assert given["CHECKPOINT_SECONDS"] == "7"
    assert given["DISRUPTION_POLICY"] == "Restart"
    assert "DISRUPTION_NOTE" not in given
    assert "task other" in environment(resumeFrom="other")["DISRUPTION_NOTE"]


def test_a_node_that_does_not_answer_is_given_up_soon_unless_the_user_says_otherwise():
    away = {item["key"]: item["tolerationSeconds"] for item in pod_spec()["tolerations"]}
    assert away == dict.fromkeys(
        ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"], 30
    )
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    given = pod_spec(podTemplate={"spec": {"tolerations": [own]}})["tolerations"]
    assert given[0] == own
    assert [item["key"] for item in given[1:]] == ["node.kubernetes.io/not-ready"]


@pytest.mark.parametrize(
    ("policy", "safe"), [("Resume", "true"), ("Restart", "false"), ("Fail", "false")]
)
def test_an_autoscaler_may_take_the_node_of_a_task_that_loses_nothing(policy, safe):
    annotation = "cluster-autoscaler.kubernetes.io/safe-to-evict"
    template = built(disruption={"policy": policy})["spec"]["template"]["metadata"]
    assert template["annotations"][annotation] == safe
    wish = {"metadata": {"annotations": {annotation: "false"}}}
    template = built(podTemplate=wish)["spec"]["template"]["metadata"]
    assert template["annotations"][annotation] == "false"


def test_the_queues_priority_class_is_on_the_job_where_kueue_looks():
    labels = {"kueue.x-k8s.io/priority-class": "urgent"}
    job = built(queueName="q", queuePriorityClass="urgent")
    assert job["metadata"]["labels"] | labels == job["metadata"]["labels"]


def test_a_job_without_a_queue_is_no_affair_of_kueues():
    job = built()
    assert not [label for label in job["metadata"]["labels"] if "kueue" in label]
    assert "suspend" not in job["spec"]


def test_a_job_that_goes_on_has_a_name_of_its_own_and_the_same_attempt():
    job = build_job(observed(spec=spec()), 2, "7-0", DEFAULTS, resume=3)
    assert job["metadata"]["name"] == "fix-2-r3"
    assert job["metadata"]["labels"]["orbiter.dev/resume"] == "3"
    given = {
        v["name"]: v.get("value") for v in job["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert given["TASK_RECORD"] == f"agenttask:{UID}:2"
    assert given["WORKER_ID"] == "team.fix-2-r3"
    assert job_name("x" * 63, 2, 3).endswith("-2-r3")
    assert len(job_name("x" * 63, 2, 3)) == 63


def test_the_agent_is_told_in_one_short_line_why_it_goes_on():
    said = Condition(
        type="Disrupted",
        status="True",
        reason="Evicted",
        message="x" * 500,
        last_transition_time=NOW,
    )
    task = observed(spec=spec(), status=TaskStatus(attempts=1, conditions=(said,)))
    job = build_job(task, 1, "7-0", DEFAULTS, resume=1)
    worker = job["spec"]["template"]["spec"]["containers"][0]
    (note,) = [v["value"] for v in worker["env"] if v["name"] == "DISRUPTION_NOTE"]
    assert note.startswith("Evicted: xxx")
    assert len(note) <= 200
