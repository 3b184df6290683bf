"""What helm makes of the server: nothing unless asked for, and then with little power."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster, CommandError, Object

from orbiter.cli.agent.loading import load_agent

from .test_chart_render import CHART, named, only, plan, render, rights

pytestmark = pytest.mark.e2e

NAME = "orbiter-server"
ON = ("server.enabled=true", "server.agents.helper.model=openai:gpt-4o")
TOKEN = (*ON, "server.auth=Token")
RIGHTS = {("orbiter.dev", kind): {"list", "watch"} for kind in ("agenttasks", "posessions")}


def pod(items: list[Object]) -> Object:
    spec: Object = only(items, "Deployment", NAME)["spec"]["template"]["spec"]
    return spec


def container(items: list[Object]) -> Object:
    found: Object
    [found] = pod(items)["containers"]
    return found


def environment(items: list[Object]) -> dict[str, Any]:
    return {
        item["name"]: item.get("value", item.get("valueFrom"))
        for item in container(items).get("env", [])
    }


def policy(items: list[Object]) -> Object:
    spec: Object = only(items, "NetworkPolicy", NAME)["spec"]
    return spec


def ports(rules: list[Object]) -> set[int]:
    return {port["port"] for rule in rules for port in rule["ports"]}


def test_there_is_no_server_unless_one_is_wanted(cluster: Cluster) -> None:
    assert NAME not in {item["metadata"]["name"] for item in render(cluster)}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["server.enabled=true"], "server.enabled without an agent: describe one in server.agents"),
        ([*ON, "server.agentFiles.files={a.yaml}"], "name it in server.agentFiles.configMap"),
        ([*ON, "server.credentials.KEY.name=x"], "missing property 'key'"),
        ([*ON, "server.token.existing=x"], "additional properties 'existing' not allowed"),
        ([*ON, "server.auth=kubernetes"], "value must be one of 'Kubernetes', 'Token'"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    cluster: Cluster, settings: list[str], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        render(cluster, *settings)


def test_the_server_may_look_at_tasks_and_sessions_and_at_nothing_else(cluster: Cluster) -> None:
    items = render(cluster, *ON)
    assert rights(only(items, "Role", NAME)) == RIGHTS
    assert "--namespace=default" in container(items)["args"]
    assert pod(items)["automountServiceAccountToken"]
    assert not only(items, "ServiceAccount", NAME)["automountServiceAccountToken"]


def test_it_looks_where_the_operator_does(cluster: Cluster) -> None:
    names = "{team-a,team-b}"
    items = render(cluster, *ON, f"watchNamespaces={names}", f"workers.namespaces={names}")
    roles = [i for i in items if i["kind"] == "Role" and i["metadata"]["name"] == NAME]
    assert [role["metadata"]["namespace"] for role in roles] == ["team-a", "team-b"]
    assert all(rights(role) == RIGHTS for role in roles)
    assert not any(
        name == "orbiter-system-orbiter-server" for _, name in named(items, "ClusterRole")
    )
    assert "--namespace=team-a,team-b" in container(items)["args"]


def test_where_any_namespace_may_be_labelled_it_looks_everywhere(cluster: Cluster) -> None:
    items = render(cluster, *ON, "workers.namespaceSelector.matchLabels.team=yes")
    assert rights(only(items, "ClusterRole", "orbiter-system-orbiter-server")) == RIGHTS
    assert "--namespace=*" in container(items)["args"]


def test_every_rule_of_the_server_says_why_it_is_there(cluster: Cluster) -> None:
    lines = (CHART / "templates/_server.tpl").read_text().splitlines()
    rules = [
        before for before, line in itertools.pairwise(lines) if line.startswith("- apiGroups:")
    ]
    assert rules
    assert all(before.startswith("# ") for before in rules)


def test_its_agents_are_files_that_the_command_understands(
    cluster: Cluster, tmp_path: Path
) -> None:
    items = render(
        cluster,
        *ON,
        "server.agents.helper.handoffs={writer.yaml}",
        "server.agents.writer.name=scribe",
        "server.agents.both.agents={helper.yaml,writer.yaml}",
        "server.agentFiles.configMap=mine",
        "server.agentFiles.files={more.yaml}",
    )
    for file, text in only(items, "ConfigMap", f"{NAME}-agents")["data"].items():
        (tmp_path / file).write_text(text)
    place = "/etc/orbiter/agents"
    assert container(items)["args"][7:] == [
        *(f"{name}={place}/{name}.yaml" for name in ("both", "helper", "writer")),
        f"{place}/more.yaml",
    ]
    helper = load_agent(str(tmp_path / "helper.yaml")).target
    assert (helper.name, helper.handoffs[0].name) == ("helper", "scribe")
    assert len(load_agent(str(tmp_path / "both.yaml")).target.agents) == 2
    [agents] = [volume for volume in pod(items)["volumes"] if volume["name"] == "agents"]
    sources = agents["projected"]["sources"]
    assert [s["configMap"]["name"] for s in sources] == [f"{NAME}-agents", "mine"]


def test_keys_and_token_come_from_secrets_only(cluster: Cluster) -> None:
    items = render(
        cluster,
        *TOKEN,
        "server.credentials.OPENAI_API_KEY.name=keys",
        "server.credentials.OPENAI_API_KEY.key=openai",
        "server.env.OPENAI_BASE_URL=http://models.example.com/v1",
    )
    assert environment(items) == {
        "ORBITER_SERVER_TOKEN": {"secretKeyRef": {"name": f"{NAME}-token", "key": "token"}},
        "OPENAI_API_KEY": {"secretKeyRef": {"name": "keys", "key": "openai"}},
        "OPENAI_BASE_URL": "http://models.example.com/v1",
    }
    assert plan(items)["orbiter-system", f"{NAME}-token"].passwords == ("token",)


def test_a_token_of_ones_own_replaces_the_generated_one(cluster: Cluster) -> None:
    items = render(cluster, *TOKEN, "server.token.existingSecret=mine", "server.token.key=t")
    assert f"{NAME}-token" not in {name for _, name in plan(items)}
    assert environment(items)["ORBITER_SERVER_TOKEN"] == {
        "secretKeyRef": {"name": "mine", "key": "t"}
    }


def test_people_are_judged_by_the_cluster_unless_one_token_is_wanted(cluster: Cluster) -> None:
    items = render(cluster, *ON)
    assert {"--auth=kubernetes", "--audience=orbiter-server"} <= set(container(items)["args"])
    assert "ORBITER_SERVER_TOKEN" not in environment(items)
    assert f"{NAME}-token" not in {name for _, name in plan(items)}
    reviews = f"orbiter-system-{NAME}-reviews"
    assert rights(only(items, "ClusterRole", reviews)) == {
        ("authentication.k8s.io", "tokenreviews"): {"create"},
        ("authorization.k8s.io", "subjectaccessreviews"): {"create"},
    }
    binding = only(items, "ClusterRoleBinding", reviews)
    assert binding["roleRef"]["name"] == reviews
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": "orbiter-system"}
    assert binding["subjects"] == [account]
    items = render(cluster, *ON, "server.audience=")
    assert "--audience=" in container(items)["args"]
    items = render(cluster, *TOKEN)
    assert not any("auth" in word for word in container(items)["args"])
    assert reviews not in {name for _, name in named(items, "ClusterRole")}
    assert f"{NAME}-user" not in {name for _, name in named(items, "Role")}


def test_the_right_to_talk_to_agents_is_a_role_that_nobody_has_yet(cluster: Cluster) -> None:
    items = render(cluster, *ON)
    role = only(items, "Role", f"{NAME}-user")
    assert rights(role) == {("orbiter.dev", "agents"): {"use"}}
    assert role["metadata"]["namespace"] == "orbiter-system"
    bindings = [item for item in items if item["kind"] == "RoleBinding"]
    assert f"{NAME}-user" not in {item["roleRef"]["name"] for item in bindings}


def test_conversations_live_in_the_pod_or_on_a_volume_that_stays(cluster: Cluster) -> None:
    items = render(cluster, *ON)
    assert named(items, "PersistentVolumeClaim") == set()
    assert {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}} in pod(items)["volumes"]
    items = render(cluster, *ON, "server.persistence.enabled=true", "server.persistence.size=5Gi")
    claim = only(items, "PersistentVolumeClaim", NAME)
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": NAME}}
    assert mounted in pod(items)["volumes"]


def test_nobody_reaches_it_who_is_not_named_and_it_reaches_no_redis(cluster: Cluster) -> None:
    rules = policy(render(cluster, *ON))
    assert rules["ingress"] == []
    assert ports(rules["egress"]) == {53, 443, 6443}
    named_ones = "networkPolicy.serverClients[0].podSelector.matchLabels.app=gateway"
    model = "networkPolicy.modelServer.enabled=true"
    rules = policy(render(cluster, *ON, named_ones, model))
    [rule] = rules["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app": "gateway"}}}]
    assert ports(rules["egress"]) == {53, 443, 6443, 8080}


def test_prometheus_is_told_of_its_metrics_and_of_the_token_for_them(cluster: Cluster) -> None:
    items = render(cluster, *TOKEN, "metrics.serviceMonitor.enabled=true")
    [endpoint] = only(items, "ServiceMonitor", NAME)["spec"]["endpoints"]
    assert endpoint["port"] == "http"
    credentials = {"credentials": {"name": f"{NAME}-token", "key": "token"}}
    assert endpoint["authorization"] == credentials
    assert policy(items)["ingress"][0]["from"] == [{"namespaceSelector": {}}]
    items = render(cluster, *ON, "metrics.serviceMonitor.enabled=true")
    [endpoint] = only(items, "ServiceMonitor", NAME)["spec"]["endpoints"]
    account = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    assert endpoint == {"port": "http", "interval": "30s", "bearerTokenFile": account}


def test_helm_says_how_to_open_the_page(cluster: Cluster) -> None:
    # A name and a namespace that no release on this cluster has.
    words = ("install", "notes", str(CHART), "-n", "chart-notes", "--dry-run=client")
    words += ("--set", "crds.install=false")

    def told(*settings: str) -> str:
        flags = [word for setting in settings for word in ("--set", setting)]
        return cluster.helm(*words, *flags).split("NOTES:")[1]

    notes = told(*ON, "workers.namespaces={chart-notes}")
    assert "kubectl -n chart-notes port-forward service/notes-orbiter-server 8000" in notes
    assert "kubectl -n chart-notes create token SERVICEACCOUNT --audience=orbiter-server" in notes
    assert "create rolebinding NAME --role=notes-orbiter-server-user" in notes
    assert "get secret" not in notes
    notes = told(*TOKEN, "workers.namespaces={chart-notes}")
    assert "kubectl -n chart-notes port-forward service/notes-orbiter-server 8000" in notes
    assert "get secret notes-orbiter-server-token" in notes
    assert '{{ index .data "token" | base64decode }}' in notes


def test_other_agents_are_another_pod(cluster: Cluster) -> None:
    def annotations(*settings: str) -> Object:
        template = only(render(cluster, *settings), "Deployment", NAME)["spec"]["template"]
        found: Object = template["metadata"]["annotations"]
        return found

    before = annotations(*ON)
    assert annotations(*ON) == before
    assert annotations(*ON, "server.agents.helper.instructions=Be brief.") != before
