"""What helm makes of the chart: who gets which rights, passwords, doors; and what is refused."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cluster import Cluster, CommandError, Object
from support.manifests import read_manifests

from orbiter_operator.make_secrets import PLAN, WantedSecret
from orbiter_operator.settings import PREFIX, Settings
from orbiter_triggers.courier.settings import CourierSettings
from orbiter_triggers.receiver.settings import ReceiverSettings
from orbiter_triggers.settings import Settings as TriggerSettings

pytestmark = pytest.mark.e2e

CHART = Path(__file__).resolve().parents[1] / "orbiter"
RIGHTS = {
    ("orbiter.dev", "agenttasks"): {"get", "list", "watch", "create", "delete"},
    ("orbiter.dev", "agenttasks/status"): {"patch"},
    ("orbiter.dev", "posessions"): {"get", "list", "watch"},
    ("orbiter.dev", "posessions/status"): {"patch"},
    ("orbiter.dev", "agentprofiles"): {"list", "watch"},
    ("orbiter.dev", "agentbudgets"): {"get", "list", "watch"},
    ("orbiter.dev", "agentbudgets/status"): {"patch"},
    ("apps", "controllerrevisions"): {"get", "create", "delete"},
    ("apps", "deployments"): {"get", "list", "watch", "create", "update", "patch", "delete"},
    ("batch", "jobs"): {"get", "list", "watch", "create", "delete"},
    ("", "pods"): {"list", "watch"},
    ("", "configmaps"): {"get"},
    ("", "events"): {"create"},
    ("kueue.x-k8s.io", "workloads"): {"list"},
}
PROFILES = "orbiter-system-orbiter-operator-profiles"
LEASE_RIGHTS = {("coordination.k8s.io", "leases"): {"get", "update", "create"}}
SECRET_RIGHTS = {("", "secrets"): {"create", "patch", "delete"}, ("", "serviceaccounts"): {"get"}}
FORMER = "orbiter-redis"
WEBHOOK_SECRETS = ("orbiter-webhooks", "orbiter-webhooks-key")
OURS = ["orbiter-developer", "orbiter-chat", "orbiter-producer", "orbiter-transcript"]
EXTERNAL = "redis.external.existingSecret=mine"
SELECTS = "workers.namespaceSelector.matchLabels.team=yes"
POLICY = "orbiter-system-orbiter-pod-template"
AUDIT = "orbiter-system-orbiter-audit"
MAKER = "orbiter-make-secrets"
HOOK = "helm.sh/hook"


def render(cluster: Cluster, *settings: str) -> list[Object]:
    flags = [word for setting in settings for word in ("--set", setting)]
    text = cluster.helm("template", "orbiter", str(CHART), "-n", "orbiter-system", *flags)
    return read_manifests(text)


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


def plan(items: list[Object]) -> dict[tuple[str, str], WantedSecret]:
    """The Secrets that the hook's program is told to make."""
    jobs = [item for item in items if item["kind"] == "Job"]
    if not jobs:
        return {}
    [job] = jobs
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][-1] == "orbiter_operator.make_secrets"
    [text] = container["args"]
    return {(secret.namespace, secret.name): secret for secret in PLAN.validate_json(text)}


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
        (f"{SELECTS},redis.users=Static", "nobody would make the Secrets of a namespace that gets"),
        (f"{SELECTS},watchNamespaces={{default}}", "gets the label would not be watched"),
        ("workers.namespaces=null", "workers"),
        (
            "redis.auth.existingSecret=a,redis.external.existingSecret=b",
            "redis.auth.existingSecret is for the bundled Redis and redis.external",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    cluster: Cluster, setting: str, sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        render(cluster, setting)


def test_the_operator_has_exactly_the_rights_it_uses(cluster: Cluster) -> None:
    items = render(cluster)
    assert rights(only(items, "Role", "orbiter-operator")) == RIGHTS
    assert named(items, "ClusterRoleBinding") == {(None, PROFILES)}
    assert environment(items)["ORBITER_WATCH_NAMESPACES"] == "default"
    assert rights(only(items, "Role", "orbiter-operator-lease")) == LEASE_RIGHTS
    assert rights(only(items, "Role", "orbiter-operator-secrets")) == SECRET_RIGHTS


def test_with_named_namespaces_the_operator_has_no_rights_elsewhere(cluster: Cluster) -> None:
    names = "{team-a,team-b}"
    items = render(cluster, f"watchNamespaces={names}", f"workers.namespaces={names}")
    assert named(items, "ClusterRoleBinding") == {(None, PROFILES)}
    assert named(items, "Role") == {
        ("team-a", "orbiter-smoke-test"),
        ("orbiter-system", MAKER),
        ("orbiter-system", "orbiter-operator-lease"),
        ("orbiter-system", "orbiter-operator-passwords"),
        *((team, MAKER) for team in ("team-a", "team-b")),
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
    ours = {name for name in variables if name != "REDIS_PASSWORD"}
    assert {name.removeprefix(PREFIX).lower() for name in ours} <= set(Settings.model_fields)
    for name, value in variables.items():
        if isinstance(value, str):
            monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings.allowed_service_accounts == ()
    assert settings.job_limit("team-a") == 5
    assert settings.adopt_agent["type"] == "claude"
    assert settings.worker_images["claude"] == "localhost/orbiter/worker-claude:dev"


def test_every_rule_says_why_it_is_there(cluster: Cluster) -> None:
    for template in ("_rbac.tpl", "rbac.yaml", "make-secrets.yaml"):
        lines = (CHART / "templates" / template).read_text().splitlines()
        for before, line in itertools.pairwise(lines):
            if line.strip().startswith("- apiGroups:"):
                assert before.strip().startswith("# "), f"{template}: {line}"


def test_each_namespace_of_workers_gets_what_workers_need(cluster: Cluster) -> None:
    items = render(cluster, "workers.namespaces={team-a,team-b}")
    for kind, name in (("ServiceAccount", "orbiter-worker"), ("NetworkPolicy", "orbiter-worker")):
        assert {("team-a", name), ("team-b", name)} <= named(items, kind)
    assert environment(items)["ORBITER_WORKER_NAMESPACES"] == "team-a,team-b"


def test_jobs_of_an_earlier_version_keep_the_secret_that_they_read(cluster: Cluster) -> None:
    items = render(cluster, "workers.redisSecretName=urls", "workers.namespaces={team-a,team-b}")
    assert environment(items)["ORBITER_REDIS_SECRET_NAME"] == "orbiter-developer"
    told = plan(items)
    for namespace in ("team-a", "team-b"):
        assert told[namespace, "urls"] == WantedSecret(namespace=namespace, name="urls", found=True)
    static = environment(render(cluster, "workers.redisSecretName=urls", "redis.users=Static"))
    assert static["ORBITER_REDIS_SECRET_NAME"] == "urls"


def test_the_operator_ends_the_users_that_the_chart_has_made_and_no_others(
    cluster: Cluster,
) -> None:
    items = render(cluster, "workers.redisSecretName=urls", "workers.namespaces={team-a,team-b}")
    found = environment(items)
    assert found["ORBITER_FORMER_REDIS_USERS"] == ("developer,po,chat,chat-team-a,chat-team-b")
    assert found["ORBITER_FORMER_REDIS_SECRET"] == "urls"
    assert found["ORBITER_FORMER_REDIS_PASSWORDS"] == "orbiter-redis-auth"
    for yours in ("redis.users=Static", "redis.auth.existingSecret=a", EXTERNAL):
        items = render(cluster, yours)
        assert not [name for name in environment(items) if name.startswith("ORBITER_FORMER")]
        assert "orbiter-operator-passwords" not in {name for _, name in named(items, "Role")}
        assert not any(
            "delete" in rule["verbs"]
            for item in items
            for rule in item.get("rules", ())
            if item["kind"] == "Role" and "secrets" in rule["resources"]
        )


def test_where_nobody_may_manage_users_the_sessions_share_one(cluster: Cluster) -> None:
    items = render(cluster, "redis.users=Static")
    told = plan(items)
    shared = told["default", "orbiter-redis"].texts
    assert set(shared) == {"developer-url", "po-url", "chat-url"}
    assert shared["chat-url"] == (
        "redis://chat-default:${chat-default-password}@orbiter-redis.orbiter-system.svc:6379/0"
    )
    passwords = ("operator", "developer", "po", "chat-default")
    assert told["orbiter-system", "orbiter-redis-auth"].passwords == tuple(
        f"{user}-password" for user in passwords
    )
    assert ("default", MAKER) in named(items, "Role")
    assert "ORBITER_WORKER_NAMESPACES" not in environment(items)
    users = only(items, "ConfigMap", "orbiter-redis")["data"]["users.acl"]
    assert "user po on" in users
    assert "acl|setuser" not in users
    assert not [
        name for _, name in named(items, "Role") if name.endswith("-secrets") and name != MAKER
    ]
    assert "ORBITER_REDIS_MASTER_KEY" not in str(items)


def test_the_operator_may_make_secrets_where_workers_run_and_change_four_of_them(
    cluster: Cluster,
) -> None:
    items = render(cluster, "workers.namespaces={team-a,team-b}")
    rules = [
        (item["metadata"].get("namespace"), rule.get("resourceNames"), rule["verbs"])
        for item in items
        if item["kind"] in ("Role", "ClusterRole")
        if item["metadata"]["name"] != MAKER
        for rule in item["rules"]
        if "secrets" in rule["resources"]
    ]
    assert rules == [
        *(
            (namespace, *what)
            for namespace in ("team-a", "team-b")
            for what in ((None, ["create"]), (OURS, ["patch"]), ([FORMER], ["delete"]))
        ),
        ("orbiter-system", ["orbiter-redis-auth"], ["patch"]),
    ]


def test_the_operator_makes_the_users_and_the_chart_has_no_password(cluster: Cluster) -> None:
    items = render(cluster)
    wanted = plan(items)["orbiter-system", "orbiter-redis-auth"]
    assert wanted.passwords == ("operator-password", "master-key")
    assert wanted.texts == {}
    assert named(items, "Secret") == set()
    rules = only(items, "ConfigMap", "orbiter-redis")["data"]["users.acl"]
    assert [line.split()[1:4] for line in rules.splitlines()] == [
        ["default", "off", "resetpass"],
        ["operator", "on", "PASSWORD"],
        ["developer", "on", "PASSWORD"],
        ["po", "on", "PASSWORD"],
        ["chat", "on", "PASSWORD"],
        ["chat-default", "on", "PASSWORD"],
    ]


def test_redis_has_the_passwords_of_its_users_and_not_the_master_key(cluster: Cluster) -> None:
    spec = only(render(cluster), "StatefulSet")["spec"]["template"]["spec"]
    [volume] = [item for item in spec["volumes"] if item["name"] == "passwords"]
    sources = [source["secret"] for source in volume["projected"]["sources"]]
    assert [(source["items"], source["optional"]) for source in sources] == [
        ([{"key": f"{user}-password", "path": user}], user != "operator")
        for user in ("operator", "developer", "po", "chat", "chat-default")
    ]


def test_two_renders_are_the_same_bytes_and_ask_the_cluster_nothing(cluster: Cluster) -> None:
    server = ("server.enabled=true", "server.auth=Token", "server.agents.helper.model=m")
    static = ("redis.users=Static", "workers.namespaces={team-a,team-b}")
    tls = ("redis.tls.enabled=true", "redis.tls.existingSecret=own", "redis.tls.ca=PEM")
    events = (TRIGGERS, WEBHOOKS, *COURIER, "triggers.courier.notify.enabled=true")
    for settings in ((), server, static, (SELECTS,), tls, events):
        flags = [word for setting in settings for word in ("--set", setting)]
        words = ("template", "orbiter", str(CHART), "-n", "orbiter-system", *flags)
        assert cluster.helm(*words) == cluster.helm(*words)
    for template in (CHART / "templates").iterdir():
        found = re.search(r"\b(lookup|rand\w+|gen[A-Z]\w+|now|uuidv4)\b(?![':])", actions(template))
        assert found is None, f"{template.name}: {found}"


def actions(template: Path) -> str:
    """What a template has helm compute, without comments and texts."""
    found = re.findall(r"\{\{-?(?!\s*/\*)(.*?)-?\}\}", template.read_text(), re.DOTALL)
    return "\n".join(re.sub(r'"(\\.|[^"\\])*"', '""', action) for action in found)


def test_secrets_are_made_before_anything_else_by_who_may_do_nothing_else(cluster: Cluster) -> None:
    items = [item for item in render(cluster) if item["metadata"]["name"] == MAKER]
    order = {item["kind"]: int(item["metadata"]["annotations"][f"{HOOK}-weight"]) for item in items}
    assert order == {
        **dict.fromkeys(("ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"), -5),
        "Job": 0,
    }
    for item in items:
        annotations = item["metadata"]["annotations"]
        assert annotations[HOOK] == "pre-install,pre-upgrade"
        policies = annotations[f"{HOOK}-delete-policy"]
        assert policies == "before-hook-creation,hook-succeeded"
    rules = {item["metadata"]["namespace"]: item["rules"] for item in items if "rules" in item}
    assert {
        place: [(r.get("resourceNames"), r["verbs"]) for r in found]
        for place, found in rules.items()
    } == {
        "orbiter-system": [(None, ["create"]), (["orbiter-redis-auth"], ["get", "patch"])],
        "default": [([FORMER], ["get", "patch"])],
    }
    policy = only(items, "NetworkPolicy")["spec"]
    labels = only(items, "Job")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"] == labels
    ports = [[port["port"] for port in rule["ports"]] for rule in policy["egress"]]
    assert ports == [[53, 53], [443, 6443]]


def test_passwords_of_ones_own_are_used_and_none_is_made(cluster: Cluster) -> None:
    items = render(cluster, "redis.auth.existingSecret=mine")
    assert plan(items) == {}
    assert not [item for item in items if item["metadata"]["name"] == MAKER]
    found = environment(items)
    assert found["REDIS_PASSWORD"] == {"secretKeyRef": {"name": "mine", "key": "operator-password"}}
    assert found["ORBITER_REDIS_MASTER_KEY"] == {
        "secretKeyRef": {"name": "mine", "key": "master-key"}
    }
    assert "mine" in found["ORBITER_PROTECTED_SECRETS"].split(",")
    [redis] = only(items, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert redis["env"][0]["valueFrom"]["secretKeyRef"]["name"] == "mine"


def test_tokens_go_to_the_operator_alone(cluster: Cluster) -> None:
    items = render(cluster)
    accounts = [item for item in items if item["kind"] == "ServiceAccount"]
    assert {account["automountServiceAccountToken"] for account in accounts} == {False}
    assert {account["metadata"]["name"] for account in accounts} == {
        *("orbiter-operator", "orbiter-worker", "orbiter-smoke-test", MAKER)
    }
    mounts = {
        item["kind"]: item["spec"]["template"]["spec"]["automountServiceAccountToken"]
        for item in items
        if item["kind"] in ("Deployment", "StatefulSet")
    }
    assert mounts == {"Deployment": True, "StatefulSet": False}


@pytest.mark.parametrize(
    ("changes", "protected"),
    [
        ((), ["orbiter-redis-auth"]),
        (("redis.external.existingSecret=mine",), ["mine"]),
        (("triggers.courier.github.existingSecret=app",), ["app", "orbiter-redis-auth"]),
        (("tracing.headersSecretName=headers",), ["orbiter-redis-auth", "headers"]),
    ],
)
def test_no_worker_may_have_a_secret_of_the_installation(
    cluster: Cluster, changes: tuple[str, ...], protected: list[str]
) -> None:
    told = environment(render(cluster, *changes))["ORBITER_PROTECTED_SECRETS"]
    ours = ["sh.helm.release.v1.orbiter.*", "orbiter-session-*", *WEBHOOK_SECRETS, FORMER, *OURS]
    assert told == ",".join([*ours, *protected, "orbiter-artifacts"])


@pytest.mark.parametrize(
    ("given", "told"), [("true", "true"), ("false", "false"), ("null", "true")]
)
def test_whole_transcripts_go_to_a_store_unless_that_is_not_wanted(
    cluster: Cluster, given: str, told: str
) -> None:
    """null: what an earlier chart's values are that are used again."""
    store = ("enabled=true", "endpoint=https://s3.example.com", "bucket=agents")
    words = [f"artifacts.{word}" for word in (*store, f"transcripts={given}")]
    assert environment(render(cluster, *words))["ORBITER_ARTIFACTS_TRANSCRIPTS"] == told


def test_the_service_accounts_that_a_template_may_choose_are_the_values(cluster: Cluster) -> None:
    items = render(cluster, "workers.allowedServiceAccountNames={builder,deployer}")
    assert environment(items)["ORBITER_ALLOWED_SERVICE_ACCOUNTS"] == "builder,deployer"


def test_the_roles_of_aws_that_a_task_may_name_are_told_to_both(cluster: Cluster) -> None:
    role = "arn:aws:iam::123456789012:role/agents"
    items = render(cluster, f"workers.allowedAWSRoleARNs={{{role}}}")
    assert environment(items)["ORBITER_ALLOWED_AWS_ROLE_ARNS"] == role
    rules = only(items, "ValidatingAdmissionPolicy", POLICY)["spec"]["validations"]
    assert any(f'variables.role in ["{role}"]' in rule["expression"] for rule in rules)


def test_the_classes_of_kueue_that_a_task_may_choose_are_told_to_both(cluster: Cluster) -> None:
    items = render(cluster, "workers.queuePriorityClassNames={high,low}")
    assert environment(items)["ORBITER_QUEUE_PRIORITY_CLASSES"] == "high,low"
    rules = only(items, "ValidatingAdmissionPolicy", POLICY)["spec"]["validations"]
    assert any('queuePriorityClass in ["high","low"]' in rule["expression"] for rule in rules)


def test_the_pod_template_under_every_workers_is_told_to_the_operator(cluster: Cluster) -> None:
    assert "ORBITER_WORKER_POD_TEMPLATE" not in environment(render(cluster))
    given = "workers.podTemplate.default.spec.nodeSelector.pool=agents"
    told = environment(render(cluster, given))["ORBITER_WORKER_POD_TEMPLATE"]
    assert json.loads(told) == {"spec": {"nodeSelector": {"pool": "agents"}}}


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
    policy = only(items, "ValidatingAdmissionPolicy", POLICY)
    [*_, valid, _] = [rule["expression"] for rule in policy["spec"]["validations"]]
    assert '"dnsConfig"' in valid
    assert 'k3 in ["configMap","name"]' in valid
    assert '["batch"]' in valid
    assert '["gvisor"]' in valid
    assert '{"key": dyn("gpu"), "tolerationSeconds": dyn(300)}' in valid
    binding = only(items, "ValidatingAdmissionPolicyBinding", POLICY)["spec"]
    assert binding["policyName"] == policy["metadata"]["name"]
    [selected] = binding["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert selected["values"] == ["team-a", "team-b"]


def test_both_policies_hold_in_the_same_namespaces(cluster: Cluster) -> None:
    items = render(cluster, "workers.namespaces={team-a,team-b}")
    for name in (POLICY, AUDIT):
        binding = only(items, "ValidatingAdmissionPolicyBinding", name)["spec"]
        assert (binding["policyName"], binding["validationActions"]) == (name, ["Deny"])
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
    assert plan(items) == {}
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


def test_a_label_makes_a_namespace_one_of_the_workers(cluster: Cluster) -> None:
    items = render(cluster, SELECTS, "networkPolicy.egressByNamespace.team-x[0].ports[0].port=22")
    assert environment(items)["ORBITER_NAMESPACE_SELECTOR"] == "team=yes"
    spec = only(items, "Deployment")["spec"]["template"]["spec"]
    [container] = spec["containers"]
    mount = {"name": "namespace", "mountPath": "/etc/orbiter/namespace", "readOnly": True}
    assert mount in container["volumeMounts"]
    files = only(items, "ConfigMap", "orbiter-operator-namespace")["data"]
    assert set(files) == {"namespace.json", "namespace-team-x.json", "redis-policy.json"}
    ours, theirs = (json.loads(files[f"{name}.json"]) for name in ("namespace", "namespace-team-x"))
    listed = [
        only([i for i in items if i["metadata"].get("namespace") == "default"], kind)
        for kind in ("ServiceAccount", "NetworkPolicy")
    ]
    for made, of_list in zip(ours, listed, strict=True):
        assert "namespace" not in made["metadata"]
        assert {**made, "metadata": {}} == {**of_list, "metadata": {}}
        assert made["metadata"]["name"] == of_list["metadata"]["name"]
    more = [rule for rule in theirs[1]["spec"]["egress"] if rule not in ours[1]["spec"]["egress"]]
    assert more == [{"ports": [{"port": 22}]}]


def test_where_the_label_counts_redis_and_the_policy_know_it(cluster: Cluster) -> None:
    items = render(cluster, SELECTS)
    peers = only(items, "NetworkPolicy", "orbiter-redis")["spec"]["ingress"][0]["from"]
    assert {"matchLabels": {"team": "yes"}} in [peer.get("namespaceSelector") for peer in peers]
    bindings = [i for i in items if i["kind"] == "ValidatingAdmissionPolicyBinding"]
    selected = [binding["spec"]["matchResources"]["namespaceSelector"] for binding in bindings]
    assert selected[1] == selected[3] == {"matchLabels": {"team": "yes"}}
    # A list of no namespaces is none, and not one that selects all.
    items = render(cluster, SELECTS, "workers.namespaces=null", "adoption.namespace=team-b")
    bindings = [i for i in items if i["kind"] == "ValidatingAdmissionPolicyBinding"]
    names = {binding["metadata"]["name"] for binding in bindings}
    assert names == {f"{POLICY}-labelled", f"{AUDIT}-labelled"}
    peers = only(items, "NetworkPolicy", "orbiter-redis")["spec"]["ingress"][0]["from"]
    assert len(peers) == 2
    assert environment(items)["ORBITER_ADOPT_NAMESPACE"] == "team-b"


def test_only_with_the_label_the_operator_has_rights_in_all_namespaces(cluster: Cluster) -> None:
    name = "orbiter-system-orbiter-operator-namespaces"
    assert name not in {found for _, found in named(render(cluster), "ClusterRole")}
    items = render(cluster, SELECTS)
    assert rights(only(items, "ClusterRole", "orbiter-system-orbiter-operator")) == RIGHTS
    assert environment(items)["ORBITER_WATCH_NAMESPACES"] == ""
    role = only(items, "ClusterRole", name)
    assert rights(role) == {
        ("", "namespaces"): {"list", "watch"},
        ("", "secrets"): {"create", "patch"},
        ("", "serviceaccounts"): {"list", "watch", "create", "patch", "delete"},
        ("networking.k8s.io", "networkpolicies"): {"list", "watch", "create", "patch", "delete"},
    }
    bound = {
        rule["resources"][0]: rule["resourceNames"]
        for rule in role["rules"]
        if {"patch", "delete"} & set(rule["verbs"])
    }
    assert bound == {
        "secrets": OURS,
        "serviceaccounts": ["orbiter-worker"],
        "networkpolicies": ["orbiter-worker"],
    }
    assert all("resourceNames" in r for r in role["rules"] if "patch" in r["verbs"])


def test_alerts_and_dashboard_are_there_when_they_are_asked_for(cluster: Cluster) -> None:
    assert named(render(cluster), "PrometheusRule") == set()
    items = render(
        cluster,
        "metrics.rules.enabled=true,metrics.rules.costPerHourUSD=7.5,metrics.rules.labels.release=kps",
        "metrics.dashboard.enabled=true,metrics.dashboard.annotations.grafana_folder=Agents",
    )
    rule = only(items, "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "kps"
    alerts = {each["alert"]: each["expr"] for each in rule["spec"]["groups"][0]["rules"]}
    assert alerts["OrbiterCostPerHour"].endswith("> 7.5")
    board = only(items, "ConfigMap", "orbiter-dashboard")
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert board["metadata"]["annotations"] == {"grafana_folder": "Agents"}
    assert json.loads(board["data"]["orbiter.json"])["title"] == "Orbiter"


@pytest.mark.parametrize("settings", [(), (SELECTS,), ("watchNamespaces={default,team-a}",)])
def test_the_operator_reads_the_clusters_profiles_wherever_it_works(
    cluster: Cluster, settings: tuple[str, ...]
) -> None:
    items = render(cluster, *settings)
    reads = {("orbiter.dev", "clusteragentprofiles"): {"list", "watch"}}
    assert rights(only(items, "ClusterRole", PROFILES)) == reads
    binding = only(items, "ClusterRoleBinding", PROFILES)
    assert binding["roleRef"]["name"] == PROFILES
    [subject] = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == ("orbiter-operator", "orbiter-system")


@pytest.mark.parametrize("resource", ["agentprofiles", "clusteragentprofiles", "agentbudgets"])
def test_profiles_and_budgets_are_read_by_viewers_and_written_by_nobody_that_the_chart_knows(
    cluster: Cluster, resource: str
) -> None:
    rights = {
        item["metadata"]["name"]: set(rule["verbs"])
        for item in render(cluster)
        if item["kind"] in ("Role", "ClusterRole")
        for rule in item["rules"]
        if resource in rule["resources"]
    }
    assert len(rights) == 2, rights
    assert set().union(*rights.values()) == {"get", "list", "watch"}


TRIGGERS = "triggers.enabled=true"
TRIGGER_RIGHTS = {
    ("orbiter.dev", "agenttriggers"): {"get", "list", "watch"},
    ("orbiter.dev", "agenttriggers/status"): {"patch"},
    ("orbiter.dev", "agenttasks"): {"get", "list", "watch", "create", "delete"},
}


def test_triggers_are_off_until_they_are_wanted(cluster: Cluster) -> None:
    assert not [each for each in render(cluster) if "triggers" in each["metadata"]["name"]
                and each["kind"] != "CustomResourceDefinition"]  # fmt: skip


def test_triggers_are_a_program_of_their_own_with_exactly_the_rights_it_uses(
    cluster: Cluster,
) -> None:
    items = render(cluster, TRIGGERS)
    assert rights(only(items, "Role", "orbiter-triggers")) == TRIGGER_RIGHTS
    assert rights(only(items, "Role", "orbiter-triggers-lease")) == LEASE_RIGHTS
    assert rights(only(items, "Role", "orbiter-operator")) == RIGHTS
    pod = only(items, "Deployment", "orbiter-triggers")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["serviceAccountName"] == "orbiter-triggers"
    assert container["command"][-2:] == ["-m", "orbiter_triggers"]
    operator = only(items, "Deployment", "orbiter-operator")["spec"]["template"]["spec"]
    assert container["image"] == operator["containers"][0]["image"]
    told = {each["name"].removeprefix(PREFIX).lower() for each in container["env"]}
    assert told <= set(TriggerSettings.model_fields)
    policy = only(items, "NetworkPolicy", "orbiter-triggers")["spec"]
    assert not [port for rule in policy["egress"] for port in rule["ports"] if port["port"] == 6379]


WEBHOOKS = "triggers.webhooks.enabled=true"


def test_webhooks_are_off_until_they_are_wanted(cluster: Cluster) -> None:
    off = (render(cluster, TRIGGERS), render(cluster, WEBHOOKS))
    assert not [each for items in off for each in items if "receiver" in each["metadata"]["name"]]
    users = only(render(cluster, TRIGGERS), "ConfigMap", "orbiter-redis")["data"]["users.acl"]
    assert "agenttrigger" not in users


def test_the_receiver_has_no_way_to_the_api_server(cluster: Cluster) -> None:
    items = render(cluster, TRIGGERS, WEBHOOKS)
    pod = only(items, "Deployment", "orbiter-receiver")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod
    [container] = pod["containers"]
    assert container["command"][-2:] == ["-m", "orbiter_triggers.receiver"]
    told = {each["name"].removeprefix(PREFIX).lower() for each in container["env"]}
    assert told - {"redis_password"} <= set(ReceiverSettings.model_fields)
    policy = only(items, "NetworkPolicy", "orbiter-receiver")["spec"]
    ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert ports == {53, 6379}
    assert "from" not in policy["ingress"][0]
    assert not [each for each in items if each["kind"] == "Ingress"]


def test_the_controller_publishes_webhooks_in_one_secret_of_each_namespace(
    cluster: Cluster,
) -> None:
    items = render(cluster, TRIGGERS, WEBHOOKS)
    rules = [
        (rule.get("resourceNames"), rule["verbs"])
        for rule in only(items, "Role", "orbiter-triggers")["rules"]
        if "secrets" in rule["resources"]
    ]
    assert rules == [(["orbiter-webhooks"], ["patch"]), (None, ["create"])]
    pod = only(items, "Deployment", "orbiter-triggers")["spec"]["template"]["spec"]
    told = {each["name"]: each for each in pod["containers"][0]["env"]}
    assert told["ORBITER_WEBHOOK_MASTER_KEY"]["valueFrom"] == {
        "secretKeyRef": {"name": "orbiter-webhooks-key", "key": "master-key"}
    }
    wanted = plan(items)
    assert wanted["orbiter-system", "orbiter-webhooks-key"].passwords == ("master-key",)
    assert wanted["orbiter-system", "orbiter-redis-auth"].passwords == (
        *("operator-password", "master-key", "triggers-password", "receiver-password"),
    )


def test_an_ingress_leads_to_the_hooks_alone(cluster: Cluster) -> None:
    options = (
        "triggers.webhooks.ingress.enabled=true",
        "triggers.webhooks.ingress.hosts={h.example}",
    )
    [ingress] = [
        each for each in render(cluster, TRIGGERS, WEBHOOKS, *options) if each["kind"] == "Ingress"
    ]
    [rule] = ingress["spec"]["rules"]
    assert (rule["host"], [each["path"] for each in rule["http"]["paths"]]) == (
        *("h.example", ["/v1/triggers/"]),
    )


COURIER = ("triggers.courier.enabled=true", "triggers.courier.github.existingSecret=app")
COURIER_RIGHTS = {
    ("orbiter.dev", "agenttriggers"): {"get", "list", "watch"},
    ("orbiter.dev", "agenttasks"): {"get", "list", "watch", "patch"},
}


def test_the_courier_is_off_until_it_is_wanted(cluster: Cluster) -> None:
    items = render(cluster, TRIGGERS, WEBHOOKS)
    assert not [each for each in items if "courier" in each["metadata"]["name"]]
    assert "user courier" not in only(items, "ConfigMap", "orbiter-redis")["data"]["users.acl"]


def test_the_courier_alone_has_githubs_credential_and_nobody_reaches_it(cluster: Cluster) -> None:
    items = render(cluster, TRIGGERS, WEBHOOKS, *COURIER)
    assert rights(only(items, "Role", "orbiter-courier")) == COURIER_RIGHTS
    assert rights(only(items, "Role", "orbiter-courier-lease")) == LEASE_RIGHTS
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in items
        if each["kind"] in ("Deployment", "StatefulSet")
    }
    assert [name for name, pod in pods.items() if "app" in str(pod["volumes"])] == [
        "orbiter-courier"
    ]
    pod = pods["orbiter-courier"]
    [container] = pod["containers"]
    assert container["command"][-2:] == ["-m", "orbiter_triggers.courier"]
    told = {each["name"].removeprefix(PREFIX).lower() for each in container["env"]}
    assert told - {"redis_password"} <= set(CourierSettings.model_fields)
    [volume] = [each for each in pod["volumes"] if each["name"] == "github"]
    assert volume["secret"] == {"secretName": "app"}
    policy = only(items, "NetworkPolicy", "orbiter-courier")["spec"]
    ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert ports == {53, 443, 6379, 6443}
    assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == [9090]
    assert not [each for each in items if each["kind"] == "Ingress"]
    assert "component: courier" in yaml.safe_dump(only(items, "NetworkPolicy", "orbiter-redis"))
    passwords = plan(items)["orbiter-system", "orbiter-redis-auth"].passwords
    assert passwords[-1] == "courier-password"


def test_without_answers_the_courier_changes_no_task(cluster: Cluster) -> None:
    items = render(cluster, TRIGGERS, WEBHOOKS, *COURIER, "triggers.courier.answers=false")
    verbs = rights(only(items, "Role", "orbiter-courier"))["orbiter.dev", "agenttasks"]
    assert verbs == {"get", "list", "watch"}


def test_the_courier_is_told_its_repositories_and_networks(cluster: Cluster) -> None:
    options = (
        *COURIER,
        "triggers.courier.repositories.team-a={octo-org/shop,octo-tools/*}",
        "triggers.courier.github.privateNetworks={10.1.2.0/24}",
    )
    items = render(cluster, TRIGGERS, WEBHOOKS, *options)
    pod = only(items, "Deployment", "orbiter-courier")["spec"]["template"]["spec"]
    told = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert json.loads(told["ORBITER_GITHUB_REPOSITORIES"]) == {
        "team-a": ["octo-org/shop", "octo-tools/*"]
    }
    assert told["ORBITER_GITHUB_PRIVATE_NETWORKS"] == "10.1.2.0/24"
    policy = only(items, "NetworkPolicy", "orbiter-courier")["spec"]
    assert {"ipBlock": {"cidr": "10.1.2.0/24"}} in policy["egress"][-1]["to"]


def test_githubs_enterprise_server_has_its_own_ca_port_and_pace(cluster: Cluster) -> None:
    options = (
        *COURIER,
        "triggers.courier.github.url=https://git.example.com:8443/api/v3",
        "triggers.courier.github.caConfigMap=company-ca",
        "triggers.courier.github.writeSeconds=2",
    )
    items = render(cluster, TRIGGERS, WEBHOOKS, *options)
    pod = only(items, "Deployment", "orbiter-courier")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    told = {each["name"]: each.get("value") for each in container["env"]}
    assert told["ORBITER_GITHUB_WRITE_SECONDS"] == "2"
    [place] = [each for each in container["volumeMounts"] if each["name"] == "github-ca"]
    assert told["ORBITER_GITHUB_CA"] == f"{place['mountPath']}/ca.crt"
    [volume] = [each for each in pod["volumes"] if each["name"] == "github-ca"]
    assert volume["configMap"] == {"name": "company-ca"}
    policy = only(items, "NetworkPolicy", "orbiter-courier")["spec"]
    ports = {port["port"] for port in policy["egress"][-1]["ports"]}
    assert ports == {443, 8443}


def test_triggers_serve_the_namespaces_that_the_operator_watches(cluster: Cluster) -> None:
    names = "{team-a,team-b}"
    listed = (TRIGGERS, f"watchNamespaces={names}", f"workers.namespaces={names}")
    roles = named(render(cluster, *listed), "Role")
    assert {("team-a", "orbiter-triggers"), ("team-b", "orbiter-triggers")} <= roles
    everywhere = render(cluster, TRIGGERS, SELECTS)
    assert (
        rights(only(everywhere, "ClusterRole", "orbiter-system-orbiter-triggers")) == TRIGGER_RIGHTS
    )


def test_who_may_run_tasks_may_have_triggers_run_them(cluster: Cluster) -> None:
    items = render(cluster)
    view, edit = (
        rights(only(items, "ClusterRole", f"orbiter-system-orbiter-operator-{role}"))
        for role in ("view", "edit")
    )
    assert view["orbiter.dev", "agenttriggers"] == {"get", "list", "watch"}
    assert edit["orbiter.dev", "agenttriggers"] == edit["orbiter.dev", "agenttasks"]


def test_the_policy_of_pod_templates_holds_for_profiles_too(cluster: Cluster) -> None:
    policy = only(render(cluster), "ValidatingAdmissionPolicy", POLICY)
    [rule] = policy["spec"]["matchConstraints"]["resourceRules"]
    kinds = ["agenttasks", "posessions", "agentprofiles", "clusteragentprofiles"]
    assert rule["resources"] == kinds


NOTIFY = ("triggers.courier.enabled=true", "triggers.courier.notify.enabled=true")


def test_the_courier_tells_receivers_only_where_that_is_wanted(cluster: Cluster) -> None:
    items = render(cluster, TRIGGERS, WEBHOOKS, *COURIER)
    pod = only(items, "Deployment", "orbiter-courier")["spec"]["template"]["spec"]
    assert not [each for each in pod["containers"][0]["env"] if "NOTIFY" in each["name"]]


def test_who_tells_receivers_needs_neither_github_nor_webhooks_and_reads_one_secret(
    cluster: Cluster,
) -> None:
    items = render(cluster, TRIGGERS, *NOTIFY)
    role = only(items, "Role", "orbiter-courier")
    more = {
        ("orbiter.dev", "posessions"): {"get", "list", "watch"},
        ("orbiter.dev", "agentbudgets"): {"get", "list", "watch"},
        ("", "secrets"): {"get"},
        ("", "events"): {"create"},
    }
    assert rights(role) == COURIER_RIGHTS | more
    [secrets] = [rule for rule in role["rules"] if rule["resources"] == ["secrets"]]
    assert secrets["resourceNames"] == ["orbiter-notify"]
    pod = only(items, "Deployment", "orbiter-courier")["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["volumes"]] == ["tmp"]
    told = {each["name"].removeprefix(PREFIX).lower() for each in pod["containers"][0]["env"]}
    assert {"notify", "notify_allow_http", "notify_private_networks", "notify_source"} <= told
    assert told - {"redis_password"} <= set(CourierSettings.model_fields)
    assert not [each for each in items if "receiver" in each["metadata"]["name"]]
    # No agent may have what signs.
    operator = only(items, "Deployment", "orbiter-operator")["spec"]["template"]["spec"]
    protected = {one["name"]: one.get("value") for one in operator["containers"][0]["env"]}
    assert "orbiter-notify" in protected["ORBITER_PROTECTED_SECRETS"].split(",")
    redis = only(items, "NetworkPolicy", "orbiter-redis")["spec"]["ingress"][0]["from"]
    assert "courier" in str(redis)
    assert "receiver" not in str(redis)


def test_receivers_may_be_where_the_chart_says_and_nowhere_else_that_is_private(
    cluster: Cluster,
) -> None:
    options = (
        *NOTIFY,
        "triggers.courier.notify.secretNames={hooks,chat}",
        "triggers.courier.notify.privateNetworks={10.1.2.0/24}",
        "triggers.courier.notify.ports={8443}",
    )
    items = render(cluster, TRIGGERS, *options)
    rules = only(items, "Role", "orbiter-courier")["rules"]
    [secrets] = [rule for rule in rules if rule["resources"] == ["secrets"]]
    assert secrets["resourceNames"] == ["hooks", "chat"]
    out = only(items, "NetworkPolicy", "orbiter-courier")["spec"]["egress"][-1]
    assert [port["port"] for port in out["ports"]] == [443, 8443]
    assert {"ipBlock": {"cidr": "10.1.2.0/24"}} in out["to"]
