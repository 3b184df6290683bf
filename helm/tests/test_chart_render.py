"""What helm makes of the chart: who gets which rights, passwords, doors; and what is refused."""

import base64
import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cluster import Cluster, CommandError, Object

from orbiter_operator.settings import PREFIX, Settings

pytestmark = pytest.mark.e2e

CHART = Path(__file__).resolve().parents[1] / "orbiter"
RIGHTS = {
    ("orbiter.dev", "agenttasks"): {"get", "list", "watch", "create", "delete"},
    ("orbiter.dev", "agenttasks/status"): {"patch"},
    ("orbiter.dev", "posessions"): {"get", "list", "watch"},
    ("orbiter.dev", "posessions/status"): {"patch"},
    ("apps", "deployments"): {"get", "list", "watch", "create", "update", "patch"},
    ("batch", "jobs"): {"get", "list", "watch", "create", "delete"},
    ("", "pods"): {"list", "watch"},
    ("", "configmaps"): {"get"},
    ("", "events"): {"create"},
}
LEASE_RIGHTS = {("coordination.k8s.io", "leases"): {"get", "update", "create"}}
SECRET_RIGHTS = {("", "secrets"): {"create"}}


def render(cluster: Cluster, *settings: str) -> list[Object]:
    flags = [word for setting in settings for word in ("--set", setting)]
    text = cluster.helm("template", "orbiter", str(CHART), "-n", "orbiter-system", *flags)
    return [item for item in yaml.safe_load_all(text) if item]


def only(items: list[Object], kind: str, name: str | None = None) -> Object:
    found = [i for i in items if i["kind"] == kind and name in (None, i["metadata"]["name"])]
    assert len(found) == 1, [item["metadata"]["name"] for item in found]
    return found[0]


def named(items: list[Object], kind: str) -> set[tuple[str | None, str]]:
    return {
        (item["metadata"].get("namespace"), item["metadata"]["name"])
        for item in items
        if item["kind"] == kind
    }


def rights(role: Object) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def environment(items: list[Object]) -> dict[str, Any]:
    [container] = only(items, "Deployment")["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}


def test_helm_lint_has_nothing_to_say(cluster: Cluster) -> None:
    for values in ([], *(["-f", str(file)] for file in (CHART / "ci").glob("*.yaml"))):
        said = cluster.helm("lint", "--strict", str(CHART), *values)
        assert "WARNING" not in said
        assert "0 chart(s) failed" in said


def test_a_misspelt_value_is_refused_by_helm_too(cluster: Cluster) -> None:
    with pytest.raises(CommandError, match="additional properties 'opertor' not allowed"):
        render(cluster, "opertor.replicas=3")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("watchNamespaces={team-a}", 'workers.namespaces has "default", which the operator does'),
        ("workers.namespaces={default,1team}", 'workers.namespaces has "1team", and adoption'),
        ("adoption.namespace=elsewhere", 'adoption.namespace is "elsewhere", where no worker can'),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    cluster: Cluster, setting: str, sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        render(cluster, setting)


def test_the_operator_has_exactly_the_rights_it_uses(cluster: Cluster) -> None:
    items = render(cluster)
    assert rights(only(items, "ClusterRole", "orbiter-system-orbiter-operator")) == RIGHTS
    assert rights(only(items, "Role", "orbiter-operator-lease")) == LEASE_RIGHTS
    assert rights(only(items, "Role", "orbiter-operator-secrets")) == SECRET_RIGHTS


def test_with_named_namespaces_the_operator_has_no_rights_elsewhere(cluster: Cluster) -> None:
    names = "{team-a,team-b}"
    items = render(cluster, f"watchNamespaces={names}", f"workers.namespaces={names}")
    assert named(items, "ClusterRoleBinding") == set()
    assert named(items, "Role") == {
        ("orbiter-system", "orbiter-operator-lease"),
        *((team, "orbiter-operator") for team in ("team-a", "team-b")),
        *((team, "orbiter-operator-secrets") for team in ("team-a", "team-b")),
    }
    assert all(
        rights(item) == RIGHTS
        for item in items
        if item["kind"] == "Role" and item["metadata"]["name"] == "orbiter-operator"
    )
    assert environment(items)["ORBITER_WATCH_NAMESPACES"] == "team-a,team-b"


def test_the_operator_understands_every_variable_it_is_given(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = render(cluster, "workers.maxConcurrentJobsByNamespace.team-a=5")
    variables = environment(items)
    assert {name.removeprefix(PREFIX).lower() for name in variables} <= set(Settings.model_fields)
    for name, value in variables.items():
        if isinstance(value, str):
            monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings.allowed_service_accounts == ()
    assert settings.job_limit("team-a") == 5
    assert settings.adopt_agent["type"] == "claude"
    assert settings.worker_images["claude"] == "localhost/orbiter/worker-claude:dev"


def test_every_rule_says_why_it_is_there(cluster: Cluster) -> None:
    for template in ("_rbac.tpl", "rbac.yaml"):
        lines = (CHART / "templates" / template).read_text().splitlines()
        for before, line in itertools.pairwise(lines):
            if line.strip().startswith("- apiGroups:"):
                assert before.strip().startswith("# "), f"{template}: {line}"


def test_each_namespace_of_workers_gets_what_workers_need(cluster: Cluster) -> None:
    items = render(cluster, "workers.namespaces={team-a,team-b}")
    for kind, name in (
        ("Secret", "orbiter-redis"),
        ("ServiceAccount", "orbiter-worker"),
        ("NetworkPolicy", "orbiter-worker"),
    ):
        assert {("team-a", name), ("team-b", name)} <= named(items, kind)
    secret = next(
        item
        for item in items
        if item["kind"] == "Secret" and item["metadata"]["namespace"] == "team-a"
    )
    assert set(secret["data"]) == {"developer-url", "chat-url"}


def test_where_nobody_may_manage_users_the_sessions_share_one(cluster: Cluster) -> None:
    items = render(cluster, "redis.users=Static")
    assert set(only(items, "Secret", "orbiter-redis")["data"]) == {
        *("developer-url", "po-url", "chat-url")
    }
    auth = only(items, "Secret", "orbiter-redis-auth")["data"]
    users = base64.b64decode(auth["users.acl"]).decode()
    assert "user po on" in users
    assert "acl|setuser" not in users
    assert "master-key" not in auth
    assert not [name for _, name in named(items, "Role") if name.endswith("-secrets")]
    assert "ORBITER_REDIS_MASTER_KEY" not in str(items)


def test_the_operator_may_create_secrets_where_workers_run_and_not_read_one(
    cluster: Cluster,
) -> None:
    items = render(cluster, "workers.namespaces={team-a,team-b}")
    rules = [
        (item["metadata"].get("namespace"), rule)
        for item in items
        if item["kind"] in ("Role", "ClusterRole")
        for rule in item["rules"]
        if "secrets" in rule["resources"]
    ]
    assert [(namespace, rule["verbs"]) for namespace, rule in rules] == [
        ("team-a", ["create"]),
        ("team-b", ["create"]),
    ]


def test_passwords_are_long_and_each_user_has_its_own(cluster: Cluster) -> None:
    items = render(cluster)
    secrets = only(items, "Secret", "orbiter-redis-auth")["data"]
    data = {key: base64.b64decode(value).decode() for key, value in secrets.items()}
    passwords = [data[f"{user}-password"] for user in ("operator", "developer", "chat-default")]
    assert len({*passwords, data["master-key"]}) == 4
    assert min(map(len, passwords)) >= 32
    assert not any(password in data["users.acl"] for password in passwords)


def test_tokens_go_to_the_operator_alone(cluster: Cluster) -> None:
    items = render(cluster)
    accounts = [item for item in items if item["kind"] == "ServiceAccount"]
    assert [account["automountServiceAccountToken"] for account in accounts] == [False, False]
    mounts = {
        item["kind"]: item["spec"]["template"]["spec"]["automountServiceAccountToken"]
        for item in items
        if item["kind"] in ("Deployment", "StatefulSet")
    }
    assert mounts == {"Deployment": True, "StatefulSet": False}


@pytest.mark.parametrize(
    ("changes", "protected"),
    [
        ((), ["orbiter-redis-auth", "orbiter-redis-operator"]),
        (("redis.external.existingSecret=mine",), ["mine"]),
    ],
)
def test_no_worker_may_have_a_secret_of_the_installation(
    cluster: Cluster, changes: tuple[str, ...], protected: list[str]
) -> None:
    told = environment(render(cluster, *changes))["ORBITER_PROTECTED_SECRETS"]
    ours = ["sh.helm.release.v1.orbiter.*", "orbiter-session-*"]
    assert told == ",".join([*ours, *protected])


def test_the_service_accounts_that_a_template_may_choose_are_the_values(cluster: Cluster) -> None:
    items = render(cluster, "workers.allowedServiceAccountNames={builder,deployer}")
    assert environment(items)["ORBITER_ALLOWED_SERVICE_ACCOUNTS"] == "builder,deployer"


def test_what_a_pod_template_may_say_is_told_to_the_operator_and_to_the_api_server(
    cluster: Cluster,
) -> None:
    template = "workers.podTemplate"
    changes = (
        f"{template}.allow={{spec.dnsConfig,spec.volumes[].configMap}}",
        f"{template}.priorityClassNames={{batch}}",
        f"{template}.runtimeClassNames={{gvisor}}",
        f"{template}.tolerations[0].key=gpu,{template}.tolerations[0].tolerationSeconds=300",
    )
    items = render(cluster, "workers.namespaces={team-a,team-b}", *changes)
    told = environment(items)
    assert told["ORBITER_POD_TEMPLATE_FIELDS"] == "spec.dnsConfig,spec.volumes[].configMap"
    assert told["ORBITER_PRIORITY_CLASSES"] == "batch"
    assert told["ORBITER_RUNTIME_CLASSES"] == "gvisor"
    assert yaml.safe_load(told["ORBITER_TOLERATIONS"]) == [{"key": "gpu", "tolerationSeconds": 300}]
    policy = only(items, "ValidatingAdmissionPolicy")
    [*_, valid, _] = [rule["expression"] for rule in policy["spec"]["validations"]]
    assert '"dnsConfig"' in valid
    assert 'k3 in ["configMap","name"]' in valid
    assert '["batch"]' in valid
    assert '["gvisor"]' in valid
    assert '{"key": dyn("gpu"), "tolerationSeconds": dyn(300)}' in valid
    binding = only(items, "ValidatingAdmissionPolicyBinding")["spec"]
    assert binding["policyName"] == policy["metadata"]["name"]
    [selected] = binding["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert selected["values"] == ["team-a", "team-b"]


def test_two_renders_make_the_same_policy(cluster: Cluster) -> None:
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    first, second = (
        yaml.safe_dump([item for item in render(cluster) if item["kind"] in kinds], sort_keys=False)
        for _ in range(2)
    )
    assert first == second


def test_the_policy_can_be_left_out(cluster: Cluster) -> None:
    items = render(cluster, "workers.podTemplate.admissionPolicy=false")
    assert named(items, "ValidatingAdmissionPolicy") == set()
    assert named(items, "ValidatingAdmissionPolicyBinding") == set()


def test_an_external_redis_replaces_the_bundled_one(cluster: Cluster) -> None:
    items = render(cluster, "redis.external.existingSecret=mine", "redis.external.port=6380")
    assert named(items, "StatefulSet") == set()
    assert named(items, "Secret") == set()
    assert environment(items)["ORBITER_REDIS_URL"] == {
        "secretKeyRef": {"name": "mine", "key": "url"}
    }
    policy = only(items, "NetworkPolicy", "orbiter-worker")["spec"]
    assert {"ports": [{"port": 6380, "protocol": "TCP"}]} in policy["egress"]


def test_names_of_images_are_completed_and_references_taken_as_they_are(cluster: Cluster) -> None:
    items = render(
        cluster,
        "images.registry=registry.example.com/agents",
        "images.tag=1.2",
        "images.workers.codex=elsewhere.example.com/codex@sha256:abc",
    )
    images = yaml.safe_load(environment(items)["ORBITER_WORKER_IMAGES"])
    assert images["claude"] == "registry.example.com/agents/worker-claude:1.2"
    assert images["codex"] == "elsewhere.example.com/codex@sha256:abc"


def test_metrics_can_be_announced_to_prometheus(cluster: Cluster) -> None:
    assert named(render(cluster), "ServiceMonitor") == set()
    items = render(cluster, "metrics.serviceMonitor.enabled=true")
    assert only(items, "ServiceMonitor")["spec"]["endpoints"] == [
        {"port": "metrics", "interval": "30s"}
    ]
